//! Delays between attempts, with exponential backoff and jitter.

use std::time::Duration;

/// Doubles the delay from a minimum to a maximum, each reduced by up to half at random, so that
/// endpoints that failed together do not retry together.
#[derive(Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    /// Creates a backoff without failures.
    #[must_use]
    pub const fn new(min: Duration, max: Duration, random: fastrand::Rng) -> Self {
        Self { min, max, failures: 0, random }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.after(self.failures)
    }

    /// Returns the delay after `failures` consecutive failures, which the calling code counts.
    pub fn after(&mut self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.jittered(self.min.saturating_mul(factor).min(self.max))
    }

    /// Resets the count after a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns a random duration between half of `full` and `full`.
    pub fn jittered(&mut self, full: Duration) -> Duration {
        full.mul_f64(1.0 - self.random.f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_reset_after_a_success() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 30 * second, fastrand::Rng::with_seed(1));
        for _ in 0..2 {
            for full in [1, 2, 4, 8, 16, 30, 30] {
                let delay = backoff.next_delay();
                assert!(
                    delay <= full * second && delay >= full * second / 2,
                    "{delay:?} of {full}"
                );
            }
            (0..100).for_each(|_| assert!(backoff.next_delay() <= 30 * second));
            backoff.reset();
        }
    }

    #[test]
    fn endpoints_wait_differently() {
        let second = Duration::from_secs(1);
        let delays = |seed| {
            let random = fastrand::Rng::with_seed(seed);
            let mut backoff = Backoff::new(second, second, random);
            [backoff.next_delay(), backoff.next_delay(), backoff.next_delay()]
        };
        assert_ne!(delays(1), delays(2));
    }
}
