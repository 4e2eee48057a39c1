//! A histogram of durations with buckets of logarithmic size: 516 bytes, from a quarter of a millisecond to twelve
//! days.

use std::time::Duration;

/// Shorter durations share the first bucket: below 2^8 = 256 µs.
const FIRST_BITS: u32 = 8;
/// Buckets of each power of two, as bits. The width of a bucket is at most a quarter of its lower bound.
const STEP_BITS: u32 = 2;
const STEPS: u64 = 1 << STEP_BITS;
/// Powers of two with buckets. Longer durations share the last bucket: from 2^39 · 1.75 µs, 11 days.
const OCTAVES: u32 = 32;
const BUCKETS: usize = 1 + (OCTAVES << STEP_BITS) as usize;

/// Counts durations.
#[derive(Clone, Debug)]
pub(super) struct DurationHistogram {
    counts: [u32; BUCKETS],
    sum_micros: u64,
    max_micros: u64,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum_micros: 0, max_micros: 0 }
    }
}

impl DurationHistogram {
    pub(super) fn observe(&mut self, duration: Duration) {
        let micros = micros(duration);
        let count = &mut self.counts[bucket(micros)];
        *count = count.saturating_add(1);
        self.sum_micros = self.sum_micros.saturating_add(micros);
        self.max_micros = self.max_micros.max(micros);
    }

    /// Adds what another histogram has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
        self.sum_micros = self.sum_micros.saturating_add(other.sum_micros);
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the sum of all durations.
    pub(super) fn sum_seconds(&self) -> f64 {
        as_seconds(self.sum_micros)
    }

    /// Returns the longest duration. `None`: nothing was counted.
    pub(super) fn max_seconds(&self) -> Option<f64> {
        (self.count() > 0).then(|| as_seconds(self.max_micros))
    }

    /// Returns the duration in seconds that the share `quantile` of all does not exceed, at most an eighth off: the middle
    /// of its bucket, or the longest of all. `None`: nothing was counted.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let count = self.count();
        let rank = quantile * as_f64(count);
        if rank > as_f64(count) - 1.0 {
            return self.max_seconds();
        }
        let mut below = 0;
        for (at, in_bucket) in self.counts.iter().enumerate() {
            let in_bucket = u64::from(*in_bucket);
            if in_bucket > 0 && as_f64(below + in_bucket) >= rank {
                let (lower, upper) = (lower_bound(at), lower_bound(at + 1).min(self.max_micros));
                return Some(f64::midpoint(as_seconds(lower), as_seconds(upper)));
            }
            below += in_bucket;
        }
        None
    }
}

/// Returns the bucket of a duration.
fn bucket(micros: u64) -> usize {
    let Some(bits) = micros.checked_ilog2().filter(|bits| *bits >= FIRST_BITS) else {
        return 0;
    };
    let step = (micros >> (bits - STEP_BITS)) % STEPS;
    let octave = u64::from(bits - FIRST_BITS);
    let bucket = usize::try_from(octave * STEPS + step + 1).unwrap_or(usize::MAX);
    bucket.min(BUCKETS - 1)
}

/// Returns the shortest duration of a bucket, in microseconds.
fn lower_bound(bucket: usize) -> u64 {
    let Some(at) = (bucket as u64).checked_sub(1) else { return 0 };
    let octave = at / STEPS + u64::from(FIRST_BITS);
    (STEPS + at % STEPS) << (octave - u64::from(STEP_BITS))
}

/// Returns a duration in microseconds.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn as_seconds(micros: u64) -> f64 {
    as_f64(micros) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are exact enough")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> DurationHistogram {
        let mut histogram = DurationHistogram::default();
        micros.into_iter().for_each(|micros| histogram.observe(Duration::from_micros(micros)));
        histogram
    }

    #[test]
    fn it_takes_516_bytes_for_counts_and_16_for_sum_and_maximum() {
        assert_eq!(size_of::<DurationHistogram>(), 536, "532 and padding");
    }

    #[test]
    fn bounds_reach_from_a_quarter_of_a_millisecond_to_eleven_days() {
        assert_eq!([0, 1, 2, 5].map(lower_bound), [0, 256, 320, 512]);
        let days = lower_bound(BUCKETS - 1) / 86_400_000_000;
        assert_eq!(days, 11);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_off() {
        let many = of((1..=10_000).map(|millis| millis * 1_000));
        for (quantile, seconds) in [(0.5, 5.0), (0.95, 9.5), (0.99, 9.9), (1.0, 10.0)] {
            let found = many.quantile(quantile).unwrap();
            assert!((found / seconds - 1.0).abs() <= 0.125, "{quantile}: {found}");
        }
        assert_eq!(of([]).quantile(0.5), None);
        assert_eq!(of([]).max_seconds(), None);
        assert!(of([59_000_000; 5]).quantile(0.5).unwrap() <= 59.0, "no more than the maximum");
        assert_eq!(of([29_000_000, 30_000_000]).quantile(0.95), Some(30.0), "the longest is exact");
        assert_eq!(of([30_000_000, 1]).max_seconds(), Some(30.0));
    }

    #[test]
    fn quantiles_of_steady_durations_with_an_outlier_are_at_most_an_eighth_off() {
        for steady in (1_000_000_u64..2_100_000).step_by(7_000) {
            let durations = std::iter::repeat_n(steady, 99).chain([60_000_000]);
            let histogram = of(durations);
            for quantile in [0.01, 0.5, 0.95, 0.99] {
                let found = histogram.quantile(quantile).unwrap() / as_seconds(steady);
                assert!((found - 1.0).abs() <= 0.125, "{quantile} of {steady}: {found}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_duration_is_between_the_bounds_of_its_bucket(micros in 0..1_u64 << 40) {
            let at = bucket(micros);
            prop_assert!(lower_bound(at) <= micros);
            prop_assert!(micros < lower_bound(at + 1));
            if at > 0 {
                let width = lower_bound(at + 1) - lower_bound(at);
                prop_assert!(width * 4 <= lower_bound(at));
            }
        }

        #[test]
        fn merged_histograms_are_that_of_all(
            one in prop::collection::vec(0..1_u64 << 41, 0..50),
            other in prop::collection::vec(0..1_u64 << 41, 0..50),
        ) {
            let mut merged = of(one.clone());
            merged.merge(&of(other.clone()));
            let all = of(one.into_iter().chain(other));
            prop_assert_eq!(merged.counts, all.counts);
            prop_assert_eq!(merged.sum_micros, all.sum_micros);
            prop_assert_eq!(merged.max_micros, all.max_micros);
        }
    }
}
