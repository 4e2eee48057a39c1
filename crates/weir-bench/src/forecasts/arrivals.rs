//! Jobs that arrive while a queue drains.

use std::f64::consts::TAU;
use std::time::Duration;

use fastrand::Rng;

use crate::draw::exponential;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arrivals {
    None,
    /// Poisson.
    Random {
        per_second: f64,
    },
    /// The rate rises from 0 for so long, and then stays.
    Growing {
        per_second: f64,
        over_seconds: f64,
    },
    /// Several jobs at once, at random times.
    Bursts {
        every_seconds: f64,
        jobs: u64,
    },
    /// Between 0 and twice the mean.
    Oscillating {
        per_second: f64,
        period_seconds: f64,
    },
}

impl Arrivals {
    /// Returns when the next jobs arrive, at a time of the round, and how many. `None`: none do.
    pub(super) fn next(self, now: Duration, random: &mut Rng) -> Option<(Duration, u64)> {
        let now = now.as_secs_f64();
        let (at, jobs) = match self {
            Self::None => return None,
            Self::Random { per_second } => (now + exponential(random, 1.0 / per_second), 1),
            Self::Growing { per_second, over_seconds } => {
                let share = |at: f64| (at / over_seconds).min(1.0);
                (thinned(now, per_second, share, random), 1)
            }
            Self::Bursts { every_seconds, jobs } => {
                (now + exponential(random, every_seconds), jobs)
            }
            Self::Oscillating { per_second, period_seconds } => {
                let share = |at: f64| f64::midpoint(1.0, (at / period_seconds * TAU).sin());
                (thinned(now, 2.0 * per_second, share, random), 1)
            }
        };
        Some((Duration::from_secs_f64(at), jobs))
    }
}

/// Draws arrivals at the highest rate, and drops those beyond the share of it that applies at each time.
fn thinned(now: f64, highest: f64, share: impl Fn(f64) -> f64, random: &mut Rng) -> f64 {
    let mut at = now;
    loop {
        at += exponential(random, 1.0 / highest);
        if random.f64() < share(at) {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_their_mean_rate() {
        let second = Duration::from_secs(1);
        for (arrivals, expected) in [
            (Arrivals::Random { per_second: 20.0 }, 20_000.0),
            (Arrivals::Growing { per_second: 20.0, over_seconds: 1_000.0 }, 10_000.0),
            (Arrivals::Bursts { every_seconds: 5.0, jobs: 40 }, 8_000.0),
            (Arrivals::Oscillating { per_second: 15.0, period_seconds: 20.0 }, 15_000.0),
        ] {
            let (mut random, mut now, mut count) = (Rng::with_seed(1), Duration::ZERO, 0);
            while let Some((at, jobs)) = arrivals.next(now, &mut random)
                && at < 1_000 * second
            {
                (now, count) = (at, count + jobs);
            }
            let share = f64::from(u32::try_from(count).expect("few")) / expected;
            assert!((0.8..1.2).contains(&share), "{arrivals:?}: {count}");
        }
        assert_eq!(Arrivals::None.next(second, &mut Rng::with_seed(1)), None);
    }
}
