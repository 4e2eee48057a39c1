//! Delivers the events of one receiver: one request at a time, with retries.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use weir_base::backoff::Backoff;

use super::failure::DeliveryError;
use super::metrics::DeliveryMetrics;
use super::receiver::Transport;
use crate::http_client::{BoxFuture, HttpRequest};

/// The queue of one receiver's events, in memory or in a table. It decides what is sent next, and
/// about retries, within limits of its own.
pub trait Outbox: Send {
    /// The events of one request.
    type Batch: Send + Sync;

    /// Waits for the next batch. None: the outbox has ended.
    fn next(&mut self) -> BoxFuture<'_, Option<Self::Batch>>;

    /// Creates the signed request; called for each attempt.
    ///
    /// # Errors
    /// Fails if the request cannot be created.
    fn request(&self, batch: &Self::Batch) -> Result<HttpRequest, DeliveryError>;

    /// Called when the receiver has accepted the batch.
    fn delivered(&mut self, batch: Self::Batch) -> BoxFuture<'_, ()>;

    /// Called when an attempt failed: keeps or drops the batch, and waits as `backoff` says.
    fn failed<'a>(
        &'a mut self,
        batch: Self::Batch,
        error: &'a DeliveryError,
        backoff: &'a mut Backoff,
    ) -> BoxFuture<'a, ()>;
}

/// Delivers the batches of an outbox.
pub struct WebhookDelivery<O> {
    outbox: O,
    transport: Box<dyn Transport>,
    metrics: DeliveryMetrics,
    backoff: Backoff,
    failing_since: Option<Instant>,
    /// Source and receiver, for the log.
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
    /// Creates a delivery, which [`run`](Self::run) starts. `retry_delays`: the wait after the
    /// first failure, which doubles with each further failure, and its maximum.
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

    /// Delivers batches until the outbox ends.
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
