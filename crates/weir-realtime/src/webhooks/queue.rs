//! Events queued for one endpoint.
//!
//! The queue is limited in events and bytes; beyond that, the oldest are dropped. It keeps the
//! order: a batch that failed returns to the front. Its lock is one of `std`: held for a few moves
//! in memory, never across an await.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::app_hooks::{AppHooks, WebhookEndpoint};
use super::batch::{Destination, EventBatch, QueuedEvent};
use super::metrics::DropReason;
use super::receipt::Receipt;
use super::shared::WebhookContext;

/// The worker fills the queue; the endpoint's own task empties it.
#[derive(Debug)]
pub(super) struct EndpointQueue {
    state: Mutex<EndpointQueueState>,
    changed: Notify,
    shared: Arc<WebhookContext>,
}

#[derive(Debug)]
struct EndpointQueueState {
    events: VecDeque<QueuedEvent>,
    bytes: usize,
    /// Number of events in the batch in progress.
    in_flight: usize,
    destination: Destination,
    closed: bool,
    last_used: Instant,
}

enum QueueStep {
    Batch,
    BatchAt(Instant),
    Nothing,
    End,
}

impl EndpointQueue {
    pub(super) fn new(destination: Destination, shared: Arc<WebhookContext>) -> Self {
        let state = EndpointQueueState {
            events: VecDeque::new(),
            bytes: 0,
            in_flight: 0,
            destination,
            closed: false,
            last_used: Instant::now(),
        };
        Self { state: Mutex::new(state), changed: Notify::new(), shared }
    }

    /// Appends an event. Returns the limit that was exceeded if older events were dropped for it.
    pub(super) fn push(
        &self,
        app: &Arc<AppHooks>,
        endpoint: &Arc<WebhookEndpoint>,
        (json, receipt): (Arc<RawValue>, Option<Receipt>),
    ) -> Option<DropReason> {
        let mut state = self.lock();
        state.destination = Destination { app: Arc::clone(app), endpoint: Arc::clone(endpoint) };
        state.last_used = Instant::now();
        let was_empty = state.events.is_empty();
        state.bytes += json.get().len();
        let since = state.last_used;
        state.events.push_back(QueuedEvent { json, since, receipt });
        self.shared.metrics.queued.inc();
        self.shared.metrics.waiting.inc();
        let dropped = self.trim(&mut state);
        if was_empty || self.is_full_batch(&state) {
            self.changed.notify_one();
        }
        dropped
    }

