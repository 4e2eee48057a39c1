//! Several workers: this process binds the sockets, starts the workers with them, and waits.

use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::fd::OwnedFd;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Signal, WaitOptions, getppid, set_parent_process_death_signal, wait};

use super::{WorkerFlags, listening};
use crate::output::Output;

/// Starts the workers. Fails when one of them ends.
pub(super) fn run(flags: &WorkerFlags, output: &mut Output) -> Result<()> {
    let sockets = bind_sockets(flags, output)?;
    let mut children = Vec::with_capacity(sockets.len());
    for socket in &sockets {
        children.push(start_worker(socket, flags.keep_alive)?);
    }
    output.print(&format!("{} workers\n", children.len()))?;
    let ended = wait(WaitOptions::empty()).context("waiting for the workers")?;
    for child in &mut children {
        // It may be the one that has ended.
        let _ = child.kill();
    }
    bail!("a worker has ended: {ended:?}");
}

/// Binds the sockets. Returns one for each process, which may be shared.
fn bind_sockets(flags: &WorkerFlags, output: &mut Output) -> Result<Vec<Arc<OwnedFd>>> {
    let processes = 0..flags.processes;
    if let Some(path) = &flags.socket {
        if listening::has_index_placeholder(path) {
            return processes
                .map(|index| listening::bind_path(path, index).map(Arc::new))
                .collect();
        }
        let shared = Arc::new(listening::bind_path(path, 0)?);
        return Ok(processes.map(|_| Arc::clone(&shared)).collect());
    }
    let port = flags.port.context("--processes wants --socket or --port")?;
    let (shared, address) = listening::bind_port(port)?;
    output.print(&format!("listening on {address}\n"))?;
    let shared = Arc::new(shared);
    Ok(processes.map(|_| Arc::clone(&shared)).collect())
}

fn start_worker(socket: &OwnedFd, keep_alive: bool) -> Result<Child> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.arg("front-worker").args(["--fd", &socket.as_fd().as_raw_fd().to_string()]);
    command.args(["--end-with-parent", &std::process::id().to_string()]);
    if keep_alive {
        command.arg("--keep-alive");
    }
    // Inherited by this child only.
    fcntl_setfd(socket, FdFlags::empty())?;
    let child = command.spawn().context("starting a worker");
    fcntl_setfd(socket, FdFlags::CLOEXEC)?;
    child
}

/// Makes the kernel end this process when `parent` ends.
pub(crate) fn exit_with_parent(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have ended before the line above.
    let now = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    ensure!(now == Some(parent), "the process {parent} that started this worker has ended");
    Ok(())
}
