//! How long to wait after a failure.

use std::time::Duration;

/// Doubles from the least to the most, each less up to a half at random, so that mirrors that failed
/// together don't come back together.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, failures: 0 }
    }

    /// After one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// After so many failures and one.
    pub(super) fn after(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        jittered(self.min.saturating_mul(factor).min(self.max))
    }

    /// After a success.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Between half of `full` and all of it.
pub(super) fn jittered(full: Duration) -> Duration {
    full.mul_f64(1.0 - fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_start_again_after_a_success() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 30 * second);
        for _ in 0..2 {
            for full in [1, 2, 4, 8, 16, 30, 30] {
                let wait = backoff.next();
                assert!(wait <= full * second && wait >= full * second / 2, "{wait:?} of {full}");
            }
            (0..100).for_each(|_| assert!(backoff.next() <= 30 * second));
            backoff.reset();
        }
    }
}
