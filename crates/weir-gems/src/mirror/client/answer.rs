//! An answer whose head has come, and its body as long as the upstream goes on with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::FetchError;
use super::connection::Connection;
use super::health::Health;
use super::pool::Pool;
use super::reach::Reach;
use crate::metrics::UpstreamMetrics;

/// How long a body may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) deadline: Instant,
    pub(super) silence: Duration,
}

#[derive(Debug)]
pub(in crate::mirror) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    reach: Reach,
    /// Goes back into the pool with the end of the body.
    connection: Option<Connection>,
    pool: Option<Arc<Pool>>,
    patience: Patience,
    metrics: UpstreamMetrics,
    health: Arc<Health>,
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        connection: Connection,
        pool: Option<Arc<Pool>>,
        patience: Patience,
        (metrics, health): (UpstreamMetrics, Arc<Health>),
    ) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            reach: connection.reach,
            connection: Some(connection),
            pool,
            patience,
            metrics,
            health,
        }
    }

    pub(in crate::mirror) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(in crate::mirror) fn header(&self, name: impl Into<HeaderName>) -> Option<&str> {
        self.headers.get(name.into()).and_then(|value| value.to_str().ok())
    }

    /// Where the server is that has sent it.
    pub(super) const fn reach(&self) -> Reach {
        self.reach
    }

    /// Where it sends us on to.
    pub(super) fn location(&self) -> Option<String> {
        match self.status.as_u16() {
            301 | 302 | 303 | 307 | 308 => self.header(header::LOCATION).map(str::to_owned),
            _ => None,
        }
    }

    /// What is of use, or why it is not.
    pub(super) fn judged(self) -> Result<Self, FetchError> {
        let status = self.status;
        match status.as_u16() {
            200 | 206 | 304 | 404 | 410 | 416 => Ok(self),
            401 | 403 | 407 => Err(FetchError::Denied(status)),
            429 | 503 => {
                let seconds = self.header(header::RETRY_AFTER).and_then(|text| text.parse().ok());
                Err(FetchError::Busy { status, retry_after: seconds.map(Duration::from_secs) })
            }
            _ => Err(FetchError::Status(status)),
        }
    }

    /// The next piece; None: the body has ended as it should.
    pub(in crate::mirror) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        let chunk = self.chunk_without_count().await;
        if let Err(error) = &chunk {
            self.metrics.failed(error.reason());
            self.health.failed();
        }
        chunk
    }

    async fn chunk_without_count(&mut self) -> Result<Option<Bytes>, FetchError> {
        loop {
            let silence = Instant::now() + self.patience.silence;
            let limit = silence.min(self.patience.deadline);
            let frame = timeout_at(limit, self.body.frame()).await.map_err(|_| {
                match Instant::now() >= self.patience.deadline {
                    true => FetchError::Late,
                    false => FetchError::Silence,
                }
            })?;
            let Some(frame) = frame.transpose().map_err(FetchError::Http)? else {
                if let (Some(pool), Some(connection)) = (&self.pool, self.connection.take()) {
                    pool.give_back(connection);
                }
                return Ok(None);
            };
            // Trailers say nothing here.
            if let Ok(data) = frame.into_data() {
                self.metrics.received(data.len() as u64);
                return Ok(Some(data));
            }
        }
    }
}
