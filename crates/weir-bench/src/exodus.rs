//! `weir-bench exodus`: a surge after an exodus from another service. A backlog waits in five queues while more jobs
//! arrive, and a database slows all workers down. It starts a Weir, and worker processes that speak the Faktory
//! protocol, and measures how long jobs wait that arrive while the backlog drains.
//!
//! Times are those of the real surge, divided by --time-scale; results are multiplied by it. The work of a job is
//! simulated by this process, for all worker processes: time of its own, and then a database that all jobs share.

mod coordinator;
mod database;
mod flags;
mod load;
mod policy;
mod producer;
mod report;
mod worker;
mod workers;

use anyhow::{Context, Result};

use self::coordinator::Coordinator;
pub(crate) use self::flags::ExodusFlags;
use self::load::Load;
use self::policy::weir_toml;
use self::producer::Producer;
pub(crate) use self::worker::{ExodusWorkerFlags, run as run_worker};
use self::workers::Workers;
use crate::output::Output;
use crate::weir_process::WeirProcess;

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
