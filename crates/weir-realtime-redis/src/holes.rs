//! Partitions of which events are missing, whose channels are to be compared with the log.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::partition::Partition;

/// The least time between two passes over all channels. A Redis that was emptied shows holes in all
/// partitions, one after the other.
const INTERVAL: Duration = Duration::from_millis(100);

/// Partitions that wait for a pass.
#[derive(Debug)]
pub(crate) struct Holes {
    partitions: HashSet<Partition>,
    next_pass: Instant,
}

impl Holes {
    pub(crate) fn new(now: Instant) -> Self {
        Self { partitions: HashSet::new(), next_pass: now }
    }

    pub(crate) fn add(&mut self, partition: Partition) {
        self.partitions.insert(partition);
    }

    /// Returns when the next pass is due. None: there is no hole.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.partitions.is_empty()).then_some(self.next_pass)
    }

    /// Begins a pass. Returns its partitions.
    pub(crate) fn take(&mut self, now: Instant) -> HashSet<Partition> {
        self.next_pass = now + INTERVAL;
        std::mem::take(&mut self.partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn holes_of_many_partitions_share_a_pass() {
        let now = Instant::now();
        let mut holes = Holes::new(now);
        assert_eq!(holes.due(), None);
        holes.add(Partition::first());
        assert_eq!(holes.due(), Some(now), "the first one at once");
        assert_eq!(holes.take(now).len(), 1);
        Partition::all().for_each(|partition| holes.add(partition));
        assert_eq!(holes.due(), Some(now + INTERVAL));
        assert_eq!(holes.take(now + INTERVAL).len(), Partition::all().count());
        assert_eq!(holes.due(), None);
    }
}
