//! Every event of a run: when it was published, how many subscribers have it, and delivery errors.

use std::time::Instant;

use super::order::{Arrival, ChannelOrder, SubscriberCursor};
use crate::latency::Latencies;
use crate::tally::Tally;

/// Deliveries of one part of a run.
#[derive(Debug, Clone)]
pub(crate) struct Deliveries {
    /// An operation is a delivery; its latency is from the first byte of the publish request.
    pub(crate) received: Tally,
    /// From the first byte of the publish request until the last subscriber had the event.
    pub(crate) last_client: Latencies,
    /// From the first byte of the publish request until its response, both on the publishing thread.
    pub(crate) publish: Latencies,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) last_received: Option<Instant>,
}

impl Deliveries {
    fn new() -> Self {
        Self {
            received: Tally::new(),
            last_client: Latencies::new(),
            publish: Latencies::new(),
            reordered: 0,
            duplicated: 0,
            last_received: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    events: Vec<Event>,
    channels: Vec<Channel>,
    pub(crate) deliveries: Deliveries,
    /// Events that a subscriber has not received yet.
    outstanding: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Event {
    channel: usize,
    /// When the first byte of the request was sent. `None`: the publishing thread has not sent it yet.
    published: Option<Instant>,
    /// When the server accepted the event.
    accepted: Option<Instant>,
    /// Subscribers that have not received it yet.
    missing_subscribers: usize,
    /// Its publish failed: subscribers may receive it, but need not.
    has_failed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    order: ChannelOrder,
    subscribers: usize,
    /// The latest publish among the events in `add_event`.
    latest: Option<Instant>,
}

impl Ledger {
    pub(crate) fn new(channels: usize) -> Self {
        Self {
            events: Vec::new(),
            channels: (0..channels).map(|_| Channel::default()).collect(),
            deliveries: Deliveries::new(),
            outstanding: 0,
            is_closed: false,
        }
    }

    pub(crate) fn add_subscriber(&mut self, channel: usize) {
        self.channels[channel].subscribers += 1;
    }

    /// From the next event on, expects one subscriber fewer.
    pub(crate) fn remove_subscriber(&mut self, channel: usize) {
        self.channels[channel].subscribers -= 1;
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Adds an event that is about to be published, and returns its number. It counts as outstanding at once, so that
    /// events which the publishing thread has not sent yet count towards the limit.
    pub(crate) fn add_event(&mut self, channel: usize) -> u32 {
        let number = u32::try_from(self.events.len()).expect("a run has fewer than 2^32 events");
        let missing_subscribers = self.channels[channel].subscribers;
        self.outstanding += usize::from(missing_subscribers > 0);
        self.events.push(Event {
            channel,
            published: None,
            accepted: None,
            missing_subscribers,
            has_failed: false,
        });
        number
    }

    /// Records that the publishing thread sends the event.
    pub(crate) fn mark_sent(&mut self, number: u32, at: Instant) {
        self.events[number as usize].published = Some(at);
    }

    pub(crate) fn is_sent(&self, number: u32) -> bool {
        self.events.get(number as usize).is_some_and(|event| event.published.is_some())
    }

    pub(crate) fn mark_accepted(&mut self, number: u32, at: Instant) {
        let event = &mut self.events[number as usize];
        event.accepted = Some(at);
        self.deliveries.publish.record(at - event.published.unwrap_or(at));
    }

    /// Records that the publish failed, or that its outcome is unknown.
    pub(crate) fn mark_failed(&mut self, number: u32) {
        let event = &mut self.events[number as usize];
        if !event.has_failed && event.missing_subscribers > 0 {
            self.outstanding -= 1;
        }
        event.has_failed = true;
    }

    /// Ignores deliveries from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Records that a subscriber of `channel` received event `number`.
    pub(crate) fn record_delivery(
        &mut self,
        channel: usize,
        cursor: &mut SubscriberCursor,
        number: u32,
        at: Instant,
    ) {
        if self.is_closed {
            return;
        }
        let Some(event) =
            self.events.get_mut(number as usize).filter(|event| event.channel == channel)
        else {
            let faults = &mut self.deliveries.received.faults;
            return faults
                .add(1, || format!("event {number} came on channel {channel}: it is not of it"));
        };
        let Some(published) = event.published else {
            let faults = &mut self.deliveries.received.faults;
            return faults.add(1, || format!("event {number} came before it was published"));
        };
        let channel = &mut self.channels[channel];
        match channel.order.classify(cursor, number) {
            Arrival::New => {}
            Arrival::First => {
                let overtaken =
                    event.accepted.is_some_and(|at| channel.latest.is_some_and(|late| at < late));
                self.deliveries.reordered += u64::from(overtaken);
                channel.latest = channel.latest.max(Some(published));
            }
            Arrival::Reordered => self.deliveries.reordered += 1,
            Arrival::Duplicated => return self.deliveries.duplicated += 1,
        }
        self.deliveries.last_received = Some(at);
        self.deliveries.received.operations += 1;
        self.deliveries.received.latencies.record(at - published);
        // A subscriber that was removed may still receive it.
        let was_missing = event.missing_subscribers > 0;
        event.missing_subscribers = event.missing_subscribers.saturating_sub(1);
        if was_missing && event.missing_subscribers == 0 && !event.has_failed {
            self.outstanding -= 1;
            self.deliveries.last_client.record(at - published);
        }
    }

    /// Returns how many deliveries of accepted events are missing.
    pub(crate) fn count_lost(&self) -> u64 {
        let accepted =
            self.events.iter().filter(|event| event.accepted.is_some() && !event.has_failed);
        accepted.map(|event| event.missing_subscribers as u64).sum()
    }

    /// Ends a part of the run: returns its deliveries and resets the counters.
    pub(crate) fn take_deliveries(&mut self) -> Deliveries {
        std::mem::replace(&mut self.deliveries, Deliveries::new())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::now;

    /// Orders an event of the first channel, which is sent at once.
    fn publish(ledger: &mut Ledger, at: Instant) -> u32 {
        let number = ledger.add_event(0);
        ledger.mark_sent(number, at);
        number
    }

    #[test]
    fn event_is_outstanding_once_added_and_timed_once_sent() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let ordered = now();
        let number = ledger.add_event(0);
        assert_eq!((ledger.outstanding(), ledger.is_sent(number)), (1, false));
        let sent = ordered + Duration::from_secs(5);
        ledger.mark_sent(number, sent);
        assert_eq!((ledger.outstanding(), ledger.is_sent(number)), (1, true));
        let answered = sent + Duration::from_micros(200);
        ledger.mark_accepted(number, answered);
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, answered);
        assert_eq!(ledger.outstanding(), 0);
        let Deliveries { publish, received, last_client, .. } = ledger.take_deliveries();
        for latencies in [&publish, &received.latencies, &last_client] {
            assert!((latencies.longest_us() - 200.0).abs() < 1.0, "{}", latencies.longest_us());
        }
    }

    #[test]
    fn delivery_before_sending_is_an_error() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = ledger.add_event(0);
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, now());
        let received = &ledger.deliveries.received;
        assert_eq!((received.faults.count, received.operations, ledger.outstanding()), (1, 0, 1));
    }

    #[test]
    fn accepted_event_missed_by_one_subscriber_is_lost_once() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, now());
        assert_eq!((ledger.count_lost(), ledger.outstanding()), (0, 1), "not accepted yet");
        ledger.mark_accepted(number, now());
        assert_eq!(ledger.count_lost(), 1);
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, now());
        assert_eq!((ledger.count_lost(), ledger.outstanding()), (0, 0));
    }

    #[test]
    fn delivery_after_the_end_is_lost() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.mark_accepted(number, now());
        ledger.close();
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, now());
        assert_eq!((ledger.count_lost(), ledger.deliveries.received.operations), (1, 0));
    }

    #[test]
    fn failed_publish_may_be_delivered_or_not() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.mark_failed(number);
        assert_eq!((ledger.count_lost(), ledger.outstanding()), (0, 0));
        ledger.record_delivery(0, &mut SubscriberCursor::default(), number, now());
        assert_eq!((ledger.deliveries.received.operations, ledger.outstanding()), (1, 0));
    }

    #[test]
    fn event_accepted_before_another_is_sent_must_arrive_first() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let start = now();
        let one = publish(&mut ledger, start);
        ledger.mark_accepted(one, start + Duration::from_millis(1));
        let other = publish(&mut ledger, start + Duration::from_millis(2));
        let (mut cursor, end) = (SubscriberCursor::default(), start + Duration::from_millis(3));
        ledger.record_delivery(0, &mut cursor, other, end);
        ledger.record_delivery(0, &mut cursor, one, end);
        assert_eq!(ledger.deliveries.reordered, 1);
    }

    #[test]
    fn event_of_another_channel_is_an_error() {
        let mut ledger = Ledger::new(2);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.record_delivery(1, &mut SubscriberCursor::default(), number, now());
        ledger.record_delivery(0, &mut SubscriberCursor::default(), 99, now());
        assert_eq!(ledger.deliveries.received.faults.count, 2);
    }
}
