//! A Weir that the bench starts with settings of its own in a temporary folder, and stops when it is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::clock::now;

/// Longest wait until Weir is ready.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than Weir's own deadlines (supervisor.kill_after and shutdown_deadline).
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Lines of the log that are shown with an error.
const LOG_LINES: usize = 20;

#[derive(Debug)]
pub(crate) struct WeirProcess {
    child: Child,
    program: PathBuf,
    folder: TempDir,
    /// Receives the address of the part once Weir is ready.
    address: Receiver<String>,
}

impl WeirProcess {
    /// Starts `part` of Weir. `settings` returns the text of weir.toml for the folder that it is in.
    /// Without `program`, it is the one in this program's folder, or in the PATH.
    pub(crate) fn start(
        part: &'static str,
        program: Option<&Path>,
        settings: impl FnOnce(&Path) -> Result<String>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-bench-").tempdir();
        let folder = folder.context("making a temporary folder")?;
        let program = program.map_or_else(find_weir_program, |path| Ok(path.to_path_buf()))?;
        std::fs::write(folder.path().join("weir.toml"), settings(folder.path())?)?;
        let mut child = spawn(&program, part, folder.path())?;
        let output = child.stdout.take().context("Weir's output")?;
        Ok(Self { child, program, folder, address: read_address(part, output) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until Weir is ready. Returns the address of the part.
    pub(crate) fn wait_for_address(&self) -> Result<SocketAddr> {
        let address = self.address.recv_timeout(START_TIMEOUT).context("it does not get ready")?;
        address.parse().with_context(|| format!("the address {address:?} in the line of readiness"))
    }

    /// Runs a command of Weir that takes --config. Returns its standard output.
    pub(crate) fn command(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--config").arg(self.folder.path().join("weir.toml"));
        Ok(command.output().with_context(|| format!("weir {}", arguments.join(" ")))?.stdout)
    }

    /// Runs a command of Weir that reads no settings. Returns its standard output.
    pub(crate) fn command_without_config(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(&self.program).args(arguments).output();
        Ok(output.with_context(|| format!("weir {}", arguments.join(" ")))?.stdout)
    }

    /// Fails if it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("it has ended: {status}"),
            None => Ok(()),
        }
    }

    /// Returns the error with the end of Weir's log.
    pub(crate) fn with_log_tail(&self, error: &anyhow::Error) -> anyhow::Error {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        anyhow!("starting {} up: {error:#}\n{last}", self.program.display())
    }

    fn stop(&mut self) -> std::io::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| matches!(self.child.try_wait(), Ok(None))) {
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = now() + STOP_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if now() > deadline {
                self.child.kill()?;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for WeirProcess {
    fn drop(&mut self) {
        // Errors are ignored, because the run is over.
        let _ = self.stop();
    }
}

fn spawn(program: &Path, part: &str, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["up", "--only", part, "--config"]).arg(folder.join("weir.toml"));
    command.stdout(Stdio::piped()).stderr(File::create(folder.join("log"))?);
    command.spawn().with_context(|| format!("starting {} (--weir)", program.display()))
}

/// Reads Weir's output to its end on a thread. Sends the address after `PART=` in the line `weir ready`.
fn read_address(part: &'static str, output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("weir ready") {
                let address =
                    |field: &str| Some(field.strip_prefix(part)?.strip_prefix('=')?.to_owned());
                // Only the first line is expected.
                let _ = sender.try_send(line.split(' ').find_map(address).unwrap_or_default());
            }
        }
    });
    receiver
}

pub(crate) fn find_weir_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let sibling = own.with_file_name("weir");
    // Otherwise the one in the PATH.
    Ok(if sibling.exists() { sibling } else { PathBuf::from("weir") })
}

/// Returns a TOML string. JSON's escapes are valid in TOML.
pub(crate) fn toml_string(path: &Path) -> String {
    serde_json::Value::from(path.to_string_lossy().into_owned()).to_string()
}
