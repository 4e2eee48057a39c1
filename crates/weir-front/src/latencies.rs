//! Histograms of durations, fine enough for a median and a 99th percentile.
//!
//! Each doubling has eight buckets, so a value that is read back is off by 6.25 % at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The binary logarithm of the number of buckets in a doubling.
const PARTS_BITS: u32 = 3;
const PARTS: usize = 1 << PARTS_BITS;
/// Powers of two of microseconds, up to 2^31 (half an hour); longer durations count as that long.
const DOUBLINGS: usize = 32;
const BUCKETS: usize = DOUBLINGS * PARTS;

/// A histogram whose counts only rise, shared by all cores.
#[derive(Debug)]
pub(crate) struct Latencies([AtomicU64; BUCKETS]);

/// A snapshot of a histogram, or the difference between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution(Vec<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; BUCKETS])
    }
}

impl Latencies {
    pub(crate) fn record(&self, duration: Duration) {
        self.0[bucket(duration)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn distribution(&self) -> Distribution {
        Distribution(self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect())
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

impl Distribution {
    /// Creates the distribution of `all`.
    #[must_use]
    pub fn from_durations(all: &[Duration]) -> Self {
        let mut distribution = Self::default();
        for duration in all {
            distribution.0[bucket(*duration)] += 1;
        }
        distribution
    }

    /// Returns how many durations were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the distribution of what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.0.iter().zip(&earlier.0);
        Self(counts.map(|(now, before)| now.saturating_sub(*before)).collect())
    }

    /// Returns the duration that the share `quantile` of all does not exceed. None: there are none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share: 53 bits are enough")]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let target_count = self.count() as f64 * quantile;
        let mut cumulative = 0;
        let is_reached = |(_, count): &(usize, &u64)| {
            cumulative += **count;
            **count > 0 && cumulative as f64 >= target_count
        };
        self.0.iter().enumerate().find(is_reached).map(|(bucket, _)| middle(bucket))
    }
}

/// Returns the bucket of a duration, given by the first bits of its microseconds.
fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let Some(doubling) = micros.checked_ilog2() else { return 0 };
    let bits = if doubling < PARTS_BITS {
        micros << (PARTS_BITS - doubling)
    } else {
        micros >> (doubling - PARTS_BITS)
    };
    let part = usize::try_from(bits).map_or(0, |bits| bits & (PARTS - 1));
    (doubling as usize * PARTS + part).min(BUCKETS - 1)
}

/// Returns the middle of a bucket. It is 0 for the first, which has all shorter durations, too.
fn middle(bucket: usize) -> Duration {
    if bucket == 0 {
        return Duration::ZERO;
    }
    let (doubling, part) = (bucket / PARTS, bucket % PARTS);
    let part_nanos = (1_000_u64 << doubling) / PARTS as u64;
    Duration::from_nanos((1_000_u64 << doubling) + part_nanos * part as u64 + part_nanos / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[track_caller]
    fn assert_near(found: Option<Duration>, wanted: Duration) {
        let found = found.expect("a length").as_secs_f64();
        let off = found / wanted.as_secs_f64() - 1.0;
        assert!(off.abs() <= 0.0625, "{found} is not {wanted:?}");
    }

    #[test]
    fn durations_are_read_back_within_the_documented_error() {
        for doubling in 1..30 {
            for length in
                [1_u64 << doubling, (1 << doubling) + (1 << (doubling - 1)), (2 << doubling) - 1]
            {
                let duration = Duration::from_micros(length);
                assert_near(Distribution::from_durations(&[duration]).quantile(0.5), duration);
            }
        }
        let longest =
            Distribution::from_durations(&[Duration::MAX]).quantile(1.0).expect("a length");
        assert!(longest > Duration::from_secs(1_800));
        assert_eq!(
            Distribution::from_durations(&[Duration::ZERO]).quantile(0.99),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_quantile_covers_only_the_difference_of_two_snapshots() {
        let latencies = Latencies::default();
        assert_eq!(latencies.distribution().quantile(0.5), None);
        (0..1_000).for_each(|_| latencies.record(millis(500)));
        let before = latencies.distribution();
        (0..98).for_each(|_| latencies.record(millis(10)));
        (0..2).for_each(|_| latencies.record(millis(3_000)));
        let between = latencies.distribution().since(&before);
        assert_eq!(between.count(), 100);
        assert_near(between.quantile(0.5), millis(10));
        assert_near(between.quantile(0.98), millis(10));
        assert_near(between.quantile(0.99), millis(3_000));
    }
}
