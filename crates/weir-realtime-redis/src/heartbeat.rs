//! Sequences of the partitions: a number that was skipped is an event that did not arrive.

use crate::partition::{PARTITIONS, Partition};

/// What this node has received of each partition, and what Redis had at the last heartbeat.
#[derive(Debug)]
pub(crate) struct Sequences {
    received: Vec<u64>,
    stored: Vec<u64>,
}

impl Sequences {
    /// Starts with the numbers that Redis has after the node has subscribed. One that can't be read is taken
    /// for 0, so that the channels of the partition are compared when it can.
    pub(crate) fn new(stored: &[Option<u64>]) -> Self {
        debug_assert_eq!(stored.len(), PARTITIONS);
        let stored: Vec<u64> = stored.iter().map(|number| number.unwrap_or_default()).collect();
        Self { received: stored.clone(), stored }
    }

    /// Notes the number of an event. Returns whether events before it are missing.
    pub(crate) fn on_message(&mut self, partition: Partition, sequence: u64) -> bool {
        let received = &mut self.received[partition.0];
        let before = std::mem::replace(received, sequence);
        // Events that were published between the subscription and the start are known already.
        if sequence <= before && before <= self.stored[partition.0] {
            *received = before;
            return false;
        }
        sequence != before + 1
    }

    /// Notes the numbers that Redis has now, except those that can't be read. Returns partitions with events
    /// that Redis had at the last heartbeat, and that have not arrived since, and partitions that have
    /// started anew.
    pub(crate) fn on_heartbeat(&mut self, now: &[Option<u64>]) -> Vec<Partition> {
        let mut missing = Vec::new();
        for partition in Partition::all() {
            let index = partition.0;
            let Some(now) = now[index] else { continue };
            let (received, expected) = (&mut self.received[index], self.stored[index]);
            if *received < expected || now < *received {
                *received = expected.min(now);
                missing.push(partition);
            }
            self.stored[index] = now;
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Partition = Partition(0);

    fn numbers(first: u64) -> Vec<Option<u64>> {
        let mut numbers = vec![Some(0); PARTITIONS];
        numbers[0] = Some(first);
        numbers
    }

    #[test]
    fn a_skipped_number_is_a_hole() {
        let mut sequences = Sequences::new(&numbers(5));
        assert!(!sequences.on_message(FIRST, 5), "published before the start");
        assert!(!sequences.on_message(FIRST, 6));
        assert!(sequences.on_message(FIRST, 8));
        assert!(!sequences.on_message(FIRST, 9));
        assert!(sequences.on_message(FIRST, 1), "Redis was emptied");
    }

    #[test]
    fn a_heartbeat_finds_what_no_later_event_shows() {
        let mut sequences = Sequences::new(&numbers(5));
        assert!(sequences.on_heartbeat(&numbers(7)).is_empty(), "they may be on their way");
        assert_eq!(sequences.on_heartbeat(&numbers(7)), [FIRST]);
        assert!(sequences.on_heartbeat(&numbers(7)).is_empty(), "reported once");
        assert!(!sequences.on_message(FIRST, 8));
        assert_eq!(sequences.on_heartbeat(&numbers(2)), [FIRST], "Redis was emptied");
        assert!(sequences.on_heartbeat(&numbers(2)).is_empty());
    }

    #[test]
    fn a_number_that_can_not_be_read_shows_nothing_until_it_can() {
        let unknown = vec![None; PARTITIONS];
        let mut sequences = Sequences::new(&unknown);
        assert!(sequences.on_heartbeat(&numbers(7)).is_empty());
        assert!(sequences.on_heartbeat(&unknown).is_empty());
        assert_eq!(sequences.on_heartbeat(&numbers(7)), [FIRST], "they may have been missed");
        assert!(sequences.on_heartbeat(&unknown).is_empty());
        assert!(sequences.on_heartbeat(&numbers(7)).is_empty());
    }
}
