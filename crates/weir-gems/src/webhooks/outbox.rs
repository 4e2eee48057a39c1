//! Delivers the events of one endpoint: claims them from the store, sends them in order, and
//! settles them one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use weir_base::backoff::Backoff;
use weir_base::clock::Timestamp;
use weir_base::seldom::Seldom;
use weir_net::http_client::{BoxFuture, HttpRequest};
use weir_net::webhook::{DeliveryError, Outbox};

use super::metrics::DropReason;
use super::request::signed;
use super::sender::Parts;
use super::settings::WebhookEndpoint;
use crate::store::StoreError;
use crate::store::webhooks::{Claim, Claimed, Settled, WebhookEvent};

/// The events of one endpoint.
pub(super) struct EndpointOutbox {
    parts: Arc<Parts>,
    endpoint: WebhookEndpoint,
    claimed: Option<ClaimedEvents>,
    /// Changes after a push or yank in this process.
    changes: watch::Receiver<()>,
    log: Seldom,
}

/// Events that are claimed by this sender.
struct ClaimedEvents {
    waiting: VecDeque<WebhookEvent>,
    /// Number of the last settled event.
    done: Option<u64>,
    /// Number of failed attempts for the first waiting event.
    failures: u32,
}

/// What to do next.
enum Step {
    Send(WebhookEvent),
    /// Continue at once: there may be more events.
    GoOn,
    /// Wait this long before the next attempt.
    Wait(Duration),
}

impl EndpointOutbox {
    pub(super) fn new(parts: Arc<Parts>, endpoint: WebhookEndpoint) -> Self {
        let changes = parts.store.changes();
        Self { parts, endpoint, claimed: None, changes, log: Seldom::default() }
    }

    async fn next_event(&mut self) -> Option<WebhookEvent> {
        loop {
            let is_ending = self.parts.shutdown.is_requested();
            // Marked before reading the store, so that a later change is not missed.
            self.changes.mark_unchanged();
            let step = if is_ending { self.release().await } else { self.step().await };
            match step {
                _ if is_ending => return None,
                Ok(Step::Send(event)) => return Some(event),
                Ok(Step::GoOn) => {}
                Ok(Step::Wait(time)) => self.wait(time).await,
                Err(error) => self.store_failed(&error).await,
            }
        }
    }

    async fn step(&mut self) -> Result<Step, StoreError> {
        if let Some(claimed) = &mut self.claimed {
            while let Some(event) = claimed.waiting.pop_front() {
                if self.endpoint.wants(&event) {
                    return Ok(Step::Send(event));
                }
                self.parts.metrics.unwanted.inc();
                claimed.done = Some(event.id);
            }
            return self.release().await;
        }
        self.claim().await
    }

    /// Releases the claim, so that other senders can take the events.
    async fn release(&mut self) -> Result<Step, StoreError> {
        if let Some(ClaimedEvents { done, failures, .. }) = self.claimed.take() {
            self.settle(done, failures, self.parts.clock.now(), None).await?;
        }
        Ok(Step::GoOn)
    }

    async fn claim(&mut self) -> Result<Step, StoreError> {
        let settings = &self.parts.settings;
        let now = self.parts.clock.now();
        let claim = Claim {
            endpoint: self.endpoint.name.clone(),
            holder: self.parts.holder.clone(),
            held_until: now + settings.claim_time(),
            events_max: settings.limits.batch_events_max,
        };
        let idle = Step::Wait(settings.poll_interval);
        if !self.is_due(now).await? {
            return Ok(idle);
        }
        let claimed = self.parts.store.claim_webhooks(claim, now).await?;
        let Some(Claimed { events, failures, dropped }) = claimed else { return Ok(idle) };
        if dropped > 0 {
            self.parts.metrics.dropped(DropReason::EventsMax, dropped);
            self.warn(format_args!(
                "dropped {dropped} events (gems.webhooks.limits.advanced.events_max)"
            ));
        }
        self.claimed = Some(ClaimedEvents { waiting: events.into(), done: None, failures });
        Ok(Step::GoOn)
    }

