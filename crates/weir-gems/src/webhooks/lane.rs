//! One endpoint: takes its next events, sends them one after the other, notes what became of each.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use weir_base::backoff::Backoff;
use weir_base::clock::Timestamp;
use weir_base::seldom::Seldom;
use weir_net::webhook::{DeliveryError, Receiver, Transport};

use super::metrics::DropReason;
use super::request::signed;
use super::sender::Parts;
use super::settings::WebhookEndpoint;
use crate::store::StoreError;
use crate::store::webhooks::{Claim, Claimed, Settled, WebhookEvent, WebhookStore};

/// An endpoint's sender.
pub(super) struct Lane {
    parts: Arc<Parts>,
    endpoint: WebhookEndpoint,
    receiver: Receiver,
    backoff: Backoff,
    /// Something was pushed here.
    changes: watch::Receiver<()>,
    log: Seldom,
}

/// What to do after some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// There may be more.
    GoOn,
    /// Nothing can be done before this.
    Wait(Duration),
}

impl Lane {
    pub(super) fn new(parts: Arc<Parts>, endpoint: WebhookEndpoint) -> Self {
        let settings = &parts.settings;
        let receiver = Receiver::new(endpoint.url.clone(), Arc::new(settings.client_settings()));
        let (min, max) = (settings.retry_delay_min, settings.retry_delay_max);
        let backoff = Backoff::new(min, max, fastrand::Rng::new());
        let changes = parts.store.changes();
        Self { parts, endpoint, receiver, backoff, changes, log: Seldom::default() }
    }

    pub(super) async fn run(mut self) {
        while !self.parts.shutdown.is_requested() {
            // Before the look: what comes behind it is seen again.
            self.changes.mark_unchanged();
            let next = match self.turn().await {
                Ok(next) => next,
                Err(error) => {
                    self.warn(format_args!("wait for the store: {error}"));
                    Next::Wait(self.parts.settings.poll_interval)
                }
            };
            if let Next::Wait(time) = next {
                self.wait(time).await;
            }
        }
    }

    /// Sends what is there, up to the first that can't be sent.
    async fn turn(&mut self) -> Result<Next, StoreError> {
        let settings = &self.parts.settings;
        let now = self.parts.clock.now();
        let claim = Claim {
            endpoint: self.endpoint.name.clone(),
            holder: self.parts.holder.clone(),
            held_until: now + settings.claim_time(),
            events_max: settings.limits.batch_events_max,
        };
        let idle = Next::Wait(settings.poll_interval);
        if !self.is_due(now).await? {
            return Ok(idle);
        }
        let claimed = self.parts.store.claim_webhooks(claim, now).await?;
        let Some(Claimed { events, failures, dropped }) = claimed else { return Ok(idle) };
        if dropped > 0 {
            self.parts.metrics.dropped(DropReason::EventsMax, dropped);
            self.warn(format_args!("dropped {dropped} events (gems.webhooks.limits.events_max)"));
        }
        self.send(&events, failures).await
    }

    /// Whether there is anything to claim: asked without a write.
    async fn is_due(&self, now: Timestamp) -> Result<bool, StoreError> {
        let states = self.parts.store.webhook_endpoints().await?;
        let state = states.into_iter().find(|state| state.name == self.endpoint.name);
        Ok(state.is_some_and(|state| {
            let is_held = state.held_until.is_some_and(|until| until > now);
            state.waiting > 0 && state.due_at <= now && !is_held
        }))
    }

    async fn send(
        &mut self,
        events: &[WebhookEvent],
        mut failures: u32,
    ) -> Result<Next, StoreError> {
        let mut done = None;
        for (index, event) in events.iter().enumerate() {
            if !self.endpoint.wants(event) {
                self.parts.metrics.unwanted.inc();
                done = Some(event.id);
                continue;
            }
            if self.parts.shutdown.is_requested() {
                break;
            }
            match self.attempt(event).await {
                Ok(()) => {
                    let now = self.parts.clock.now();
                    self.parts.metrics.sent(now.since(event.at));
                    (done, failures) = (Some(event.id), 0);
                    let is_last = index + 1 == events.len();
                    let held_until = (!is_last).then(|| now + self.parts.settings.claim_time());
                    if !self.settle(done, 0, now, held_until).await? || is_last {
                        return Ok(Next::GoOn);
                    }
                }
                Err(error) => return self.failed(event, done, failures, &error).await,
            }
        }
        self.settle(done, failures, self.parts.clock.now(), None).await?;
        Ok(Next::GoOn)
    }

    async fn attempt(&mut self, event: &WebhookEvent) -> Result<(), DeliveryError> {
        self.parts.metrics.attempts.inc();
        let public_url = self.parts.settings.public_url.as_deref();
        self.receiver.post(signed(event, &self.endpoint, public_url)).await
    }

    /// The event is tried again, unless it is too old.
    async fn failed(
        &mut self,
        event: &WebhookEvent,
        done: Option<u64>,
        failures: u32,
        error: &DeliveryError,
    ) -> Result<Next, StoreError> {
        self.parts.metrics.failed(error);
        let now = self.parts.clock.now();
        let failures = failures.saturating_add(1);
        let delay = self.backoff.after(failures);
        let is_given_up = now.since(event.at) >= self.parts.settings.retry_for;
        let done = if is_given_up { Some(event.id) } else { done };
        let what = match is_given_up {
            true => "given up (gems.webhooks.retry_for)",
            false => "tried again",
        };
        let WebhookEvent { name, number, .. } = event;
        self.warn(format_args!("could not be sent: {error}; {name} {number} is {what}"));
        if self.settle(done, failures, now + delay, None).await? && is_given_up {
            self.parts.metrics.dropped(DropReason::RetryFor, 1);
        }
        Ok(Next::Wait(delay.min(self.parts.settings.poll_interval)))
    }

    /// False: another sender has the endpoint now.
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
