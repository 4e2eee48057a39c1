//! The flags of a gems run, checked once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::checks::{as_seconds, check_range, check_range_f64};
use crate::http::LoadProfile;

const CONNECTIONS_MAX: u64 = 20_000;
const RATE_MAX: f64 = 1e6;
const SECONDS_MAX: f64 = 86_400.0;
/// Keeps a request below `REQUEST_BYTES_MAX`, however long the names are.
const NAMES_PER_REQUEST_MAX: u64 = 200;
const CONNECTIONS: usize = 4;
/// More than a good server ever queues, so that requests wait in the server and not in the client.
const CONNECTIONS_OF_AN_OPEN_LOOP: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// GET /info/NAME.
    Info,
    /// The last bytes of /versions, as Bundler asks for what it does not have yet.
    VersionsTail,
    /// All of /versions, as a new client does.
    VersionsFull,
    /// GET /api/v1/dependencies with lists of names that never repeat.
    Dependencies,
    /// POST /api/v1/gems, each a new gem; and when another client sees it at the end of /versions.
    Push,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::VersionsTail => "versions-tail",
            Self::VersionsFull => "versions-full",
            Self::Dependencies => "dependencies",
            Self::Push => "push",
        }
    }
}

/// How names are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Popularity {
    /// Each as likely as the others: the worst for whatever keeps what was asked for.
    Uniform,
    /// The more popular a name, the more often: the share of each is 1 / its rank (Zipf). Ranks come from the seed.
    Skewed,
}

/// How much of what. An operation is a request that was answered as it should be.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadFlags {
    // The commands with these flags define when it is required.
    #[arg(long, value_enum)]
    pub(crate) scenario: Option<Scenario>,
    /// How long requests are sent; those under way at the end are waited for.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Open loop: so many requests come in a second on average, at random times (a Poisson process), however the
    /// others fare. Without it (closed loop) each connection asks again when it has its answer.
    #[arg(long)]
    pub(crate) requests_per_second: Option<f64>,
    /// Scenario dependencies.
    #[arg(long, default_value_t = 20)]
    pub(crate) names_per_request: usize,
    /// Scenarios info and dependencies.
    #[arg(long, value_enum, default_value = "uniform")]
    pub(crate) popularity: Popularity,
    /// Scenario versions-tail: so many bytes.
    #[arg(long, default_value_t = 4_096)]
    pub(crate) tail_bytes: usize,
    /// The key in the header Authorization: for scenario push, and for an index that wants one for reading.
    #[arg(long, env = "GEM_HOST_API_KEY", hide_env_values = true, default_value = "")]
    pub(crate) api_key: String,
    /// Decides what is asked for, and arrivals.
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
    /// `None`: closed loop.
    pub(crate) requests_per_second: Option<f64>,
    pub(crate) names_per_request: usize,
    pub(crate) popularity: Popularity,
    pub(crate) tail_bytes: usize,
    #[serde(skip)]
    pub(crate) api_key: String,
    pub(crate) seed: u64,
    #[serde(rename = "timeout_seconds", serialize_with = "as_seconds")]
    pub(crate) timeout: Duration,
}

impl LoadSettings {
    pub(crate) fn profile(&self) -> LoadProfile {
        LoadProfile {
            connections: self.connections,
            duration: self.duration,
            keep_alive: true,
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
        let default = match self.requests_per_second {
            None => CONNECTIONS,
            Some(_) => CONNECTIONS_OF_AN_OPEN_LOOP,
        };
        let connections = connections.unwrap_or(default);
        check_range("--connections", connections as u64, 1, CONNECTIONS_MAX)?;
        check_range(
            "--names-per-request",
            self.names_per_request as u64,
            1,
            NAMES_PER_REQUEST_MAX,
        )?;
        check_range("--tail-bytes", self.tail_bytes as u64, 1, u64::MAX)?;
        check_range_f64("--seconds", self.seconds, 1e-3, SECONDS_MAX)?;
        check_range_f64("--timeout-seconds", self.timeout_seconds, 1e-3, SECONDS_MAX)?;
        check_range_f64(
            "--requests-per-second",
            self.requests_per_second.unwrap_or(1.0),
            1e-3,
            RATE_MAX,
        )?;
        let is_key = self.api_key.bytes().all(|byte| byte.is_ascii_graphic());
        ensure!(is_key, "--api-key has a character that no key has");
        ensure!(
            scenario != Scenario::Push || !self.api_key.is_empty(),
            "--scenario push wants --api-key (or GEM_HOST_API_KEY): weir gems key create"
        );
        Ok(LoadSettings {
            scenario,
            connections,
            duration: Duration::from_secs_f64(self.seconds),
            requests_per_second: self.requests_per_second,
            names_per_request: self.names_per_request,
            popularity: self.popularity,
            tail_bytes: self.tail_bytes,
            api_key: self.api_key.clone(),
            seed: self.seed,
            timeout: Duration::from_secs_f64(self.timeout_seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadFlags,
    }

    fn validate(flags: &[&str]) -> Result<LoadSettings> {
        Flags::parse_from(["bench"].iter().chain(flags)).load.validate(None)
    }

    #[test]
    fn open_loop_has_more_connections() {
        let closed = validate(&["--scenario", "info"]).expect("valid");
        let open = validate(&["--scenario", "info", "--requests-per-second", "9"]).expect("valid");
        assert_eq!((closed.connections, open.connections), (4, 500));
    }

    #[test]
    fn errors_name_the_invalid_flag() {
        for (all, named) in [
            (vec!["--scenario", "push"], "--api-key"),
            (vec!["--scenario", "info", "--api-key", "a b"], "--api-key"),
            (vec!["--scenario", "info", "--seconds", "0"], "--seconds 0"),
            (vec!["--scenario", "dependencies", "--names-per-request", "0"], "--names-per-request"),
            (vec!["--scenario", "versions-tail", "--tail-bytes", "0"], "--tail-bytes 0"),
        ] {
            let error = validate(&all).expect_err("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
