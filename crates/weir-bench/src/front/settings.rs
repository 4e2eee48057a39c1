//! The flags of a front run, checked once.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgAction, Args};
use serde::Serialize;

pub(crate) use super::service_times::Scenario;
use super::service_times::ServiceTimes;
use crate::checks::{as_seconds, check_range, check_range_f64};
use crate::http::LoadProfile;

const CONNECTIONS_MAX: u64 = 20_000;
const WORKERS_MAX: u64 = 10_000;
const RATE_MAX: f64 = 1e6;
const SECONDS_MAX: f64 = 86_400.0;
/// Default load of scenario bundler, as a share of the workers' time.
const BUNDLER_LOAD: f64 = 0.8;
const CONNECTIONS: usize = 4;
/// More than a good server ever queues, so that requests wait in the server and not in the client.
const CONNECTIONS_OF_AN_OPEN_LOOP: usize = 2_000;

/// How much of what. An operation is a request that was answered as it should be.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadFlags {
    // Required, but optional by type: `front compare` carries a set of these flags of its own.
    #[arg(long, value_enum, required = true)]
    pub(crate) scenario: Option<Scenario>,
    /// How long requests are sent; those under way at the end are waited for.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Several requests on a connection, one after the other; =false: a new connection for each.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", require_equals = true,
          action = ArgAction::Set)]
    pub(crate) keep_alive: bool,
    /// Open loop: so many requests come in a second on average, at random times (a Poisson process), however the
    /// others fare. Without it (closed loop) each connection asks again when it has its answer. Scenario bundler is
    /// an open loop at 80 % of what --workers can do with the service times that they get.
    #[arg(long)]
    pub(crate) requests_per_second: Option<f64>,
    /// How many workers the app has, so that those that got nothing are counted.
    #[arg(long)]
    pub(crate) workers: Option<usize>,
    /// Decides all service times and arrivals.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Longest wait for an answer, from when the request should have been sent; it is an error then.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) timeout_seconds: f64,
}

/// Validated flags.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadSettings {
    #[serde(skip)]
    pub(crate) scenario: Scenario,
    pub(crate) connections: usize,
    #[serde(rename = "seconds", serialize_with = "as_seconds")]
    pub(crate) duration: Duration,
    pub(crate) keep_alive: bool,
    /// `None`: closed loop.
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) workers: Option<usize>,
    pub(crate) seed: u64,
    #[serde(rename = "timeout_seconds", serialize_with = "as_seconds")]
    pub(crate) timeout: Duration,
}

impl LoadSettings {
    pub(crate) fn profile(&self) -> LoadProfile {
        LoadProfile {
            connections: self.connections,
            duration: self.duration,
            keep_alive: self.keep_alive,
            requests_per_second: self.requests_per_second,
            seed: self.seed,
            timeout: self.timeout,
        }
    }
}

impl LoadFlags {
    /// Validates the flags. `connections`: `None` for the default.
    pub(crate) fn validate(&self, connections: Option<usize>) -> Result<LoadSettings> {
        let scenario = self.scenario.context("--scenario is missing")?;
        let requests_per_second = self.rate(scenario)?;
        let default = match requests_per_second {
            None => CONNECTIONS,
            Some(_) => CONNECTIONS_OF_AN_OPEN_LOOP,
        };
        let connections = connections.unwrap_or(default);
        check_range("--connections", connections as u64, 1, CONNECTIONS_MAX)?;
        check_range("--workers", self.workers.unwrap_or(1) as u64, 1, WORKERS_MAX)?;
        check_range_f64("--seconds", self.seconds, 1e-3, SECONDS_MAX)?;
        check_range_f64("--timeout-seconds", self.timeout_seconds, 1e-3, SECONDS_MAX)?;
        check_range_f64(
            "--requests-per-second",
            requests_per_second.unwrap_or(1.0),
            1e-3,
            RATE_MAX,
        )?;
        Ok(LoadSettings {
            scenario,
            connections,
            duration: Duration::from_secs_f64(self.seconds),
            keep_alive: self.keep_alive,
            requests_per_second,
            workers: self.workers,
            seed: self.seed,
            timeout: Duration::from_secs_f64(self.timeout_seconds),
        })
    }

