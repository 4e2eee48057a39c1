//! The receiver of webhooks, and an attempt to deliver.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, StatusCode};

use super::failure::DeliveryError;
use crate::http_client::{
    BoxFuture, ClientSettings, HttpClient, HttpRequest, HttpUrl, Reach, Server,
};

/// A receiver. The connection is opened for the first request.
#[derive(Debug)]
pub struct Receiver {
    client: HttpClient,
    response_bytes_max: usize,
}

/// Creates a request with a JSON body. The caller adds the signature.
#[must_use]
pub fn json_post(url: &HttpUrl, body: impl Into<Bytes>) -> HttpRequest {
    let mut request = HttpRequest::new(Method::POST, url.target().clone(), body.into());
    // Without a charset, because Pusher's library for Node accepts only this value.
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers.insert(USER_AGENT, HeaderValue::from_static("weir"));
    request
}

/// Sends requests, one at a time. Tests replace it.
pub trait Transport: Send + Sync {
    /// Sends one request, within a time limit. Any status from 200 to 299 is a success.
    ///
    /// # Errors
    /// Fails if there is none. The receiver may have received the request all the same.
    fn post(&self, request: HttpRequest) -> BoxFuture<'_, Result<(), DeliveryError>>;
}

impl Receiver {
    /// Creates a receiver without connecting. The limit of a response's head applies to its body,
    /// too.
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
            let mut response = self.client.send(request).await?;
            // Only the status matters; the body is read so that the connection can be reused.
            drop(response.read_to_end(self.response_bytes_max).await);
            check_status(response.status())
        })
    }
}

const fn check_status(status: StatusCode) -> Result<(), DeliveryError> {
    match status.as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(DeliveryError::Redirect(status)),
        _ => Err(DeliveryError::Status(status)),
    }
}
