//! The server that takes webhooks, and one attempt.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, StatusCode};

use super::failure::DeliveryError;
use crate::http_client::{
    BoxFuture, ClientSettings, HttpClient, HttpRequest, HttpUrl, Reach, Server,
};

/// One receiver, with a connection that is opened when it is first needed.
#[derive(Debug)]
pub struct Receiver {
    client: HttpClient,
    response_bytes_max: usize,
}

/// A request with a JSON body, to which the sender adds what proves its origin.
#[must_use]
pub fn json_post(url: &HttpUrl, body: impl Into<Bytes>) -> HttpRequest {
    let mut request = HttpRequest::new(Method::POST, url.target().clone(), body.into());
    // Pusher's library for Node takes no other: a charset would spoil it.
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.insert(USER_AGENT, HeaderValue::from_static("weir"));
    request
}

/// Takes requests, one at a time. The seam where tests put a receiver of their own.
pub trait Transport: Send + Sync {
    /// One attempt, which ends by itself. Any status from 200 to 299 is success.
    ///
    /// # Errors
    /// Why it did not succeed. The receiver may have got the request all the same.
    fn post(&self, request: HttpRequest) -> BoxFuture<'_, Result<(), DeliveryError>>;
}

impl Receiver {
    /// Not connected yet. What is read of a response's body is limited like its head.
    #[must_use]
    pub fn new(url: HttpUrl, settings: Arc<ClientSettings>) -> Self {
        let response_bytes_max = settings.head_bytes_max;
        let server = Server::Web { url, nearest: Reach::Special };
        Self { client: HttpClient::new(server, settings), response_bytes_max }
    }
}

impl Transport for Receiver {
    fn post(&self, request: HttpRequest) -> BoxFuture<'_, Result<(), DeliveryError>> {
        Box::pin(async {
            let response = self.client.send(request).await?;
            let status = response.status();
            // The status says it all; the body is read only to use the connection again.
            response.discard(self.response_bytes_max).await;
            judge(status)
        })
    }
}

const fn judge(status: StatusCode) -> Result<(), DeliveryError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(DeliveryError::Redirect(status)),
        _ => Err(DeliveryError::Status(status)),
    }
}
