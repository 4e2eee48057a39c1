//! Waits by size, in steps of 5 %.

/// Waits below this are counted as 0.
const LEAST_SECONDS: f64 = 0.001;
/// The ratio of neighbouring buckets: percentiles are right within 2.5 %.
const RATIO: f64 = 1.05;
/// Up to 1 ms × 1.05^600 = 163 years.
const BUCKETS: usize = 600;

/// A histogram of waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    buckets: Vec<u64>,
    /// Waits.
    pub count: u64,
    /// Their sum.
    pub sum_seconds: f64,
    /// Those within the target.
    pub in_target: u64,
    target_seconds: f64,
}

impl Waits {
    pub(super) fn new(target_seconds: f64) -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum_seconds: 0.0, in_target: 0, target_seconds }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm is positive, and `min` limits it"
    )]
    pub(super) fn add(&mut self, seconds: f64) {
        let bucket = if seconds < LEAST_SECONDS {
            0
        } else {
            1 + ((seconds / LEAST_SECONDS).ln() / RATIO.ln()) as usize
        };
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum_seconds += seconds;
        self.in_target += u64::from(seconds <= self.target_seconds);
    }

    /// Returns the wait that the share of all waits does not exceed; 0 without any.
    #[must_use]
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = share * self.count as f64;
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below += count;
            if *count > 0 && below as f64 >= rank {
                // The middle of the bucket.
                let steps = f64::from(u32::try_from(bucket).unwrap_or(u32::MAX)) - 0.5;
                return if bucket == 0 { 0.0 } else { LEAST_SECONDS * RATIO.powf(steps) };
            }
        }
        0.0
    }

    /// Returns the average; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum_seconds / (self.count as f64).max(1.0)
    }

    /// Returns whether 95 % of the waits are within the target.
    #[must_use]
    pub fn is_in_target(&self) -> bool {
        self.in_target as f64 >= 0.95 * self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_step() {
        let mut waits = Waits::new(500.0);
        (1..=1_000).for_each(|it| waits.add(f64::from(it)));
        for (share, expected) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = waits.percentile(share);
            assert!((found / expected - 1.0).abs() < 0.04, "{share}: {found}");
        }
        assert!((waits.mean() - 500.5).abs() < 1e-9);
        assert_eq!(waits.in_target, 500);
    }
}