    /// Waits until there is a batch to send. Returns false if there will be no more.
    pub(super) async fn wait_for_batch(&self) -> bool {
        loop {
            let until = match self.next() {
                QueueStep::Batch => return true,
                QueueStep::End => return false,
                QueueStep::BatchAt(until) => Some(until),
                QueueStep::Nothing => None,
            };
            let until = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = until => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn next(&self) -> QueueStep {
        let state = self.lock();
        let Some(oldest) = state.events.front() else {
            return if state.closed { QueueStep::End } else { QueueStep::Nothing };
        };
        let until = oldest.since + self.shared.settings.batch_interval;
        let is_due =
            until <= Instant::now() || state.closed || self.shared.endpoint_shutdown.is_requested();
        if is_due || self.is_full_batch(&state) {
            QueueStep::Batch
        } else {
            QueueStep::BatchAt(until)
        }
    }

    fn is_full_batch(&self, state: &EndpointQueueState) -> bool {
        let limits = &self.shared.settings.limits;
        state.events.len() >= limits.batch_events_max || state.bytes >= limits.batch_bytes_max
    }

    /// Removes and returns the oldest events, or None if they were dropped in the meantime.
    pub(super) fn take_batch(&self) -> Option<EventBatch> {
        let limits = &self.shared.settings.limits;
        let mut state = self.lock();
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(oldest) = state.events.front() {
            bytes += oldest.json.get().len();
            let is_first = events.is_empty();
            if !is_first
                && (events.len() >= limits.batch_events_max || bytes > limits.batch_bytes_max)
            {
                break;
            }
            events.extend(state.pop());
        }
        state.in_flight = events.len();
        let destination = state.destination.clone();
        (!events.is_empty()).then_some(EventBatch { destination, events })
    }

    /// Counts the batch in progress as delivered.
    pub(super) fn delivered(&self, batch: &EventBatch) {
        let mut state = self.lock();
        let now = Instant::now();
        state.last_used = now;
        if state.finish_in_flight() {
            let metrics = &self.shared.metrics;
            metrics.delivery.sent.inc_by(batch.events.len() as u64);
            self.dec_waiting(batch.events.len());
            for event in &batch.events {
                metrics.delivery.delivery.observe((now - event.since).as_secs_f64());
            }
        }
    }

    /// Returns a failed batch to the front of the queue. Returns how many events were dropped
    /// because they were older than `retry_for`.
    pub(super) fn put_back(&self, batch: EventBatch) -> usize {
        let mut state = self.lock();
        let now = Instant::now();
        state.last_used = now;
        if !state.finish_in_flight() {
            return 0;
        }
        for event in batch.events.into_iter().rev() {
            state.bytes += event.json.get().len();
            state.events.push_front(event);
        }
        let retry_for = self.shared.settings.retry_for;
        let is_expired = |event: &QueuedEvent| now.duration_since(event.since) >= retry_for;
        let expired = self.drop_while(&mut state, DropReason::RetryFor, |state| {
            state.events.front().is_some_and(is_expired)
        });
        self.trim(&mut state);
        expired
    }

    /// Drops all events, including the batch in progress.
    pub(super) fn drop_all(&self) {
        let mut state = self.lock();
        state.events.iter().filter_map(|event| event.receipt.as_ref()).for_each(Receipt::abandon);
        let in_flight = std::mem::take(&mut state.in_flight);
        self.shared.metrics.dropped(DropReason::Shutdown).inc_by(in_flight as u64);
        self.dec_waiting(in_flight);
        let dropped = in_flight + self.drop_while(&mut state, DropReason::Shutdown, |_| true);
        if dropped > 0 {
            tracing::warn!(
                app = &*state.destination.app.app_id,
                endpoint = %state.destination.endpoint.url,
                dropped,
                "webhook events were dropped at the end: they could not be sent within \
                 realtime.webhooks.advanced.drain_timeout, or the last attempt failed"
            );
        }
    }

    /// Closes the queue: [`EndpointQueue::wait_for_batch`] returns false after the last batch.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Makes [`EndpointQueue::wait_for_batch`] check again.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// Returns whether the queue is empty, no batch is in progress, and nothing has happened since
    /// `since`.
    pub(super) fn is_idle_since(&self, since: Instant) -> bool {
        let state = self.lock();
        state.events.is_empty() && state.in_flight == 0 && state.last_used <= since
    }

    fn trim(&self, state: &mut EndpointQueueState) -> Option<DropReason> {
        let limits = &self.shared.settings.limits;
        let by_events = self.drop_while(state, DropReason::EndpointEvents, |state| {
            state.events.len() > limits.endpoint_events_max.max(1)
        });
        let by_bytes = self.drop_while(state, DropReason::EndpointBytes, |state| {
            state.bytes > limits.endpoint_bytes_max
        });
        match (by_events, by_bytes) {
            (0, 0) => None,
            (0, _) => Some(DropReason::EndpointBytes),
            _ => Some(DropReason::EndpointEvents),
        }
    }

    fn drop_while(
        &self,
        state: &mut EndpointQueueState,
        reason: DropReason,
        is_excess: impl Fn(&EndpointQueueState) -> bool,
    ) -> usize {
        let mut count = 0;
        while is_excess(state) && state.pop().is_some() {
            count += 1;
        }
        if count > 0 {
            self.shared.metrics.dropped(reason).inc_by(count as u64);
            self.dec_waiting(count);
        }
        count
    }

    fn dec_waiting(&self, count: usize) {
        self.shared.metrics.waiting.dec_by(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, EndpointQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EndpointQueueState {
    fn pop(&mut self) -> Option<QueuedEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.json.get().len();
        Some(event)
    }

    /// Ends the batch in progress. Returns false if it was already given up, and counted as
    /// dropped.
    fn finish_in_flight(&mut self) -> bool {
        std::mem::take(&mut self.in_flight) > 0
    }
}
