//! `weir-bench forecasts`: whether backlogs drain within the range that Weir gives. It starts a Weir and worker processes
//! for queues that drain in different ways, reads the forecasts at random times as a client of the admin API does, and
//! compares them with the time at which each queue was empty. With a Sidekiq on this machine, doctor's forecasts are
//! compared as well.
//!
//! A forecast that says never counts as wrong, because every queue drains. A run fails if fewer than 85 % of the forecasts
//! are right, or if there are too few ranges.

mod admin;
mod arrivals;
mod busy;
mod flags;
mod producer;
mod record;
mod report;
mod round;
mod run_time;
mod scenarios;
mod sidekiq;
mod watch;
mod worker;

use std::path::Path;

use anyhow::{Context, Result};

use self::admin::AdminApi;
use self::busy::BusyThreads;
pub(crate) use self::flags::ForecastsFlags;
use self::round::RunningRound;
use self::scenarios::scenarios;
pub(crate) use self::worker::{ForecastsWorkerFlags, run as run_worker};
use crate::clock::monotonic;
use crate::jobs::server_url::ServerUrl;
use crate::output::Output;
use crate::weir_process::{WeirProcess, toml_string};

/// Returns whether enough of the times were within their range.
pub(crate) fn run(flags: &ForecastsFlags, output: &mut Output) -> Result<bool> {
    flags.validate()?;
    let began = monotonic();
    let mut weir =
        WeirProcess::start("jobs", flags.weir.as_deref(), |folder| Ok(weir_toml(folder)))?;
    let address = weir.wait_for_address().map_err(|error| weir.with_log_tail(&error))?;
    let server = ServerUrl { address, password: None };
    let mut api = AdminApi::new(&weir.folder().join("data"));
    let mut random = fastrand::Rng::with_seed(flags.seed);
    let _busy = BusyThreads::start(flags.busy_threads, flags.seed)?;
    let mut records = Vec::new();
    for round in 1..=flags.rounds {
        output.note(&format!("round {round} of {}: draining queues of Weir", flags.rounds))?;
        let scenarios = scenarios(flags.seed, round);
        let running = RunningRound::start(&server, &scenarios, &mut random)?;
        records.extend(watch::watch(&scenarios, &mut api, &mut random, || running.check())?);
        weir.check_running().context("Weir")?;
    }
    records.extend(sidekiq::measure(flags, &weir, output)?);
    let report = report::Report { records, latencies: api.latencies(), began };
    let envelope = report.envelope(flags, weir.pid());
    let text = if flags.json {
        envelope.to_json_line() + "\n"
    } else {
        envelope.to_text() + &report.table()
    };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}

/// Returns the text of `weir.toml`. Syncs to the disk are no part of what is measured.
fn weir_toml(folder: &Path) -> String {
    let data = toml_string(&folder.join("data"));
    format!(
        "data_dir = {data}\n[console]\nlisten = \"127.0.0.1:0\"\n[jobs]\nlisten = \"127.0.0.1:0\"\nfsync = \"everysec\"\n"
    )
}
