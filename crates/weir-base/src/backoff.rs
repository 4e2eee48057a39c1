//! How long to wait before the next attempt.

use std::time::Duration;

/// Doubles from the least to the most, each less up to a half at random, so that endpoints that
/// failed together don't come back together.
#[derive(Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl Backoff {
    /// No failure yet.
    #[must_use]
    pub const fn new(min: Duration, max: Duration, random: fastrand::Rng) -> Self {
        Self { min, max, failures: 0, random }
    }

    /// After one more failure.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.after(self.failures)
    }

    /// The delay after this many failures, which the caller counts.
    pub fn after(&mut self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.jittered(self.min.saturating_mul(factor).min(self.max))
    }

    /// After a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Between half of `full` and all of it.
    pub fn jittered(&mut self, full: Duration) -> Duration {
        full.mul_f64(1.0 - self.random.f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_most_and_start_again_after_a_success() {
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
    fn two_endpoints_do_not_wait_alike() {
        let second = Duration::from_secs(1);
        let delays = |seed| {
            let random = fastrand::Rng::with_seed(seed);
            let mut backoff = Backoff::new(second, second, random);
            [backoff.next_delay(), backoff.next_delay(), backoff.next_delay()]
        };
        assert_ne!(delays(1), delays(2));
    }
}
