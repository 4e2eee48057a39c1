//! `weir-bench tenants`: many quiet tenants and a hog push to one queue. It starts a Weir and workers, one connection for
//! each slot, and measures how long jobs of the quiet tenants wait while the hog has a backlog.
//!
//! A job runs by waiting. Its wait is the time from the server's `enqueued_at` to the arrival of the job at the worker:
//! the delivery is included.

mod flags;
mod load;
mod producer;
mod report;
mod worker;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

pub(crate) use self::flags::TenantsFlags;
use self::load::{Load, QUEUE};
use self::worker::{Run, Served};
use crate::clock::monotonic;
use crate::jobs::connect::Control;
use crate::jobs::server_url::ServerUrl;
use crate::output::Output;
use crate::weir_process::{WeirProcess, toml_string};

const WID: &str = "weir-bench-tenants";
/// A server forgets a worker after 60 s without a BEAT.
const BEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A FETCH waits for two seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns whether no errors were found.
pub(crate) fn run(flags: &TenantsFlags, output: &mut Output) -> Result<bool> {
    flags.validate()?;
    let mut weir =
        WeirProcess::start("jobs", flags.weir.as_deref(), |folder| Ok(weir_toml(flags, folder)))?;
    let server = weir.wait_for_address().map_err(|error| weir.with_log_tail(&error))?;
    let served = drive(flags, server, || weir.check_running().context("Weir"));
    let envelope = report::envelope(&served?, flags, weir.pid());
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}

/// Runs the workers and the producers to the end. Returns the jobs that were fetched.
fn drive(
    flags: &TenantsFlags,
    server: SocketAddr,
    mut check: impl FnMut() -> Result<()>,
) -> Result<Vec<Served>> {
    let url = ServerUrl { address: server, password: None };
    let load = Arc::new(Load::new(flags));
    let mut beat = Control::open_worker(&url, WID, REPLY_TIMEOUT)?;
    let slots: Result<Vec<Control>> =
        (0..flags.slots).map(|_| Control::open_worker(&url, WID, REPLY_TIMEOUT)).collect();
    let producers = [(); 2].map(|()| Control::open(&url, REPLY_TIMEOUT));
    let run = Run { start: monotonic(), length: Duration::from_secs_f64(flags.seconds) };
    let (failures, failed) = channel();
    let mut threads = Vec::new();
    for server in slots? {
        threads.push(worker::start(server, Arc::clone(&load), run, failures.clone())?);
    }
    let [quiet, hog] = producers;
    producer::start_quiet(quiet?, Arc::clone(&load), run, failures.clone())?;
    producer::start_hog(hog?, Arc::clone(&load), run, failures)?;
    while run.elapsed() < run.length {
        let wait = BEAT_INTERVAL.min(run.length.saturating_sub(run.elapsed()));
        if let Ok(error) = failed.recv_timeout(wait) {
            return Err(error);
        }
        check()?;
        beat.command(&format!("BEAT {{\"wid\":\"{WID}\"}}"))?;
    }
    let mut served = Vec::new();
    for thread in threads {
        served.extend(thread.join().map_err(|_| anyhow!("a worker panicked"))?);
    }
    failed.try_iter().next().map_or(Ok(served), Err)
}

/// Returns the text of `weir.toml`. Syncs to the disk are no part of what is measured.
fn weir_toml(flags: &TenantsFlags, folder: &Path) -> String {
    let data = toml_string(&folder.join("data"));
    let rules = match flags.policy {
        flags::Policy::Fifo => String::new(),
        flags::Policy::Fair => {
            format!("fair_by = \"/args/0/tenant\"\nfair_headroom = {}\n", flags.headroom)
        }
    };
    format!(
        "data_dir = {data}\n[console]\nlisten = \"127.0.0.1:0\"\n[jobs]\nlisten = \"127.0.0.1:0\"\nfsync = \"never\"\n[jobs.queues.{QUEUE}]\n{rules}"
    )
}
