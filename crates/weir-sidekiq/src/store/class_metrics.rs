//! Counts and durations of jobs by class, until they are written for Sidekiq's page of metrics.
//!
//! As Sidekiq counts: each run, each failed run, and the time of those that did not fail.

use std::collections::BTreeMap;
use std::time::Duration;

/// Upper bounds of Sidekiq's histogram in milliseconds, exclusive. One more bucket has all else.
const BOUNDS_MS: [u64; 25] = [
    20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1_100, 1_700, 2_500, 3_800, 5_750, 8_500, 13_000,
    20_000, 30_000, 45_000, 65_000, 100_000, 150_000, 225_000, 335_000,
];
pub(super) const BUCKETS: usize = BOUNDS_MS.len() + 1;

/// Longer names of classes are left out: each is a part of a key.
const CLASS_BYTES_MAX: usize = 255;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunOutcome {
    Done(Duration),
    Failed,
}

/// Whether a run was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    Counted,
    /// It has a class that can't be counted, or there are too many.
    LeftOut,
}

/// The runs of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassCounts {
    /// Including those that failed.
    pub(super) processed: u64,
    pub(super) failed: u64,
    /// Of those that did not fail.
    pub(super) milliseconds: u64,
    pub(super) histogram: [u64; BUCKETS],
}

/// The runs of all classes that were not written yet.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassMetrics(BTreeMap<Box<str>, ClassCounts>);

impl ClassMetrics {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a run, unless it is the first of a class beyond `classes_max`.
    pub(super) fn record(
        &mut self,
        class: &str,
        outcome: RunOutcome,
        classes_max: usize,
    ) -> Recorded {
        let has_room = self.0.len() < classes_max;
        let counts = match self.0.get_mut(class) {
            Some(counts) => counts,
            None if has_room && is_countable(class) => self.0.entry(class.into()).or_default(),
            None => return Recorded::LeftOut,
        };
        counts.processed += 1;
        match outcome {
            RunOutcome::Failed => counts.failed += 1,
            RunOutcome::Done(took) => {
                let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                counts.milliseconds = counts.milliseconds.saturating_add(milliseconds);
                let bucket = BOUNDS_MS.partition_point(|bound| *bound <= milliseconds);
                counts.histogram[bucket] += 1;
            }
        }
        Recorded::Counted
    }

    /// Removes up to `classes` classes.
    pub(super) fn take(&mut self, classes: usize) -> Self {
        match self.0.keys().nth(classes).cloned() {
            Some(first_left) => {
                let left = self.0.split_off(&first_left);
                Self(std::mem::replace(&mut self.0, left))
            }
            None => std::mem::take(self),
        }
    }

    /// Adds what could not be written.
    pub(super) fn put_back(&mut self, unwritten: Self) {
        for (class, counts) in unwritten.0 {
            let present = self.0.entry(class).or_default();
            present.processed += counts.processed;
            present.failed += counts.failed;
            present.milliseconds = present.milliseconds.saturating_add(counts.milliseconds);
            for (bucket, more) in present.histogram.iter_mut().zip(counts.histogram) {
                *bucket += more;
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &ClassCounts)> {
        self.0.iter().map(|(class, counts)| (&**class, counts))
    }
}

/// Returns whether a name may be a part of Sidekiq's keys and fields: a constant of Ruby, or a name
/// as other languages have them. Sidekiq splits fields at `|`. A name with single colons could make
/// the key of a histogram one of a queue.
fn is_countable(class: &str) -> bool {
    let is_part = |part: &str| {
        part.chars().all(|letter| letter.is_alphanumeric() || "_.-/<>#".contains(letter))
    };
    let is_short = !class.is_empty() && class.len() <= CLASS_BYTES_MAX;
    is_short && class.split("::").all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(milliseconds: u64) -> RunOutcome {
        RunOutcome::Done(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_failed_run_is_counted_and_not_timed() {
        let mut metrics = ClassMetrics::default();
        for outcome in [done(19), done(20), done(400_000), RunOutcome::Failed] {
            assert_eq!(metrics.record("A::B", outcome, 1), Recorded::Counted);
        }
        let (class, counts) = metrics.iter().next().unwrap();
        assert_eq!((class, counts.processed, counts.failed), ("A::B", 4, 1));
        assert_eq!(counts.milliseconds, 400_039);
        let mut expected = [0; BUCKETS];
        (expected[0], expected[1], expected[BUCKETS - 1]) = (1, 1, 1);
        assert_eq!(counts.histogram, expected);
    }

    #[test]
    fn classes_beyond_the_limit_and_odd_names_are_left_out() {
        let mut metrics = ClassMetrics::default();
        let long = "x".repeat(CLASS_BYTES_MAX + 1);
        for odd in ["", "a|b", "queue:default", "a b", "a\n", "a:::b", "a{b}", "\u{0}", &long] {
            assert_eq!(metrics.record(odd, done(1), 9), Recorded::LeftOut, "{odd:?}");
        }
        for good in ["Mailer", "Ns::Mailer", "app.tasks.send", "Ünicode", "a-b_c/d"] {
            assert_eq!(metrics.record(good, done(1), 5), Recorded::Counted, "{good:?}");
        }
        assert_eq!(metrics.record("Sixth", done(1), 5), Recorded::LeftOut);
        assert_eq!(metrics.record("Mailer", done(1), 5), Recorded::Counted);
    }

    proptest::proptest! {
        #[test]
        fn no_name_that_is_counted_looks_like_a_key_of_jobs(
            class in "(queue:|queue::|stat:|weir:)?[\\PC:|{}]{0,20}",
        ) {
            if is_countable(&class) {
                for prefix in ["queue:", "stat:", "weir:"] {
                    let rest = class.strip_prefix(prefix);
                    proptest::prop_assert!(rest.is_none_or(|rest| rest.starts_with(':')));
                }
                let is_odd = class.contains(['|', '{', '}', '\n', ' ']);
                proptest::prop_assert!(!is_odd);
            }
        }
    }

    #[test]
    fn what_is_taken_comes_back_whole() {
        let mut metrics = ClassMetrics::default();
        for class in ["a", "b", "c"] {
            metrics.record(class, done(7), 9);
        }
        let taken = metrics.take(2);
        assert_eq!(taken.iter().map(|(class, _)| class).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(metrics.take(2).iter().count(), 1);
        assert!(metrics.is_empty());
        metrics.record("a", done(30), 9);
        metrics.put_back(taken);
        let (_, counts) = metrics.iter().next().unwrap();
        assert_eq!((counts.processed, counts.milliseconds), (2, 37));
        assert_eq!(counts.histogram[..3], [1, 0, 1]);
    }
}
