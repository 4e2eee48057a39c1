//! The sender of one receiver: one request at a time, again after a while if it failed.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use weir_base::backoff::Backoff;

use super::failure::DeliveryError;
use super::metrics::DeliveryMetrics;
use super::receiver::Transport;
use crate::http_client::{BoxFuture, HttpRequest};

/// Where one receiver's events wait: in memory, or in a table. It decides what is sent next and what
/// becomes of it, within limits of its own.
pub trait Outbox: Send {
    /// The events of one request.
    type Batch: Send + Sync;

    /// Waits for the next batch; None: there will not be another one.
    fn next(&mut self) -> BoxFuture<'_, Option<Self::Batch>>;

    /// The signed request, which is made for each attempt.
    ///
    /// # Errors
    /// What cannot be sent.
    fn request(&self, batch: &Self::Batch) -> Result<HttpRequest, DeliveryError>;

    /// The receiver has it.
    fn delivered(&mut self, batch: Self::Batch) -> BoxFuture<'_, ()>;

    /// The receiver does not have it: keeps it or drops it, and waits as long as `backoff` says.
    fn failed<'a>(
        &'a mut self,
        batch: Self::Batch,
        error: &'a DeliveryError,
        backoff: &'a mut Backoff,
    ) -> BoxFuture<'a, ()>;
}

/// Sends what an outbox has.
pub struct WebhookDelivery<O> {
    outbox: O,
    transport: Box<dyn Transport>,
    metrics: DeliveryMetrics,
    backoff: Backoff,
    failing_since: Option<Instant>,
    /// Whose events go where, for the log.
    route: String,
}

impl<O> fmt::Debug for WebhookDelivery<O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WebhookDelivery")
            .field("route", &self.route)
            .finish_non_exhaustive()
    }
}

impl<O: Outbox> WebhookDelivery<O> {
    /// Nothing is sent until it [`run`](Self::run)s. The wait after the first failure is the first of
    /// `retry_delays`; it doubles with every further one, up to the second.
    #[must_use]
    pub fn new(
        outbox: O,
        transport: Box<dyn Transport>,
        metrics: DeliveryMetrics,
        retry_delays: (Duration, Duration),
        route: String,
    ) -> Self {
        let backoff = Backoff::new(retry_delays.0, retry_delays.1, fastrand::Rng::new());
        Self { outbox, transport, metrics, backoff, failing_since: None, route }
    }

    /// Ends when the outbox does.
    pub async fn run(mut self) {
        while let Some(batch) = self.outbox.next().await {
            self.metrics.attempts.inc();
            match self.attempt(&batch).await {
                Ok(()) => {
                    self.recovered();
                    self.outbox.delivered(batch).await;
                }
                Err(error) => {
                    self.metrics.failed(error.reason()).inc();
                    self.failing_since.get_or_insert_with(Instant::now);
                    self.outbox.failed(batch, &error, &mut self.backoff).await;
                }
            }
        }
    }

    async fn attempt(&self, batch: &O::Batch) -> Result<(), DeliveryError> {
        let request = self.outbox.request(batch)?;
        self.transport.post(request).await
    }

    fn recovered(&mut self) {
        self.backoff.reset();
        if let Some(since) = self.failing_since.take() {
            let seconds = since.elapsed().as_secs();
            tracing::info!(route = self.route, "webhooks are accepted again, after {seconds} s");
        }
    }
}
