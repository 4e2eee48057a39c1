//! A response: its head, and its body as it arrives.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::http::response::Parts;
use hyper::{Response, StatusCode};

use super::connection::Connection;
use super::pool::ConnectionPool;
use super::reach::Reach;
use super::time_limit::ResponseLimits;
use super::{BoxFuture, HttpError};

/// A response. Once its body was read to the end, its connection can serve another request.
#[derive(Debug)]
pub struct HttpResponse {
    head: Parts,
    body: Incoming,
    reach: Reach,
    connection: Option<Connection>,
    pool: Arc<ConnectionPool>,
    limits: ResponseLimits,
}

impl HttpResponse {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        pool: Arc<ConnectionPool>,
        limits: ResponseLimits,
    ) -> Self {
        let (head, body) = response.into_parts();
        let reach = connection.reach;
        Self { head, body, reach, connection: Some(connection), pool, limits }
    }

    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Returns the value of a header if it is text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.head.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns how near the server's address is.
    #[must_use]
    pub const fn reach(&self) -> Reach {
        self.reach
    }

    /// Returns the next piece of the body. None: the end.
    ///
    /// # Errors
    /// Fails if a time limit was exceeded or the body ended early.
    pub fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpError>> {
        Box::pin(self.next_chunk())
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    /// Fails if a time limit was exceeded, the body ended early, or it exceeds `bytes_max`.
    pub fn read_to_end(&mut self, bytes_max: usize) -> BoxFuture<'_, Result<Vec<u8>, HttpError>> {
        Box::pin(async move {
            let mut body = Vec::new();
            while let Some(chunk) = self.next_chunk().await? {
                if body.len() + chunk.len() > bytes_max {
                    return Err(HttpError::TooLarge(bytes_max));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        })
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = self.limits.wait(self.body.frame()).await?;
            let frame = frame.transpose().map_err(|error| HttpError::from_hyper(error, true))?;
            let Some(frame) = frame else {
                if let Some(connection) = self.connection.take() {
                    self.pool.put_back(connection);
                }
                return Ok(None);
            };
            // Trailers are ignored.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}
