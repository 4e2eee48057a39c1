//! The queue into which shards put events without ever waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;
use weir_base::clock::Clock;
use weir_base::seldom::Seldom;

use super::event_message::EventMessage;
use super::metrics::{DropReason, WebhookMetrics};
use super::receipt::Receipt;
use super::settings::WebhookLimits;

/// The most events taken at once, so that timers run even in a flood of events.
const SLICE_EVENTS: usize = 256;

/// The sending end of the queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    sender: mpsc::Sender<EventMessage>,
    shared: Arc<IntakeState>,
}

/// The receiving end of the queue.
#[derive(Debug)]
pub(super) struct IntakeEnd {
    receiver: mpsc::Receiver<EventMessage>,
    shared: Arc<IntakeState>,
}

#[derive(Debug)]
struct IntakeState {
    bytes: AtomicUsize,
    bytes_max: usize,
    clock: Clock,
    metrics: WebhookMetrics,
    log: Seldom,
}

pub(super) fn intake(
    limits: &WebhookLimits,
    clock: Clock,
    metrics: WebhookMetrics,
) -> (Intake, IntakeEnd) {
    let (sender, receiver) = mpsc::channel(limits.queue_events_max.max(1));
    let bytes_max = limits.queue_bytes_max;
    let shared = IntakeState {
        bytes: AtomicUsize::new(0),
        bytes_max,
        clock,
        metrics,
        log: Seldom::default(),
    };
    let shared = Arc::new(shared);
    (Intake { sender, shared: Arc::clone(&shared) }, IntakeEnd { receiver, shared })
}

impl Intake {
    pub(super) fn metrics(&self) -> &WebhookMetrics {
        &self.shared.metrics
    }

    /// Returns whether the receiving end is still open.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Queues an event, or drops and counts it.
    pub(super) fn offer(&self, message: EventMessage) {
        if let Some(receipt) = message.receipt.as_ref().filter(|_| !self.is_open()) {
            receipt.abandon();
        }
        let length = message.json.len();
        let before = self.shared.bytes.fetch_add(length, Ordering::Relaxed);
        let reason = if before.saturating_add(length) > self.shared.bytes_max {
            DropReason::QueueBytes
        } else {
            match self.sender.try_send(message) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => DropReason::QueueEvents,
                Err(mpsc::error::TrySendError::Closed(_)) => DropReason::Ended,
            }
        };
        self.shared.bytes.fetch_sub(length, Ordering::Relaxed);
        self.record_drop(reason);
    }

    #[cold]
    fn record_drop(&self, reason: DropReason) {
        let dropped = self.shared.metrics.dropped(reason);
        dropped.inc();
        if reason != DropReason::Ended && self.shared.log.is_due(self.shared.clock.now()) {
            tracing::warn!(
                dropped_total = dropped.get(),
                "webhook events come faster than they can be sorted and are dropped; give Weir \
                 more CPU, want fewer events, or raise realtime.webhooks.{}",
                reason.name()
            );
        }
    }
}

impl IntakeEnd {
    /// Waits for events and takes some of them. Returns how many, or 0 if there will be no more.
    pub(super) async fn take(&mut self, into: &mut Vec<EventMessage>) -> usize {
        let count = self.receiver.recv_many(into, SLICE_EVENTS).await;
        self.release_bytes(into.iter().rev().take(count));
        count
    }

    /// Closes the queue and drops its events. Returns how many.
    pub(super) fn close(&mut self) -> usize {
        self.receiver.close();
        let mut dropped = 0;
        while let Ok(message) = self.receiver.try_recv() {
            message.receipt.iter().for_each(Receipt::abandon);
            self.release_bytes(std::iter::once(&message));
            dropped += 1;
        }
        self.shared.metrics.dropped(DropReason::Ended).inc_by(dropped as u64);
        dropped
    }

    fn release_bytes<'t>(&self, messages: impl Iterator<Item = &'t EventMessage>) {
        let bytes: usize = messages.map(|message| message.json.len()).sum();
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Timestamp;
    use weir_base::secret::Secret;

    use super::super::app_hooks::AppHooks;
    use super::*;
    use crate::pusher::webhook::WebhookEvent;

    fn message() -> EventMessage {
        let (app_id, key, secret) = ("1".into(), "k".into(), Secret::new("s"));
        let app = AppHooks { app_id, key, secret, endpoints: Vec::new() };
        EventMessage::new(&Arc::new(app), &WebhookEvent::CacheMiss { channel: "a" })
    }

    fn with(
        queue_events_max: usize,
        events_of_bytes: usize,
    ) -> (Intake, IntakeEnd, WebhookMetrics) {
        let queue_bytes_max = events_of_bytes * message().json.len();
        let limits =
            WebhookLimits { queue_events_max, queue_bytes_max, ..WebhookLimits::default() };
        let metrics = WebhookMetrics::default();
        let clock = Clock::manual(Timestamp::default());
        let (intake, end) = intake(&limits, clock, metrics.clone());
        (intake, end, metrics)
    }

    #[tokio::test]
    async fn events_over_the_intake_limits_are_dropped() {
        for (events, bytes, reason) in
            [(2, 100, DropReason::QueueEvents), (100, 2, DropReason::QueueBytes)]
        {
            let (intake, mut end, metrics) = with(events, bytes);
            let mut messages = Vec::new();
            for round in 1..=3 {
                (0..5).for_each(|_| intake.offer(message()));
                assert_eq!(end.take(&mut messages).await, 2, "{reason:?}");
                assert_eq!(metrics.dropped(reason).get(), round * 3);
            }
        }
    }

    #[tokio::test]
    async fn after_the_end_all_events_are_dropped() {
        let (intake, mut end, metrics) = with(9, 9);
        (0..2).for_each(|_| intake.offer(message()));
        assert_eq!(end.close(), 2);
        intake.offer(message());
        assert_eq!(metrics.dropped(DropReason::Ended).get(), 3);
        assert_eq!(end.take(&mut Vec::new()).await, 0);
    }
}
