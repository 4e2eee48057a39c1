//! The process of `weir up` in a demo. It has a process group of its own, so that Ctrl-C reaches only the demo, and it ends
//! when the demo is killed (`--with-parent`).

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use weir_demo::config::SECRET_VARIABLE;

use super::folder::DemoFolder;

/// How long Weir may take to serve.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to end: longer than the parent's own deadline for the service.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// How often its log and its state are looked at.
const POLL: Duration = Duration::from_millis(50);
/// Lines of the log that an error shows.
const LINES_SHOWN: usize = 8;

#[derive(Debug)]
pub(super) struct WeirProcess {
    child: Child,
    log: PathBuf,
}

impl WeirProcess {
    pub(super) fn start(folder: &DemoFolder, secret: &str) -> anyhow::Result<Self> {
        let log = folder.log();
        let file = log_file(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["up", "--with-parent", "--config"]).arg(folder.settings());
        command.arg("--data-dir").arg(&folder.path);
        command.env(SECRET_VARIABLE, secret).env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        Ok(Self { child: command.spawn().context("cannot start weir up")?, log })
    }

    /// Waits until Weir serves. Returns the line with the addresses.
    pub(super) async fn ready_line(&mut self) -> anyhow::Result<String> {
        for _ in 0..READY_TIMEOUT.as_millis() / POLL.as_millis() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(line) = log.lines().find(|line| line.starts_with("weir ready ")) {
                return Ok(line.to_owned());
            }
            if self.child.try_wait()?.is_some() {
                bail!(
                    "Weir did not start (if a port is in use, try --free-ports):\n{}",
                    self.last_lines()
                );
            }
            tokio::time::sleep(POLL).await;
        }
        let seconds = READY_TIMEOUT.as_secs();
        bail!("Weir does not serve after {seconds} s. Its log ends with:\n{}", self.last_lines());
    }

    /// Waits until it ends by itself.
    pub(super) async fn ended(&mut self) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the last lines of its log, from the error on if it ended with one.
    pub(super) fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        let error = last.iter().position(|line| line.starts_with("error: ")).unwrap_or_default();
        last[error..].join("\n")
    }

    /// Stops it gracefully; at once if `hurry` resolves before.
    pub(super) async fn stop(mut self, hurry: impl Future<Output = ()>) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let ended = tokio::select! {
            ended = tokio::time::timeout(STOP_TIMEOUT, self.ended()) => ended.is_ok(),
            () = hurry => false,
        };
        if !ended {
            // Its own children end with it.
            self.child.kill()?;
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for WeirProcess {
    fn drop(&mut self) {
        // Only after an error: otherwise it was stopped.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Opens an empty log, to which standard output and standard error are both appended.
fn log_file(path: &Path) -> std::io::Result<File> {
    File::create(path)?;
    OpenOptions::new().append(true).open(path)
}
