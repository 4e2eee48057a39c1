//! Events that may be taken back, held for a while.
//!
//! A channel that is vacated and occupied again within `vacated_delay`, and a member that leaves
//! and comes back, are not worth telling: neither of the two is sent, as Pusher does it. Of
//! subscription counts only the latest of each channel is. The delay is the same for all, so the
//! order of arrival is the order of release.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::event_message::EventMessage;
use super::kind::WebhookKind;
use super::metrics::WebhookMetrics;
use super::settings::WebhookSettings;

/// What is held, bounded in events and bytes: for one more, the oldest is released early.
#[derive(Debug)]
pub(super) struct HeldEvents {
    delay: Duration,
    events_max: usize,
    bytes_max: usize,
    by_subject: HashMap<Subject, u64>,
    /// By number of arrival, so that taking one back leaves nothing behind.
    in_order: BTreeMap<u64, HeldEvent>,
    arrivals: u64,
    bytes: usize,
    metrics: WebhookMetrics,
}

#[derive(Debug)]
struct HeldEvent {
    due: Instant,
    told: EventMessage,
}

/// What at most one event is held about.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Subject {
    app_id: Arc<str>,
    channel: Arc<str>,
    about: About,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum About {
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

    /// Takes an event in; what is to be sent now, in order, goes to `send`.
    pub(super) fn take(
        &mut self,
        told: EventMessage,
        now: Instant,
        send: &mut impl FnMut(EventMessage),
    ) {
        let Some(subject) = Subject::of(&told) else { return send(told) };
        match told.kind {
            WebhookKind::ChannelVacated
            | WebhookKind::MemberRemoved
            | WebhookKind::SubscriptionCount => {
                self.hold(subject, told, now);
                self.enforce_limits(send);
            }
            _ if self.take_back(&subject) => {}
            _ => send(told),
        }
    }

    /// When the next is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.in_order.first_key_value().map(|(_, entry)| entry.due)
    }

    /// Releases what is due.
    pub(super) fn release(&mut self, now: Instant, send: &mut impl FnMut(EventMessage)) {
        while self.next_due().is_some_and(|due| due <= now) {
            self.pop().map(&mut *send);
        }
    }

    /// Releases everything and holds nothing from now on: nobody will be there to come back.
    pub(super) fn stop_holding(&mut self, send: &mut impl FnMut(EventMessage)) {
        self.delay = Duration::ZERO;
        while let Some(told) = self.pop() {
            send(told);
        }
    }

    fn hold(&mut self, subject: Subject, told: EventMessage, now: Instant) {
        let held = self.by_subject.get(&subject).and_then(|arrival| self.in_order.get_mut(arrival));
        self.bytes += told.json.len();
        if let Some(entry) = held {
            // It keeps its place: no channel's count waits for longer than the delay.
            self.bytes -= entry.told.json.len();
            entry.told = told;
            self.metrics.coalesced.inc();
            return;
        }
        self.by_subject.insert(subject, self.arrivals);
        self.in_order.insert(self.arrivals, HeldEvent { due: now + self.delay, told });
        self.arrivals += 1;
        self.metrics.held.inc();
    }

    fn take_back(&mut self, subject: &Subject) -> bool {
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
        let told = self.forget(arrival)?;
        if let Some(subject) = Subject::of(&told) {
            self.by_subject.remove(&subject);
        }
        Some(told)
    }

    fn forget(&mut self, arrival: u64) -> Option<EventMessage> {
        let entry = self.in_order.remove(&arrival)?;
        self.bytes -= entry.told.json.len();
        self.metrics.held.dec();
        Some(entry.told)
    }
}

impl Subject {
    /// None of events that neither wait nor take back.
    fn of(told: &EventMessage) -> Option<Self> {
        let about = match told.kind {
            WebhookKind::ChannelOccupied | WebhookKind::ChannelVacated => About::Occupancy,
            WebhookKind::MemberAdded | WebhookKind::MemberRemoved => {
                About::Member(Arc::clone(told.member.as_ref()?))
            }
            WebhookKind::SubscriptionCount => About::Count,
            WebhookKind::ClientEvent | WebhookKind::CacheMiss => return None,
        };
        let (app_id, channel) = (Arc::clone(&told.app.app_id), Arc::clone(&told.channel));
        Some(Self { app_id, channel, about })
    }
}

#[cfg(test)]
mod tests;
