//! The last events of one channel, for clients that reconnect.

use std::collections::VecDeque;

use weir_base::clock::Timestamp;

use crate::frame::Frame;
use crate::settings::HistoryLimits;

/// Events with consecutive offsets, up to the channel's newest. Limited in number, bytes and age.
#[derive(Debug, Default)]
pub(crate) struct EventHistory {
    entries: VecDeque<HistoryEntry>,
    bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct HistoryEntry {
    pub(crate) offset: u64,
    pub(crate) at: Timestamp,
    pub(crate) frame: Frame,
}

/// The memory of one entry besides its frame: the entry, and the header of the shared bytes.
const ENTRY_BYTES: usize = size_of::<HistoryEntry>() + 32;

impl HistoryEntry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.frame.wire().len()
    }
}

impl EventHistory {
    /// Adds the newest event and removes events beyond the limits.
    pub(crate) fn push(&mut self, entry: HistoryEntry, limits: &HistoryLimits) {
        debug_assert!(self.entries.back().is_none_or(|last| last.offset + 1 == entry.offset));
        let now = entry.at;
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.trim(now, limits);
    }

    /// Removes events beyond the limits.
    pub(crate) fn trim(&mut self, now: Timestamp, limits: &HistoryLimits) {
        while let Some(oldest) = self.entries.front() {
            let is_old = now.since(oldest.at) > limits.age_max;
            let is_within = self.entries.len() <= limits.events_max
                && self.bytes <= limits.bytes_max
                && !is_old;
            if is_within {
                return;
            }
            self.bytes -= oldest.bytes();
            self.entries.pop_front();
        }
        // Free the memory once the channel has no events left.
        self.entries = VecDeque::new();
    }

    /// Removes the events from this offset on.
    pub(crate) fn remove_from(&mut self, offset: u64) {
        while let Some(newest) = self.entries.pop_back_if(|newest| newest.offset >= offset) {
            self.bytes -= newest.bytes();
        }
    }

    /// Removes all events.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bytes in use.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the events after `offset`, or None unless all of them up to `newest` are stored.
    pub(crate) fn after(
        &self,
        offset: u64,
        newest: u64,
    ) -> Option<impl ExactSizeIterator<Item = &HistoryEntry> + Clone> {
        let missing = usize::try_from(newest.checked_sub(offset)?).ok()?;
        let start = self.entries.len().checked_sub(missing)?;
        Some(self.entries.range(start..))
    }

    /// Returns the newest events after `offset`, at most `events_max`, oldest first.
    pub(crate) fn newest(
        &self,
        offset: u64,
        events_max: usize,
    ) -> impl ExactSizeIterator<Item = &HistoryEntry> + Clone {
        let above =
            self.entries.len() - self.entries.partition_point(|entry| entry.offset <= offset);
        self.entries.range(self.entries.len() - above.min(events_max)..)
    }
}

impl FromIterator<HistoryEntry> for EventHistory {
    /// Collects entries with consecutive offsets, regardless of the limits. The next push or trim
    /// applies them.
    fn from_iter<I: IntoIterator<Item = HistoryEntry>>(entries: I) -> Self {
        let entries: VecDeque<HistoryEntry> = entries.into_iter().collect();
        let bytes = entries.iter().map(HistoryEntry::bytes).sum();
        Self { entries, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn entry(offset: u64, at_ms: u64, bytes: usize) -> HistoryEntry {
        let frame = Frame::text(|out| out.resize(out.len() + bytes, b'x'));
        HistoryEntry { offset, at: Timestamp::from_millis(at_ms), frame }
    }

    fn limits(events_max: usize, bytes_max: usize, age_ms: u64) -> HistoryLimits {
        let age_max = Duration::from_millis(age_ms);
        HistoryLimits { events_max, bytes_max, age_max, is_durable: false }
    }

    fn offsets(history: &EventHistory, after: u64, newest: u64) -> Option<Vec<u64>> {
        Some(history.after(after, newest)?.map(|entry| entry.offset).collect())
    }

    #[test]
    fn recovery_returns_all_missed_events_or_a_gap() {
        let mut history = EventHistory::default();
        for offset in 1..=5 {
            history.push(entry(offset, 0, 1), &limits(3, 10_000, 1_000));
        }
        assert_eq!(offsets(&history, 5, 5), Some(vec![]));
        assert_eq!(offsets(&history, 3, 5), Some(vec![4, 5]));
        assert_eq!(offsets(&history, 2, 5), Some(vec![3, 4, 5]));
        assert_eq!(offsets(&history, 1, 5), None, "2 is gone");
        assert_eq!(offsets(&history, 6, 5), None, "a place in the future is of another history");
    }

    #[test]
    fn history_age_removes_events_within_the_other_limits() {
        let mut history = EventHistory::default();
        history.push(entry(1, 0, 1), &limits(9, 10_000, 100));
        history.push(entry(2, 90, 1), &limits(9, 10_000, 100));
        history.trim(Timestamp::from_millis(101), &limits(9, 10_000, 100));
        assert_eq!(offsets(&history, 1, 2), Some(vec![2]));
        assert_eq!(offsets(&history, 0, 2), None);
        history.trim(Timestamp::from_millis(1_000), &limits(9, 10_000, 100));
        assert!(history.is_empty());
        assert_eq!(history.bytes(), 0);
        assert_eq!(offsets(&history, 2, 2), Some(vec![]), "nothing was missed");
        assert_eq!(offsets(&history, 1, 2), None);
    }

    #[test]
    fn the_newest_entries_after_an_offset_are_returned() {
        let mut history = EventHistory::default();
        for offset in 1..=5 {
            history.push(entry(offset, 0, 1), &limits(9, 10_000, 1_000));
        }
        let newest = |after, most| -> Vec<u64> {
            history.newest(after, most).map(|entry| entry.offset).collect()
        };
        assert_eq!(newest(0, 2), [4, 5]);
        assert_eq!(newest(3, 9), [4, 5]);
        assert!(newest(9, 9).is_empty());
    }

    proptest! {
        #[test]
        fn history_stays_within_its_limits_without_gaps(
            sizes in prop::collection::vec((0_usize..300, 0_u64..20), 1..200),
            events_max in 0_usize..20,
            bytes_max in 0_usize..2_000,
        ) {
            let limits = limits(events_max, bytes_max, 50);
            let mut history = EventHistory::default();
            let mut now = 0;
            for (offset, (bytes, step)) in (1..).zip(sizes) {
                now += step;
                history.push(entry(offset, now, bytes), &limits);
                prop_assert!(history.len() <= events_max);
                prop_assert!(history.bytes() <= bytes_max);
                let kept: Vec<u64> = history.newest(0, usize::MAX).map(|e| e.offset).collect();
                let expected: Vec<u64> = (offset + 1 - kept.len() as u64..=offset).collect();
                prop_assert_eq!(kept, expected);
                let bytes: usize = history.entries.iter().map(HistoryEntry::bytes).sum();
                prop_assert_eq!(bytes, history.bytes());
            }
        }
    }
}
