//! Time in slices of five minutes: the recent figures are those of the last twelve, the present one included.

use std::collections::VecDeque;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::histogram::{DurationHistogram, micros};

/// The length of a slice.
pub(super) const SLICE: Duration = Duration::from_secs(300);
/// Slices that are kept.
pub(super) const SLICES: usize = 12;
/// All of them.
pub(crate) const WINDOW: Duration = Duration::from_secs(SLICE.as_secs() * SLICES as u64);

/// The longest time over which recent figures can be read, in minutes. Older figures are only in the totals.
pub const WINDOW_MINUTES_MAX: u32 = 60;
const _: () = assert!(WINDOW.as_secs() == WINDOW_MINUTES_MAX as u64 * 60);

/// The number of a slice: slices since the epoch.
pub(super) type SliceNumber = u64;

/// Returns the slice of a time.
pub(super) fn slice_at(time: Timestamp) -> SliceNumber {
    time.as_micros() / micros(SLICE)
}

/// Returns when a slice begins.
pub(super) fn slice_start(number: SliceNumber) -> Timestamp {
    Timestamp::from_micros(number.saturating_mul(micros(SLICE)))
}

/// What jobs of a type did in one slice.
#[derive(Clone, Debug, Default)]
pub(super) struct TypeSlice {
    pub(super) number: SliceNumber,
    pub(super) counts: RunCounts,
    pub(super) wait: DurationHistogram,
    pub(super) run: DurationHistogram,
}

/// Counts of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunCounts {
    pub(super) started: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Started jobs that did not end: their worker ended first, or they were not delivered.
    pub(super) returned: u64,
}

impl RunCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.returned += other.returned;
    }
}

impl TypeSlice {
    /// Adds the figures of another slice.
    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.add(other.counts);
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
    }
}

/// The slices in which a type had jobs, the latest last.
#[derive(Debug, Default)]
pub(super) struct TypeSlices(VecDeque<Box<TypeSlice>>);

impl TypeSlices {
    /// Returns the slice of `now`, or the latest one if the clock went back.
    pub(super) fn at(&mut self, now: Timestamp) -> &mut TypeSlice {
        let last = self.0.back().map_or(0, |last| last.number);
        let number = slice_at(now).max(last);
        if self.0.is_empty() || number > last {
            self.0.push_back(Box::new(TypeSlice { number, ..TypeSlice::default() }));
        }
        while self.0.front().is_some_and(|oldest| oldest.number + SLICES as u64 <= number) {
            self.0.pop_front();
        }
        self.0.back_mut().expect("the slice was there or was added")
    }

    /// Forgets the slices after that of `now`.
    pub(super) fn set_back(&mut self, now: Timestamp) {
        self.0.retain(|slice| slice.number <= slice_at(now));
    }

    /// Returns the slices of the last `slices`, that of `now` included.
    pub(super) fn recent(&self, now: Timestamp, slices: usize) -> impl Iterator<Item = &TypeSlice> {
        let present = slice_at(now);
        let is_recent = move |slice: &&TypeSlice| slice.number + slices as u64 > present;
        self.0.iter().map(Box::as_ref).filter(is_recent)
    }
}

/// A count for each slice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SliceCounts {
    latest: SliceNumber,
    counts: [u32; SLICES],
}

impl SliceCounts {
    /// Counts an event at `now`.
    pub(super) fn count(&mut self, now: Timestamp) {
        let number = slice_at(now).max(self.latest);
        let skipped = (number - self.latest).min(SLICES as u64);
        for back in 0..skipped {
            self.counts[place(number - back)] = 0;
        }
        self.latest = number;
        let count = &mut self.counts[place(number)];
        *count = count.saturating_add(1);
    }

    /// Forgets the events after the slice of `now`.
    pub(super) fn set_back(&mut self, now: Timestamp) {
        let present = slice_at(now);
        let after = self.latest.saturating_sub(present).min(SLICES as u64);
        for back in 0..after {
            self.counts[place(self.latest - back)] = 0;
        }
        self.latest = self.latest.min(present);
    }

    /// Returns the events of the last `slices`, that of `now` included.
    pub(super) fn recent(&self, now: Timestamp, slices: usize) -> u64 {
        let present = slice_at(now);
        let kept = (0..SLICES as u64).filter_map(|back| self.latest.checked_sub(back));
        let is_recent = |number: &SliceNumber| number + slices as u64 > present;
        kept.filter(is_recent).map(|number| u64::from(self.counts[place(number)])).sum()
    }
}

const fn place(number: SliceNumber) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below 12")]
    let place = (number % SLICES as u64) as usize;
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * 60_000)
    }

    #[test]
    fn counts_leave_the_window_after_an_hour() {
        let mut counts = SliceCounts::default();
        for at in [1_000, 1_001, 1_006, 1_059] {
            counts.count(minute(at));
        }
        assert_eq!(counts.recent(minute(1_059), SLICES), 4);
        assert_eq!(counts.recent(minute(1_060), SLICES), 2, "the slice from minute 1,000 is over");
        assert_eq!(counts.recent(minute(1_059), 1), 1);
        assert_eq!(counts.recent(minute(1_200), SLICES), 0);
        counts.count(minute(1_064));
        assert_eq!(counts.recent(minute(1_064), SLICES), 3);
        counts.count(minute(5_000));
        assert_eq!(counts.recent(minute(5_000), SLICES), 1, "what was between is forgotten");
    }

    #[test]
    fn a_clock_that_is_set_back_forgets_what_was_later() {
        for (to, left) in [(1_059, 4), (1_050, 3), (1_041, 3), (1_036, 1), (1_029, 0), (10, 0)] {
            let mut counts = SliceCounts::default();
            for at in [1_031, 1_041, 1_043, 1_059] {
                counts.count(minute(at));
            }
            counts.set_back(minute(to));
            assert_eq!(counts.recent(minute(to), SLICES), left, "{to}: whole slices");
            counts.count(minute(to));
            assert_eq!(counts.recent(minute(to), SLICES), left + 1, "{to}");
        }
    }

    #[test]
    fn slices_are_kept_for_an_hour() {
        let mut slices = TypeSlices::default();
        for at in [1_000, 1_001, 1_006, 1_059, 1_030] {
            slices.at(minute(at)).counts.started += 1;
        }
        let started = |slices: &TypeSlices, at, count| {
            slices.recent(minute(at), count).map(|slice| slice.counts.started).collect::<Vec<_>>()
        };
        assert_eq!(
            started(&slices, 1_059, SLICES),
            [2, 1, 2],
            "a clock that went back adds to the latest"
        );
        assert_eq!(started(&slices, 1_059, 1), [2]);
        slices.at(minute(1_060)).counts.started += 1;
        assert_eq!(slices.0.len(), 3, "the first one is gone");
        assert!(started(&slices, 1_200, SLICES).is_empty());
    }
}
