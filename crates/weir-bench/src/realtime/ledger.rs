//! Every event of a run: when it was published, who has it, and what went wrong on the way.

use std::time::Instant;

use super::order::{Arrival, ChannelOrder, Seat};
use crate::latency::Latencies;
use crate::tally::Tally;

/// What the subscribers of one stretch of a run heard.
#[derive(Debug, Clone)]
pub(crate) struct Deliveries {
    /// An operation is a delivery; its latency is from the first byte of the publish request.
    pub(crate) heard: Tally,
    /// From the first byte of the publish request until the last subscriber had the event.
    pub(crate) last_client: Latencies,
    /// From the first byte of the publish request until its answer, both seen by the publishing thread.
    pub(crate) publish: Latencies,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) last_heard: Option<Instant>,
}

impl Deliveries {
    fn new() -> Self {
        Self {
            heard: Tally::new(),
            last_client: Latencies::new(),
            publish: Latencies::new(),
            reordered: 0,
            duplicated: 0,
            last_heard: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    events: Vec<Event>,
    channels: Vec<Channel>,
    pub(crate) deliveries: Deliveries,
    /// Events that some subscriber still waits for.
    outstanding: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Event {
    channel: usize,
    /// When the first byte of the request left. `None`: it has only been ordered, which counts as under way.
    published: Option<Instant>,
    /// When the server said that it took the event.
    accepted: Option<Instant>,
    /// Subscribers that do not have it yet.
    missing: usize,
    /// Its publish failed: nobody needs to get it, though somebody may.
    void: bool,
}

#[derive(Debug, Default)]
struct Channel {
    order: ChannelOrder,
    subscribers: usize,
    /// The latest publish among the events in `order`.
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

    /// From the next event on, one fewer is expected to hear.
    pub(crate) fn remove_subscriber(&mut self, channel: usize) {
        self.channels[channel].subscribers -= 1;
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The number of a new event that is to be published. It is outstanding from here on, so that no more are under
    /// way than should be while the publishing thread has not sent it yet.
    pub(crate) fn order(&mut self, channel: usize) -> u32 {
        let number = u32::try_from(self.events.len()).expect("a run has fewer than 2^32 events");
        let missing = self.channels[channel].subscribers;
        self.outstanding += usize::from(missing > 0);
        self.events.push(Event { channel, published: None, accepted: None, missing, void: false });
        number
    }

    /// The publishing thread sends the event.
    pub(crate) fn sent(&mut self, number: u32, at: Instant) {
        self.events[number as usize].published = Some(at);
    }

    pub(crate) fn is_sent(&self, number: u32) -> bool {
        self.events.get(number as usize).is_some_and(|event| event.published.is_some())
    }

    pub(crate) fn accepted(&mut self, number: u32, at: Instant) {
        let event = &mut self.events[number as usize];
        event.accepted = Some(at);
        self.deliveries.publish.record(at - event.published.unwrap_or(at));
    }

    /// The publish failed, or nobody knows.
    pub(crate) fn void(&mut self, number: u32) {
        let event = &mut self.events[number as usize];
        if !event.void && event.missing > 0 {
            self.outstanding -= 1;
        }
        event.void = true;
    }

    /// What is heard from here on comes too late to count.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// A subscriber of `channel` heard event `number`.
    pub(crate) fn heard(&mut self, channel: usize, seat: &mut Seat, number: u32, at: Instant) {
        if self.is_closed {
            return;
        }
        let Some(event) =
            self.events.get_mut(number as usize).filter(|event| event.channel == channel)
        else {
            let faults = &mut self.deliveries.heard.faults;
            return faults
                .add(1, || format!("event {number} came on channel {channel}: it is not of it"));
        };
        let Some(published) = event.published else {
            let faults = &mut self.deliveries.heard.faults;
            return faults.add(1, || format!("event {number} came before it was published"));
        };
        let channel = &mut self.channels[channel];
        match channel.order.arrive(seat, number) {
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
        self.deliveries.last_heard = Some(at);
        self.deliveries.heard.operations += 1;
        self.deliveries.heard.latencies.record(at - published);
        // Somebody who is not counted any more may hear it too.
        let was_missing = event.missing > 0;
        event.missing = event.missing.saturating_sub(1);
        if was_missing && event.missing == 0 && !event.void {
            self.outstanding -= 1;
            self.deliveries.last_client.record(at - published);
        }
    }

    /// Deliveries that are still missing, of events that the server accepted.
    pub(crate) fn lost(&self) -> u64 {
        let accepted = self.events.iter().filter(|event| event.accepted.is_some() && !event.void);
        accepted.map(|event| event.missing as u64).sum()
    }

    /// Ends a stretch of the run: what it counted, and the count begins anew.
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
        let number = ledger.order(0);
        ledger.sent(number, at);
        number
    }

    #[test]
    fn an_event_is_under_way_from_its_order_on_and_its_times_count_from_its_sending() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let ordered = now();
        let number = ledger.order(0);
        assert_eq!((ledger.outstanding(), ledger.is_sent(number)), (1, false));
        let sent = ordered + Duration::from_secs(5);
        ledger.sent(number, sent);
        assert_eq!((ledger.outstanding(), ledger.is_sent(number)), (1, true));
        let answered = sent + Duration::from_micros(200);
        ledger.accepted(number, answered);
        ledger.heard(0, &mut Seat::default(), number, answered);
        assert_eq!(ledger.outstanding(), 0);
        let Deliveries { publish, heard, last_client, .. } = ledger.take_deliveries();
        for latencies in [&publish, &heard.latencies, &last_client] {
            assert!((latencies.longest_us() - 200.0).abs() < 1.0, "{}", latencies.longest_us());
        }
    }

    #[test]
    fn an_event_that_comes_before_it_was_sent_is_a_fault() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = ledger.order(0);
        ledger.heard(0, &mut Seat::default(), number, now());
        let heard = &ledger.deliveries.heard;
        assert_eq!((heard.faults.count, heard.operations, ledger.outstanding()), (1, 0, 1));
    }

    #[test]
    fn an_accepted_event_that_one_subscriber_misses_is_lost_once() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.heard(0, &mut Seat::default(), number, now());
        assert_eq!((ledger.lost(), ledger.outstanding()), (0, 1), "not accepted yet");
        ledger.accepted(number, now());
        assert_eq!(ledger.lost(), 1);
        ledger.heard(0, &mut Seat::default(), number, now());
        assert_eq!((ledger.lost(), ledger.outstanding()), (0, 0));
    }

    #[test]
    fn an_event_that_comes_after_the_end_is_lost() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.accepted(number, now());
        ledger.close();
        ledger.heard(0, &mut Seat::default(), number, now());
        assert_eq!((ledger.lost(), ledger.deliveries.heard.operations), (1, 0));
    }