    /// Returns whether there is anything to claim, without a write.
    async fn is_due(&self, now: Timestamp) -> Result<bool, StoreError> {
        let states = self.parts.store.webhook_endpoints().await?;
        let state = states.into_iter().find(|state| state.name == self.endpoint.name);
        Ok(state.is_some_and(|state| {
            let is_held = state.held_until.is_some_and(|until| until > now);
            state.waiting > 0 && state.due_at <= now && !is_held
        }))
    }

    async fn settle_delivered(&mut self, event: WebhookEvent) -> Result<(), StoreError> {
        let now = self.parts.clock.now();
        self.parts.metrics.sent(now.since(event.at));
        let is_last = self.claimed.as_ref().is_none_or(|claimed| claimed.waiting.is_empty());
        let held_until = (!is_last).then(|| now + self.parts.settings.claim_time());
        let is_ours = self.settle(Some(event.id), 0, now, held_until).await?;
        match &mut self.claimed {
            Some(claimed) if is_ours && !is_last => {
                (claimed.done, claimed.failures) = (Some(event.id), 0);
            }
            _ => self.claimed = None,
        }
        Ok(())
    }

    /// Settles a failed attempt: schedules a retry, or drops the event if it is too old. Returns
    /// how long to wait.
    async fn settle_failed(
        &mut self,
        event: WebhookEvent,
        error: &DeliveryError,
        backoff: &mut Backoff,
    ) -> Result<Duration, StoreError> {
        let claimed = self.claimed.take();
        let (done, failures) = claimed.map_or((None, 0), |it| (it.done, it.failures));
        let now = self.parts.clock.now();
        let failures = failures.saturating_add(1);
        let delay = backoff.after(failures);
        let is_given_up = now.since(event.at) >= self.parts.settings.retry_for;
        let done = if is_given_up { Some(event.id) } else { done };
        let what = match is_given_up {
            true => "given up (gems.webhooks.retry_for)",
            false => "tried again",
        };
        let WebhookEvent { name, number, .. } = &event;
        self.warn(format_args!("could not be sent: {error}; {name} {number} is {what}"));
        if self.settle(done, failures, now + delay, None).await? && is_given_up {
            self.parts.metrics.dropped(DropReason::RetryFor, 1);
        }
        Ok(delay.min(self.parts.settings.poll_interval))
    }

    /// Settles events. Returns false if another sender has claimed the endpoint.
    async fn settle(
        &self,
        done: Option<u64>,
        failures: u32,
        due_at: Timestamp,
        held_until: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let (endpoint, holder) = (self.endpoint.name.clone(), self.parts.holder.clone());
        let settled = Settled { endpoint, holder, done, failures, due_at, held_until };
        self.parts.store.settle_webhooks(settled).await
    }

    /// Handles an error of the store. The claim expires by itself.
    async fn store_failed(&mut self, error: &StoreError) {
        self.claimed = None;
        self.warn(format_args!("wait for the store: {error}"));
        self.wait(self.parts.settings.poll_interval).await;
    }

    async fn wait(&mut self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            changed = self.changes.changed() => if changed.is_err() {
                sleep(time).await;
            },
            () = self.parts.shutdown.requested() => {}
        }
    }

    fn warn(&self, what: std::fmt::Arguments<'_>) {
        if self.log.is_due(self.parts.clock.now()) {
            let endpoint = self.endpoint.name.as_str();
            tracing::warn!(endpoint, url = %self.endpoint.url, "gems webhooks {what}");
        }
    }
}

impl Outbox for EndpointOutbox {
    type Batch = WebhookEvent;

    fn next(&mut self) -> BoxFuture<'_, Option<WebhookEvent>> {
        Box::pin(self.next_event())
    }

    fn request(&self, event: &WebhookEvent) -> Result<HttpRequest, DeliveryError> {
        let public_url = self.parts.settings.public_url.as_deref();
        Ok(signed(event, &self.endpoint, public_url))
    }

    fn delivered(&mut self, event: WebhookEvent) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Err(error) = self.settle_delivered(event).await {
                self.store_failed(&error).await;
            }
        })
    }

    fn failed<'a>(
        &'a mut self,
        event: WebhookEvent,
        error: &'a DeliveryError,
        backoff: &'a mut Backoff,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async {
            match self.settle_failed(event, error, backoff).await {
                Ok(time) => self.wait(time).await,
                Err(error) => self.store_failed(&error).await,
            }
        })
    }
}
