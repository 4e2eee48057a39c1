//! A histogram of durations that can be read: percentiles for pages, buckets for a scrape.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bounds per decade, as multiples of its start in hundredths.
const STEPS: [u64; 6] = [100, 150, 200, 300, 500, 700];
/// From 1 µs, a step in memory, to 10 s, a server that stalls.
const DECADES: usize = 7;
const BOUNDS: usize = DECADES * STEPS.len() + 1;
/// Upper bounds in nanoseconds, inclusive.
const BOUNDS_NANOS: [u64; BOUNDS] = bounds();
/// The last bucket has no bound.
const BUCKETS: usize = BOUNDS + 1;

const fn bounds() -> [u64; BOUNDS] {
    let (mut bounds, mut decade, mut at) = ([0; BOUNDS], 10, 0);
    while at < BOUNDS {
        bounds[at] = decade * STEPS[at % STEPS.len()];
        at += 1;
        if at.is_multiple_of(STEPS.len()) {
            decade *= 10;
        }
    }
    bounds
}

/// Counts durations. Read by any thread, written by one: the thread that owns the store.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; BUCKETS], nanos: AtomicU64::new(0) }
    }
}

impl LatencyHistogram {
    pub(super) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NANOS.partition_point(|bound| *bound < nanos);
        add(&self.counts[bucket], 1);
        add(&self.nanos, nanos);
    }

    pub(super) fn read(&self) -> LatencyCounts {
        LatencyCounts {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed)),
            nanos: self.nanos.load(Relaxed),
        }
    }
}

/// Adds without a locked instruction: there is one writer.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// What a histogram has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LatencyCounts {
    counts: [u64; BUCKETS],
    nanos: u64,
}

impl LatencyCounts {
    /// Returns what was counted after `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at].saturating_sub(earlier.counts[at])),
            nanos: self.nanos.saturating_sub(earlier.nanos),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations.
    pub(super) fn seconds(&self) -> f64 {
        as_seconds(self.nanos)
    }

    /// Returns the duration in seconds that the share `quantile` of all does not exceed, interpolated
    /// within its bucket. `None`: nothing was counted.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = quantile * as_f64(count);
        let mut below = 0;
        for (at, in_bucket) in self.counts.iter().enumerate() {
            if *in_bucket > 0 && as_f64(below + in_bucket) >= rank {
                let lower = at.checked_sub(1).map_or(0, |at| BOUNDS_NANOS[at]);
                let upper = BOUNDS_NANOS.get(at).copied().unwrap_or(lower);
                let share = ((rank - as_f64(below)) / as_f64(*in_bucket)).clamp(0.0, 1.0);
                return Some(as_seconds(lower) + as_seconds(upper - lower) * share);
            }
            below += in_bucket;
        }
        None
    }

    /// Returns the buckets of a scrape, three per decade: upper bound in seconds, and count.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let mut buckets = Vec::with_capacity(BUCKETS / 2);
        let mut count = 0;
        for (at, in_bucket) in self.counts.iter().enumerate() {
            count += in_bucket;
            let bound = BOUNDS_NANOS.get(at).map_or(f64::INFINITY, |bound| as_seconds(*bound));
            if matches!(STEPS[at % STEPS.len()], 100 | 200 | 500) || bound.is_infinite() {
                buckets.push((bound, std::mem::take(&mut count)));
            }
        }
        buckets
    }
}

fn as_seconds(nanos: u64) -> f64 {
    as_f64(nanos) / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "figures for people: 53 bits are exact enough")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(micros: &[u64]) -> LatencyCounts {
        let histogram = LatencyHistogram::default();
        micros.iter().for_each(|micros| histogram.observe(Duration::from_micros(*micros)));
        histogram.read()
    }

    #[test]
    fn bounds_grow_from_a_microsecond_to_ten_seconds() {
        assert!(BOUNDS_NANOS.is_sorted());
        assert_eq!(BOUNDS_NANOS[..3], [1_000, 1_500, 2_000]);
        assert_eq!(BOUNDS_NANOS[BOUNDS - 1], 10_000_000_000);
    }

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_duration() {
        assert_eq!(counts(&[]).quantile(0.5), None);
        let many: Vec<u64> = (1..=1_000).collect();
        let many = counts(&many);
        for (quantile, seconds) in [(0.5, 0.000_5), (0.99, 0.000_99), (0.001, 0.000_001)] {
            let found = many.quantile(quantile).unwrap();
            assert!((found / seconds - 1.0).abs() < 0.05, "{quantile}: {found}");
        }
        assert_eq!(counts(&[60_000_000]).quantile(0.5), Some(10.0), "beyond the last bound");
    }

    #[test]
    fn a_scrape_has_all_observations_in_three_buckets_per_decade() {
        let counts = counts(&[1, 2, 15, 50, 20_000_000]);
        let buckets = counts.buckets();
        assert_eq!(buckets.len(), 3 * DECADES + 2);
        assert_eq!(buckets[0], (0.000_001, 1));
        assert_eq!(buckets[4], (0.000_02, 1));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 5);
        assert!((counts.seconds() - 20.000_068).abs() < 1e-9);
        assert_eq!(counts.since(&counts).count(), 0);
    }
}
