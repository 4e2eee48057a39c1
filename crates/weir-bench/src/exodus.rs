//! `weir-bench exodus`: a surge after an exodus from another service. A backlog waits in five queues while more jobs
//! arrive, and a database slows all workers down. It starts a Weir, and worker processes that speak the Faktory
//! protocol, and measures how long jobs wait that arrive while the backlog drains.
//!
//! Times are those of the real surge, divided by --time-scale; results are multiplied by it. The work of a job is
//! simulated by this process, for all worker processes: time of its own, and then a database that all jobs share.

mod coordinator;
mod database;
mod load;
mod policy;
mod producer;
mod report;
mod worker;
mod workers;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::coordinator::Coordinator;
use self::load::Load;
use self::policy::{Policy, weir_toml};
use self::producer::Producer;
pub(crate) use self::worker::{ExodusWorkerFlags, run as run_worker};
use self::workers::Workers;
use crate::checks::{check_range, check_range_f64};
use crate::output::Output;
use crate::weir_process::WeirProcess;

#[derive(Debug, Clone, Args, Serialize)]
pub(crate) struct ExodusFlags {
    /// How Weir chooses the queue of a FETCH.
    #[arg(long, value_enum)]
    policy: Policy,
    /// Jobs that wait when the workers start.
    #[arg(long, default_value_t = 200_000)]
    backlog: u64,
    /// Times of the surge are divided by this.
    #[arg(long, default_value_t = 100.0)]
    time_scale: f64,
    /// Worker processes.
    #[arg(long, default_value_t = 6)]
    processes: u64,
    /// Jobs that each of them runs at once.
    #[arg(long, default_value_t = 25)]
    threads: u64,
    /// Jobs that the database serves at full speed; with more, each takes longer in proportion.
    #[arg(long, default_value_t = 50)]
    database_sessions: u64,
    /// End after so many hours of the surge, even if the backlog is not drained.
    #[arg(long, default_value_t = 24.0)]
    hours_max: f64,
    /// Arrivals and service times follow from it, the same for every policy.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Weir's program; by default the one in this program's folder.
    #[arg(long)]
    #[serde(skip)]
    weir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    #[serde(skip)]
    json: bool,
}

/// Returns whether no errors were found.
pub(crate) fn run(flags: &ExodusFlags, output: &mut Output) -> Result<bool> {
    flags.validate()?;
    let load = Load::new(flags.seed, flags.backlog, flags.time_scale);
    let mut weir = WeirProcess::start("jobs", flags.weir.as_deref(), |folder| {
        Ok(weir_toml(flags.policy, flags.time_scale, folder))
    })?;
    let server = weir.wait_for_address().map_err(|error| weir.with_log_tail(&error))?;
    let coordinator = Coordinator::bind(weir.folder(), &load, flags)?;
    let producer = Producer::new(server, &load)?;
    output.note(&format!("pushing {} jobs", flags.backlog))?;
    let producer = producer.push_backlog()?;
    let mut workers = Workers::start(server, coordinator.path(), flags.processes, flags.threads)?;
    let waiting =
        coordinator.accept(flags.processes * flags.threads, || workers.check_running())?;
    output.note("draining")?;
    let outcome = waiting.run(producer, || {
        weir.check_running().context("Weir")?;
        workers.check_running()
    });
    let envelope = report::envelope(&outcome?, flags, weir.pid());
    drop(workers);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}

impl ExodusFlags {
    fn validate(&self) -> Result<()> {
        check_range("--backlog", self.backlog, 1, 10_000_000)?;
        check_range_f64("--time-scale", self.time_scale, 1.0, 1_000.0)?;
        check_range("--processes", self.processes, 1, 100)?;
        check_range("--threads", self.threads, 1, 1_000)?;
        check_range("--database-sessions", self.database_sessions, 1, 100_000)?;
        check_range_f64("--hours-max", self.hours_max, 0.01, 1_000.0)
    }

    const fn workers(&self) -> u64 {
        self.processes * self.threads
    }
}
