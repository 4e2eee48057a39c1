//! The task of one endpoint: takes batches from its queue, one at a time, and sends each until it
//! arrives or is too old.

use std::sync::Arc;

use tokio::time::{Instant, sleep};
use weir_base::backoff::Backoff;
use weir_base::seldom::Seldom;
use weir_base::semaphore::OwnedPermit;
use weir_net::webhook::{DeliveryError, Transport};

use super::batch::EventBatch;
use super::queue::EndpointQueue;
use super::request::signed_request;
use super::shared::WebhookContext;

/// One endpoint's sender.
pub(super) struct EndpointSender {
    queue: Arc<EndpointQueue>,
    shared: Arc<WebhookContext>,
    transport: Box<dyn Transport>,
    backoff: Backoff,
    failing_since: Option<Instant>,
    log: Seldom,
}

impl EndpointSender {
    pub(super) fn new(
        queue: Arc<EndpointQueue>,
        shared: Arc<WebhookContext>,
        transport: Box<dyn Transport>,
    ) -> Self {
        let settings = &shared.settings;
        let random = fastrand::Rng::new();
        let backoff = Backoff::new(settings.retry_delay_min, settings.retry_delay_max, random);
        let log = Seldom::default();
        Self { queue, shared, transport, backoff, failing_since: None, log }
    }

    /// Ends when the queue is closed and empty.
    pub(super) async fn run(mut self) {
        while self.queue.wait_for_batch().await {
            let permit = self.permit().await;
            // After the permit: what came while there was none goes along.
            let Some(batch) = self.queue.take_batch() else { continue };
            let is_last_attempt = self.shared.ending.is_requested();
            let result = self.attempt(&batch).await;
            drop(permit);
            match result {
                Ok(()) => self.delivered(&batch),
                Err(error) => self.failed(batch, &error, is_last_attempt).await,
            }
        }
    }

    /// Never waits in line: a line in front of dead receivers would be one of the living behind
    /// them.
    async fn permit(&mut self) -> OwnedPermit {
        loop {
            match self.shared.semaphore.try_acquire_owned() {
                Ok(permit) => return permit,
                Err(_) => {
                    self.shared.metrics.without_permit.inc();
                    sleep(self.backoff.jittered(self.shared.settings.permit_delay)).await;
                }
            }
        }
    }

    async fn attempt(&mut self, batch: &EventBatch) -> Result<(), DeliveryError> {
        self.shared.metrics.attempts.inc();
        let request = signed_request(batch, self.shared.clock.now())?;
        self.transport.post(request).await
    }

    fn delivered(&mut self, batch: &EventBatch) {
        self.queue.delivered(batch);
        self.backoff.reset();
        if let Some(since) = self.failing_since.take() {
            let seconds = since.elapsed().as_secs();
            let destination = &batch.destination;
            tracing::info!(
                app = &*destination.app.app_id,
                endpoint = %destination.endpoint.url,
                "webhooks are taken again, after {seconds} s"
            );
        }
    }

    async fn failed(&mut self, batch: EventBatch, error: &DeliveryError, is_last_attempt: bool) {
        self.shared.metrics.failed(error.reason()).inc();
        self.failing_since.get_or_insert_with(Instant::now);
        let destination = batch.destination.clone();
        let dropped = self.queue.put_back(batch);
        if self.log.is_due(self.shared.clock.now()) {
            tracing::warn!(
                app = &*destination.app.app_id,
                endpoint = %destination.endpoint.url,
                dropped,
                "webhooks could not be sent: {error}. Each event is tried for \
                 realtime.webhooks.retry_for, then dropped"
            );
        }
        if is_last_attempt {
            self.queue.give_up();
            return;
        }
        let delay = self.backoff.next_delay();
        tokio::select! {
            () = sleep(delay) => {}
            () = self.shared.ending.requested() => {}
        }
    }
}