    #[test]
    fn an_event_whose_publish_failed_may_arrive_or_not() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.void(number);
        assert_eq!((ledger.lost(), ledger.outstanding()), (0, 0));
        ledger.heard(0, &mut Seat::default(), number, now());
        assert_eq!((ledger.deliveries.heard.operations, ledger.outstanding()), (1, 0));
    }

    #[test]
    fn an_event_that_was_answered_before_another_was_sent_must_come_first() {
        let mut ledger = Ledger::new(1);
        ledger.add_subscriber(0);
        let start = now();
        let one = publish(&mut ledger, start);
        ledger.accepted(one, start + Duration::from_millis(1));
        let other = publish(&mut ledger, start + Duration::from_millis(2));
        let (mut seat, end) = (Seat::default(), start + Duration::from_millis(3));
        ledger.heard(0, &mut seat, other, end);
        ledger.heard(0, &mut seat, one, end);
        assert_eq!(ledger.deliveries.reordered, 1);
    }

    #[test]
    fn an_event_of_another_channel_is_a_fault() {
        let mut ledger = Ledger::new(2);
        ledger.add_subscriber(0);
        let number = publish(&mut ledger, now());
        ledger.heard(1, &mut Seat::default(), number, now());
        ledger.heard(0, &mut Seat::default(), 99, now());
        assert_eq!(ledger.deliveries.heard.faults.count, 2);
    }
}
