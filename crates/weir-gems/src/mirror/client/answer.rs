//! A response whose head was received. Its body is counted as it arrives.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{self, HeaderName};
use weir_net::http_client::{HttpError, HttpResponse};

use super::FetchError;
use super::health::Health;
use crate::metrics::UpstreamMetrics;

#[derive(Debug)]
pub(in crate::mirror) struct Answer {
    response: HttpResponse,
    metrics: UpstreamMetrics,
    health: Arc<Health>,
}

/// Returns the target of a redirect.
pub(super) fn location(response: &HttpResponse) -> Option<String> {
    match response.status().as_u16() {
        301 | 302 | 303 | 307 | 308 => response.header(&header::LOCATION).map(str::to_owned),
        _ => None,
    }
}

/// Returns the response if it is usable, or an error that describes why it is not.
pub(super) fn judged(response: HttpResponse) -> Result<HttpResponse, FetchError> {
    let status = response.status();
    match status.as_u16() {
        200 | 206 | 304 | 404 | 410 | 416 => Ok(response),
        401 | 403 | 407 => Err(FetchError::Denied(status)),
        429 | 503 => {
            let seconds = response.header(&header::RETRY_AFTER).and_then(|text| text.parse().ok());
            Err(FetchError::Busy { status, retry_after: seconds.map(Duration::from_secs) })
        }
        _ => Err(FetchError::Status(status)),
    }
}

impl Answer {
    pub(super) const fn new(
        response: HttpResponse,
        metrics: UpstreamMetrics,
        health: Arc<Health>,
    ) -> Self {
        Self { response, metrics, health }
    }

    pub(in crate::mirror) const fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(in crate::mirror) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.header(name)
    }

    /// Returns the next piece, or None at the end of a complete body.
    pub(in crate::mirror) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        let chunk = self.response.chunk().await;
        let received = chunk.as_ref().map(|chunk| chunk.as_ref().map_or(0, Bytes::len));
        self.count(received);
        Ok(chunk?)
    }

    /// Reads the whole text, at most `bytes_max` bytes.
    pub(super) async fn text(mut self, bytes_max: usize) -> Result<Vec<u8>, FetchError> {
        let text = self.response.read_to_end(bytes_max).await;
        self.count(text.as_ref().map(Vec::len));
        Ok(text?)
    }

    fn count(&self, received: Result<usize, &HttpError>) {
        match received {
            Ok(bytes) => self.metrics.received(bytes as u64),
            Err(error) => {
                self.metrics.failed(super::error::reason(error));
                if super::error::is_outage(error) {
                    self.health.failed();
                }
            }
        }
    }
}
