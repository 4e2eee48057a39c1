//! How long jobs run.

use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::draw::exponential;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) enum RunTime {
    Fixed {
        seconds: f64,
    },
    /// Exponentially distributed.
    Random {
        mean: f64,
    },
    /// One of so many jobs takes longer.
    Mixed {
        mean: f64,
        long: f64,
        one_in: f64,
    },
    /// Computes for so long in CPU time, and waits for the rest.
    Computing {
        cpu: f64,
        wait: f64,
    },
}

impl RunTime {
    /// Draws the time for which a job waits, after its CPU time.
    pub(super) fn draw(self, random: &mut Rng) -> Duration {
        let seconds = match self {
            Self::Fixed { seconds } => seconds,
            Self::Random { mean } => exponential(random, mean),
            Self::Mixed { mean, long, one_in } => {
                let is_long = random.f64() * one_in < 1.0;
                exponential(random, if is_long { long } else { mean })
            }
            Self::Computing { wait, .. } => wait,
        };
        Duration::from_secs_f64(seconds)
    }

    pub(super) fn cpu(self) -> Duration {
        match self {
            Self::Computing { cpu, .. } => Duration::from_secs_f64(cpu),
            Self::Fixed { .. } | Self::Random { .. } | Self::Mixed { .. } => Duration::ZERO,
        }
    }

    /// Returns the mean time in seconds on an idle machine.
    pub(super) fn mean_seconds(self) -> f64 {
        match self {
            Self::Fixed { seconds } => seconds,
            Self::Random { mean } => mean,
            Self::Mixed { mean, long, one_in } => mean + (long - mean) / one_in,
            Self::Computing { cpu, wait } => cpu + wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_mean() {
        for time in [
            RunTime::Fixed { seconds: 0.2 },
            RunTime::Random { mean: 0.2 },
            RunTime::Mixed { mean: 0.1, long: 2.0, one_in: 20.0 },
            RunTime::Computing { cpu: 0.01, wait: 0.1 },
        ] {
            let mut random = Rng::with_seed(1);
            let drawn = (0..20_000).map(|_| (time.draw(&mut random) + time.cpu()).as_secs_f64());
            let share = drawn.sum::<f64>() / 20_000.0 / time.mean_seconds();
            assert!((0.9..1.1).contains(&share), "{time:?}: {share}");
        }
    }
}
