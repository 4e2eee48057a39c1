//! Commands of the system that a run needs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::monotonic;
use crate::weir_process::POLL_INTERVAL;

/// Runs a command to its end. Returns its standard output. An error contains what it has printed.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let what = || format!("{program} {}", arguments.join(" "));
    let output = output.with_context(what)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", what(), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a command that receives `signal` when the thread that starts it ends. Without setpriv it does not.
pub(super) fn with_parent(signal: &str, program: impl AsRef<OsStr>) -> Command {
    if !Path::new("/usr/bin/setpriv").exists() {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--pdeathsig", signal]).arg(program);
    command
}

pub(super) fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process")?;
    Ok(kill_process(pid, signal)?)
}

/// Waits until a child has ended.
pub(super) fn wait(child: &mut Child, timeout: Duration) -> Result<std::process::ExitStatus> {
    let deadline = monotonic() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if monotonic() > deadline {
            bail!("process {} has not ended within {timeout:?}", child.id());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sends SIGTERM, and SIGKILL if the child has not ended within `timeout`.
pub(super) fn stop(child: &mut Child, timeout: Duration) {
    // It may have ended; errors are ignored, because the run is over.
    let _ = signal(child.id(), Signal::TERM);
    if wait(child, timeout).is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
}
