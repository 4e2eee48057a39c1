//! Events that may be cancelled are held for a while.
//!
//! As in Pusher, if a channel is vacated and occupied again within `vacated_delay`, or a member
//! leaves and returns, neither event is sent. Of a channel's subscription counts, only the latest
//! is sent. The delay is the same for all events, so they are released in order of arrival.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event_message::EventMessage;
use super::kind::WebhookKind;
use super::metrics::WebhookMetrics;
use super::settings::WebhookSettings;

/// The held events, limited in number and bytes. Beyond the limits, the oldest is released early.
#[derive(Debug)]
pub(super) struct HeldEvents {
    delay: Duration,
    events_max: usize,
    bytes_max: usize,
    by_subject: HashMap<Subject, u64>,
    /// Events by number of arrival, so that a cancelled one can be removed.
    in_order: BTreeMap<u64, HeldEvent>,
    arrivals: u64,
    bytes: usize,
    metrics: WebhookMetrics,
}

#[derive(Debug)]
struct HeldEvent {
    due: Instant,
    message: EventMessage,
}

/// The subject of an event. At most one event is held for each.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Subject {
    app_id: Arc<str>,
    channel: Arc<str>,
    kind: SubjectKind,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum SubjectKind {
    Occupancy,
    Member(Arc<str>),
    Count,
}

impl HeldEvents {
    pub(super) fn new(settings: &WebhookSettings, metrics: WebhookMetrics) -> Self {
        Self {
            delay: settings.vacated_delay,
            events_max: settings.limits.held_events_max,
            bytes_max: settings.limits.held_bytes_max,
            by_subject: HashMap::new(),
            in_order: BTreeMap::new(),
            arrivals: 0,
            bytes: 0,
            metrics,
        }
    }

    /// Adds an event: holds it, cancels a held one with it, or passes it to `send`. Events beyond
    /// the limits are also passed to `send`.
    pub(super) fn hold_or_send(
        &mut self,
        message: EventMessage,
        now: Instant,
        send: &mut impl FnMut(EventMessage),
    ) {
        let Some(subject) = Subject::of(&message).filter(|_| message.receipt.is_none()) else {
            return send(message);
        };
        match message.kind {
            WebhookKind::ChannelVacated
            | WebhookKind::MemberRemoved
            | WebhookKind::SubscriptionCount => {
                self.hold(subject, message, now);
                self.enforce_limits(send);
            }
            _ if self.cancel_held(&subject) => {}
            _ => send(message),
        }
    }

    /// Returns when the next event is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.in_order.first_key_value().map(|(_, entry)| entry.due)
    }

    /// Passes the events that are due to `send`.
    pub(super) fn release(&mut self, now: Instant, send: &mut impl FnMut(EventMessage)) {
        while self.next_due().is_some_and(|due| due <= now) {
            self.pop().map(&mut *send);
        }
    }

    /// Releases all events, and holds none from now on: on shutdown, no client will return.
    pub(super) fn stop_holding(&mut self, send: &mut impl FnMut(EventMessage)) {
        self.delay = Duration::ZERO;
        while let Some(message) = self.pop() {
            send(message);
        }
    }

    fn hold(&mut self, subject: Subject, message: EventMessage, now: Instant) {
        let held = self.by_subject.get(&subject).and_then(|arrival| self.in_order.get_mut(arrival));
        self.bytes += message.json.len();
        if let Some(entry) = held {
            // The event keeps its position, so that no channel's count waits longer than the delay.
            self.bytes -= entry.message.json.len();
            entry.message = message;
            self.metrics.coalesced.inc();
            return;
        }
        self.by_subject.insert(subject, self.arrivals);
        self.in_order.insert(self.arrivals, HeldEvent { due: now + self.delay, message });
        self.arrivals += 1;
        self.metrics.held.inc();
    }

    fn cancel_held(&mut self, subject: &Subject) -> bool {
        let Some(arrival) = self.by_subject.remove(subject) else { return false };
        self.forget(arrival);
        self.metrics.cancelled.inc_by(2);
        true
    }

    fn enforce_limits(&mut self, send: &mut impl FnMut(EventMessage)) {
        while self.in_order.len() > self.events_max || self.bytes > self.bytes_max {
            self.pop().map(&mut *send);
            self.metrics.released_early.inc();
        }
    }

    fn pop(&mut self) -> Option<EventMessage> {
        let arrival = *self.in_order.first_key_value()?.0;
        let message = self.forget(arrival)?;
        if let Some(subject) = Subject::of(&message) {
            self.by_subject.remove(&subject);
        }
        Some(message)
    }

    fn forget(&mut self, arrival: u64) -> Option<EventMessage> {
        let entry = self.in_order.remove(&arrival)?;
        self.bytes -= entry.message.json.len();
        self.metrics.held.dec();
        Some(entry.message)
    }
}

impl Subject {
    /// Returns the subject, or None for events that are neither held nor cancel another.
    fn of(message: &EventMessage) -> Option<Self> {
        let kind = match message.kind {
            WebhookKind::ChannelOccupied | WebhookKind::ChannelVacated => SubjectKind::Occupancy,
            WebhookKind::MemberAdded | WebhookKind::MemberRemoved => {
                SubjectKind::Member(Arc::clone(message.member.as_ref()?))
            }
            WebhookKind::SubscriptionCount => SubjectKind::Count,
            WebhookKind::ClientEvent | WebhookKind::CacheMiss => return None,
        };
        let (app_id, channel) = (Arc::clone(&message.app.app_id), Arc::clone(&message.channel));
        Some(Self { app_id, channel, kind })
    }
}

#[cfg(test)]
mod tests;