    fn rate(&self, scenario: Scenario) -> Result<Option<f64>> {
        if self.requests_per_second.is_some() || scenario != Scenario::Bundler {
            return Ok(self.requests_per_second);
        }
        let workers = self.workers.context(
            "--scenario bundler wants --requests-per-second, or --workers, for 80 % of what they can do",
        )?;
        #[expect(clippy::cast_precision_loss, reason = "few workers")]
        let work_per_second = BUNDLER_LOAD * workers as f64;
        Ok(Some(work_per_second / self.mean_service_seconds(scenario, work_per_second)))
    }

    /// Returns the mean of the sequence that the run will use, not of the distribution: with its long tail the mean
    /// of the first thousands may differ by a tenth, and so would the load.
    fn mean_service_seconds(&self, scenario: Scenario, work_per_second: f64) -> f64 {
        const DRAWS_MAX: f64 = 1e6;
        let expected = work_per_second * self.seconds / scenario.mean_seconds();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and DRAWS_MAX"
        )]
        let draws = expected.clamp(1.0, DRAWS_MAX) as u32;
        let mut times = ServiceTimes::new(scenario, self.seed);
        let sum: Duration = (0..draws).map(|_| times.next()).sum();
        sum.as_secs_f64() / f64::from(draws)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::clock::now;
    use crate::http::Pace;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadFlags,
    }

    fn flags(flags: &[&str]) -> LoadFlags {
        Flags::parse_from(["bench"].iter().chain(flags)).load
    }

    #[test]
    fn keep_alive_is_the_default() {
        for (flag, expected) in
            [(None, true), (Some("--keep-alive"), true), (Some("--keep-alive=false"), false)]
        {
            let all: Vec<&str> = ["--scenario", "noop"].into_iter().chain(flag).collect();
            assert_eq!(flags(&all).keep_alive, expected, "{flag:?}");
        }
    }

    #[test]
    fn bundler_offers_80_percent_of_the_capacity() {
        let all = ["--scenario", "bundler", "--workers", "16", "--seconds", "6"];
        let settings = flags(&all).validate(None).expect("valid");
        let mut pace = Pace::new(&settings.profile(), now());
        let later = now() + Duration::from_secs(3600);
        let mut times = ServiceTimes::new(settings.scenario, settings.seed);
        let requests = std::iter::from_fn(|| pace.take_due(later));
        let work: Duration = requests.map(|_| times.next()).sum();
        let load = work.as_secs_f64() / (16.0 * 6.0);
        assert!((load - 0.8).abs() < 0.03, "{load}");
        assert_eq!(settings.connections, CONNECTIONS_OF_AN_OPEN_LOOP);
    }

    #[test]
    fn errors_name_the_invalid_flag() {
        for (all, named) in [
            (vec!["--scenario", "bundler"], "--requests-per-second"),
            (vec!["--scenario", "noop", "--workers", "0"], "--workers 0"),
            (vec!["--scenario", "noop", "--seconds", "0"], "--seconds 0"),
            (vec!["--scenario", "noop", "--seconds", "NaN"], "--seconds NaN"),
            (vec!["--scenario", "noop", "--timeout-seconds", "-1"], "--timeout-seconds"),
            (vec!["--scenario", "mixed", "--requests-per-second=0"], "--requests-per-second 0"),
        ] {
            let all: Vec<&str> = all.into_iter().collect();
            let Ok(parsed) = Flags::try_parse_from(["bench"].iter().chain(&all)) else {
                assert!(all.contains(&"-1"), "{all:?}");
                continue;
            };
            let error = parsed.load.validate(None).expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
        let error = flags(&["--scenario", "noop"]).validate(Some(0)).expect_err("refused");
        assert!(error.to_string().contains("--connections 0"), "{error}");
    }
}
