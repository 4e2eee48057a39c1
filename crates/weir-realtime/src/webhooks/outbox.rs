//! Batches from one endpoint's queue. Each is retried until it is delivered or too old.

use std::future::ready;
use std::sync::Arc;

use tokio::time::sleep;
use weir_base::backoff::Backoff;
use weir_base::seldom::Seldom;
use weir_base::semaphore::OwnedPermit;
use weir_net::http_client::{BoxFuture, HttpRequest};
use weir_net::webhook::{DeliveryError, Outbox};

use super::batch::EventBatch;
use super::queue::EndpointQueue;
use super::request::signed_request;
use super::shared::WebhookContext;

/// One endpoint's queue, with the semaphore that all endpoints share.
pub(super) struct EndpointOutbox {
    queue: Arc<EndpointQueue>,
    shared: Arc<WebhookContext>,
    /// Held while a request is in progress.
    permit: Option<OwnedPermit>,
    permit_delay: Backoff,
    is_last_attempt: bool,
    log: Seldom,
}

impl EndpointOutbox {
    pub(super) fn new(queue: Arc<EndpointQueue>, shared: Arc<WebhookContext>) -> Self {
        let delay = shared.settings.permit_delay;
        let permit_delay = Backoff::new(delay, delay, fastrand::Rng::new());
        let log = Seldom::default();
        Self { queue, shared, permit: None, permit_delay, is_last_attempt: false, log }
    }

    async fn next_batch(&mut self) -> Option<EventBatch> {
        while self.queue.wait_for_batch().await {
            let permit = self.permit().await;
            // Take the batch after the permit, to include events that arrived in between.
            let Some(batch) = self.queue.take_batch() else { continue };
            self.permit = Some(permit);
            self.is_last_attempt = self.shared.endpoint_shutdown.is_requested();
            return Some(batch);
        }
        None
    }

    /// Returns a permit. Retries after a delay instead of queueing for it: requests to dead
    /// receivers would make those to live ones wait in the same queue.
    async fn permit(&mut self) -> OwnedPermit {
        loop {
            match self.shared.semaphore.try_acquire_owned() {
                Ok(permit) => return permit,
                Err(_) => {
                    self.shared.metrics.without_permit.inc();
                    sleep(self.permit_delay.next_delay()).await;
                }
            }
        }
    }

    async fn put_back(&mut self, batch: EventBatch, error: &DeliveryError, backoff: &mut Backoff) {
        self.permit = None;
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
        if self.is_last_attempt {
            self.queue.drop_all();
            return;
        }
        tokio::select! {
            () = sleep(backoff.next_delay()) => {}
            () = self.shared.endpoint_shutdown.requested() => {}
        }
    }
}

impl Outbox for EndpointOutbox {
    type Batch = EventBatch;

    fn next(&mut self) -> BoxFuture<'_, Option<EventBatch>> {
        Box::pin(self.next_batch())
    }

    fn request(&self, batch: &EventBatch) -> Result<HttpRequest, DeliveryError> {
        signed_request(batch, self.shared.clock.now())
    }

    fn delivered(&mut self, batch: EventBatch) -> BoxFuture<'_, ()> {
        self.permit = None;
        self.queue.delivered(&batch);
        Box::pin(ready(()))
    }

    fn failed<'a>(
        &'a mut self,
        batch: EventBatch,
        error: &'a DeliveryError,
        backoff: &'a mut Backoff,
    ) -> BoxFuture<'a, ()> {
        Box::pin(self.put_back(batch, error, backoff))
    }
}
