//! The order of one channel's events. The first subscriber to receive an event sets its position, and all others must
//! receive it in the same order. Publishes that overlap may be ordered either way.

use std::collections::{HashMap, HashSet};

/// What one subscriber has received of its channel.
#[derive(Debug, Default)]
pub(crate) struct SubscriberCursor {
    /// Position in the channel's order of the next expected event.
    next: usize,
    /// Allocated when the first event is out of order.
    anomalies: Option<Box<Anomalies>>,
}

#[derive(Debug, Default)]
struct Anomalies {
    /// Events that other subscribers received and that this one skipped.
    skipped: HashSet<u32>,
    /// Events received before they had a position.
    early: HashSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In order, or after a jump forward (the skipped events may be lost).
    New,
    /// In order, and this subscriber is the first to receive it.
    First,
    /// Received for the first time, but after an event that others received later.
    Reordered,
    /// Received before.
    Duplicated,
}

#[derive(Debug, Default)]
pub(crate) struct ChannelOrder {
    numbers: Vec<u32>,
    places: HashMap<u32, usize>,
    /// Events that a subscriber received early: it and the subscriber that sets the position disagree.
    early: HashSet<u32>,
}

impl ChannelOrder {
    pub(crate) fn classify(&mut self, cursor: &mut SubscriberCursor, number: u32) -> Arrival {
        if cursor.anomalies.is_none() && self.numbers.get(cursor.next) == Some(&number) {
            cursor.next += 1;
            return Arrival::New;
        }
        if let Some(anomalies) = &mut cursor.anomalies {
            if anomalies.skipped.remove(&number) {
                return Arrival::Reordered;
            }
            if anomalies.early.contains(&number) {
                return Arrival::Duplicated;
            }
        }
        match self.places.get(&number) {
            Some(place) if *place < cursor.next => Arrival::Duplicated,
            Some(place) => self.jump_to(cursor, *place),
            None if self.is_newest(cursor, number) => {
                self.record_skipped(cursor, self.numbers.len());
                self.append_event(cursor, number)
            }
            None => {
                cursor.anomalies.get_or_insert_default().early.insert(number);
                self.early.insert(number);
                Arrival::New
            }
        }
    }

    fn append_event(&mut self, cursor: &mut SubscriberCursor, number: u32) -> Arrival {
        self.places.insert(number, self.numbers.len());
        self.numbers.push(number);
        cursor.next += 1;
        if self.early.contains(&number) { Arrival::Reordered } else { Arrival::First }
    }

    /// Returns whether `number`, which has no position yet, was published after all events that this subscriber has
    /// not received. Otherwise the subscribers that set the order may have missed it.
    fn is_newest(&self, cursor: &SubscriberCursor, number: u32) -> bool {
        self.numbers[cursor.next..].iter().all(|other| *other < number)
    }

    fn jump_to(&self, cursor: &mut SubscriberCursor, place: usize) -> Arrival {
        self.record_skipped(cursor, place);
        cursor.next = place + 1;
        Arrival::New
    }

    /// Remembers the events before `place` that were skipped.
    fn record_skipped(&self, cursor: &mut SubscriberCursor, place: usize) {
        let skipped_numbers = &self.numbers[cursor.next..place];
        cursor.next = place;
        if !skipped_numbers.is_empty() {
            let Anomalies { skipped, early } = &mut **cursor.anomalies.get_or_insert_default();
            skipped.extend(skipped_numbers.iter().filter(|number| !early.contains(number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arrival::{Duplicated, First, New, Reordered};
    use super::*;

    /// Each subscriber in turn hears its events; what each arrival was.
    fn check(heard: &[(&[u32], &[Arrival])]) {
        let mut order = ChannelOrder::default();
        for (numbers, expected) in heard {
            let mut cursor = SubscriberCursor::default();
            let connect_latencies: Vec<_> =
                numbers.iter().map(|n| order.classify(&mut cursor, *n)).collect();
            assert_eq!(connect_latencies, *expected, "{numbers:?}");
        }
    }

    #[test]
    fn first_subscriber_sets_the_order() {
        check(&[(&[2, 1, 3], &[First, First, First]), (&[2, 1, 3], &[New, New, New])]);
    }

    #[test]
    fn reordering_is_detected_without_loss() {
        check(&[(&[1, 2, 3], &[First; 3]), (&[1, 3, 2], &[New, New, Reordered])]);
        check(&[(&[1], &[First]), (&[2, 1], &[First, Reordered]), (&[1, 2], &[New, New])]);
    }

    #[test]
    fn duplicates_are_detected_at_once_and_later() {
        check(&[(&[1, 1, 2, 1], &[First, Duplicated, First, Duplicated])]);
        check(&[
            (&[1, 2, 3], &[First; 3]),
            (&[1, 3, 3, 2, 2], &[New, New, Duplicated, Reordered, Duplicated]),
        ]);
    }

    #[test]
    fn gap_of_one_subscriber_does_not_affect_others() {
        check(&[(&[1, 3], &[First; 2]), (&[1, 2, 3], &[New, New, New]), (&[1, 3], &[New, New])]);
        check(&[(&[1, 2], &[First; 2]), (&[1, 3], &[New, First]), (&[1, 2, 3], &[New; 3])]);
    }
}
