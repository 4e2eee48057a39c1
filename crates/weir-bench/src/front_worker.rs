//! `weir-bench front-worker`: a minimal app for the bench of the front, so cheap that 16 of them are no load on a
//! machine with two cores.
//!
//! It has one thread and serves one request at a time, like the worker of a forking server. A request states how long
//! it takes (`GET /sleep?us=5000`); the worker sleeps that long and responds with its name in `X-Worker`.

mod busy_record;
mod inherited;
mod listening;
mod processes;
mod request;
mod serving;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::fd::OwnedFd;

use self::busy_record::BusyRecord;
pub(crate) use self::processes::exit_with_parent;
use self::serving::Server;
use crate::output::Output;

const PROCESSES_MAX: usize = 1000;

#[derive(Debug, Args)]
pub(crate) struct WorkerFlags {
    /// Listen on this unix socket; with --processes and "{index}" in it each process has one of its own.
    #[arg(long, conflicts_with_all = ["port", "fds"])]
    socket: Option<PathBuf>,
    /// Listen on this port of 127.0.0.1; 0: a free one. All --processes share the socket.
    #[arg(long, conflicts_with = "fds")]
    port: Option<u16>,
    /// Accept on this inherited listening socket; repeatable. Without --socket, --port and --fd on those that
    /// LISTEN_FDS announces.
    #[arg(long = "fd")]
    fds: Vec<i32>,
    /// Start so many of them.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// Keep connections open for further requests, which are served one at a time over all connections. Without it
    /// each answer ends its connection, as unicorn's and gunicorn's sync workers do.
    #[arg(long)]
    keep_alive: bool,
    /// What X-Worker says; the process' number by default.
    #[arg(long)]
    name: Option<String>,
    #[arg(long, env = "LISTEN_FDS", hide = true)]
    listen_fds: Option<i32>,
    #[arg(long, env = "LISTEN_PID", hide = true)]
    listen_pid: Option<u32>,
    #[arg(long, env = "WEIR_BUSY_FD", hide = true)]
    busy_fd: Option<i32>,
    #[arg(long, env = "WEIR_BUSY_INDEX", hide = true)]
    busy_index: Option<usize>,
    /// End when the process that started this one does.
    #[arg(long, hide = true)]
    end_with_parent: Option<u32>,
}

/// Serves until it is killed.
pub(crate) fn run(flags: &WorkerFlags, output: &mut Output) -> Result<bool> {
    let processes = flags.processes;
    ensure!((1..=PROCESSES_MAX).contains(&processes), "--processes: between 1 and {PROCESSES_MAX}");
    if processes > 1 {
        processes::run(flags, output)?;
        return Ok(true);
    }
    if let Some(parent) = flags.end_with_parent {
        processes::exit_with_parent(parent)?;
    }
    let listeners = flags.listeners(output)?;
    let name = flags.name.clone().unwrap_or_else(|| std::process::id().to_string());
    let busy = match (flags.busy_fd, flags.busy_index) {
        (Some(fd), Some(index)) => Some(BusyRecord::map(fd, index)?),
        _ => None,
    };
    Server::new(listeners, &name, flags.keep_alive, busy)?.run()?;
    Ok(true)
}

impl WorkerFlags {
    fn listeners(&self, output: &mut Output) -> Result<Vec<OwnedFd>> {
        if let Some(path) = &self.socket {
            return Ok(vec![listening::bind_path(path, 0)?]);
        }
        if let Some(port) = self.port {
            let (listener, address) = listening::bind_port(port)?;
            output.print(&format!("listening on {address}\n"))?;
            return Ok(vec![listener]);
        }
        if !self.fds.is_empty() {
            return self.fds.iter().map(|fd| inherited::take_listener(*fd)).collect();
        }
        let count =
            self.listen_fds.context("nowhere to listen: --socket, --port, --fd, or LISTEN_FDS")?;
        let is_own = self.listen_pid.is_none_or(|pid| pid == std::process::id());
        ensure!(is_own, "LISTEN_PID is not this process: LISTEN_FDS are not for it");
        inherited::listen_fds(count).map(inherited::take_listener).collect()
    }
}
