//! Counts the live jobs in each segment, which decides which segments can be removed.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, Default)]
struct SegmentCount {
    /// Jobs whose records were written to the segment.
    written: u32,
    /// Those of them that are live and whose record was not moved.
    live: u32,
}

/// Live records per segment, starting with the oldest segment.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    first: u32,
    counts: VecDeque<SegmentCount>,
}

impl LiveCounts {
    /// Counts a job's record that was written to `segment`.
    pub(crate) fn add(&mut self, segment: u32) {
        let count = self.count_mut(segment);
        count.written += 1;
        count.live += 1;
    }

    /// Counts a job's record in `segment` that is no longer needed.
    pub(crate) fn release(&mut self, segment: u32) {
        self.count_mut(segment).live -= 1;
    }

    /// Returns the number of live records in `segment`.
    pub(crate) fn live(&self, segment: u32) -> u32 {
        self.count(segment).live
    }

    /// Returns the fraction of a segment's job records that are live (0 to 1), or 0 for a segment
    /// without jobs.
    pub(crate) fn live_share(&self, segment: u32) -> f64 {
        let SegmentCount { written, live } = self.count(segment);
        if written == 0 { 0.0 } else { f64::from(live) / f64::from(written) }
    }

    /// Drops the counts of segments below `first`, which were removed.
    pub(crate) fn forget_before(&mut self, first: u32) {
        while self.first < first && !self.counts.is_empty() {
            self.counts.pop_front();
            self.first += 1;
        }
        if self.counts.is_empty() {
            self.first = first;
        }
    }

    fn count(&self, segment: u32) -> SegmentCount {
        let place = segment.checked_sub(self.first);
        place.and_then(|place| self.counts.get(place as usize)).copied().unwrap_or_default()
    }

    fn count_mut(&mut self, segment: u32) -> &mut SegmentCount {
        if self.counts.is_empty() {
            self.first = segment;
        }
        while segment < self.first {
            self.counts.push_front(SegmentCount::default());
            self.first -= 1;
        }
        let place = (segment - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, SegmentCount::default());
        }
        &mut self.counts[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_their_segments() {
        let mut counts = LiveCounts::default();
        counts.add(7);
        counts.add(9);
        counts.add(9);
        counts.release(9);
        assert_eq!((counts.live(7), counts.live(8), counts.live(9)), (1, 0, 1));
        assert!((counts.live_share(9) - 0.5).abs() < 1e-9);
        counts.release(7);
        counts.forget_before(9);
        assert_eq!((counts.live(7), counts.live(9)), (0, 1));
        counts.forget_before(20);
        counts.add(20);
        assert_eq!(counts.live(20), 1);
    }
}
