//! How long each request keeps its worker busy: a sequence that follows from the seed, so that every server gets
//! the same one. Number n is the service time of the n-th request that is sent.

use std::f64::consts::TAU;
use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(250);
/// Share of long requests.
const LONG_SHARE: f64 = 0.05;

/// Of a lognormal distribution with p50 20 ms and mean 59 ms: mean / median = exp(sigma^2 / 2). It has p95 224 ms
/// and p99 612 ms.
const MEDIAN_US: f64 = 20_000.0;
const SIGMA: f64 = 1.471;
/// The most that a worker accepts. One in 30 million would be longer.
const LONGEST_US: f64 = 60e6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Answers at once.
    Noop,
    /// 95 % take 5 ms, 5 % take 250 ms.
    Mixed,
    /// As Bundler's API under load: lognormal, p50 20 ms, p95 224 ms, p99 612 ms, mean 59 ms.
    Bundler,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Mixed => "mixed",
            Self::Bundler => "bundler",
        }
    }

    /// Returns the mean of the distribution in seconds.
    pub(crate) fn mean_seconds(self) -> f64 {
        match self {
            Self::Noop => 0.0,
            Self::Mixed => {
                SHORT.as_secs_f64() * (1.0 - LONG_SHARE) + LONG.as_secs_f64() * LONG_SHARE
            }
            Self::Bundler => MEDIAN_US / 1e6 * (SIGMA * SIGMA / 2.0).exp(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ServiceTimes {
    scenario: Scenario,
    random: Rng,
}

impl ServiceTimes {
    pub(crate) fn new(scenario: Scenario, seed: u64) -> Self {
        Self { scenario, random: Rng::with_seed(seed) }
    }

    /// Returns the next service time, in whole microseconds.
    pub(crate) fn next(&mut self) -> Duration {
        match self.scenario {
            Scenario::Noop => Duration::ZERO,
            Scenario::Mixed if self.random.f64() < LONG_SHARE => LONG,
            Scenario::Mixed => SHORT,
            Scenario::Bundler => self.lognormal(),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and LONGEST_US"
    )]
    fn lognormal(&mut self) -> Duration {
        // Box-Muller transform of two uniform numbers. The first must not be 0.
        let (uniform, angle) = (1.0 - self.random.f64(), TAU * self.random.f64());
        let normal = (-2.0 * uniform.ln()).sqrt() * angle.cos();
        let microseconds = MEDIAN_US * (SIGMA * normal).exp();
        Duration::from_micros(microseconds.min(LONGEST_US) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    fn drawn(scenario: Scenario, seed: u64) -> Vec<f64> {
        let mut times = ServiceTimes::new(scenario, seed);
        (0..DRAWS).map(|_| times.next().as_secs_f64() * 1e3).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let count = values.len() as f64;
        values.iter().sum::<f64>() / count
    }

    fn check(what: &str, value: f64, expected: f64, tolerance: f64) {
        let off = (value / expected - 1.0).abs();
        assert!(off < tolerance, "{what}: {value}, expected {expected}");
    }

    #[test]
    fn bundler_service_times_have_the_documented_quantiles() {
        let mut values = drawn(Scenario::Bundler, 1);
        check("mean", mean(&values), 59.0, 0.02);
        check("the formula", Scenario::Bundler.mean_seconds(), 0.059, 0.002);
        values.sort_by(f64::total_cmp);
        for (share, expected) in [(0.50, 20.0), (0.95, 224.0), (0.99, 612.0)] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let value = values[(DRAWS as f64 * share) as usize];
            check("a quantile", value, expected, 0.03);
        }
    }

    #[test]
    fn mixed_has_one_long_request_in_twenty() {
        let values = drawn(Scenario::Mixed, 1);
        let long = values.iter().filter(|value| **value > 200.0).count();
        assert!((9_700..10_300).contains(&long), "{long} of {DRAWS}");
        assert!(values.iter().all(|value| [5.0, 250.0].contains(value)));
        check("mean", mean(&values), 17.25, 0.02);
        check("the formula", Scenario::Mixed.mean_seconds(), 0.017_25, 1e-9);
    }

    #[test]
    fn same_seed_gives_the_same_service_times() {
        assert_eq!(drawn(Scenario::Bundler, 7), drawn(Scenario::Bundler, 7));
        assert_ne!(drawn(Scenario::Bundler, 7), drawn(Scenario::Bundler, 8));
        assert_eq!(ServiceTimes::new(Scenario::Noop, 7).next(), Duration::ZERO);
    }
}
