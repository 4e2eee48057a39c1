//! A Weir that the bench starts with the sample workers on free ports, and stops when it is dropped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::hosting::{Hosting, HostingPaths};
use super::scenario::{PATH, probe};
use crate::clock::now;
use crate::http::{HttpUrl, Target};

/// Longest wait until all workers are ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than Weir's own deadlines (supervisor.kill_after and shutdown_deadline).
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines of the log that are shown with an error.
const LOG_LINES: usize = 20;

#[derive(Debug)]
pub(crate) struct Hosted {
    weir: Child,
    program: PathBuf,
    url: HttpUrl,
    folder: TempDir,
}

impl Hosted {
    pub(crate) fn start(hosting: &Hosting, workers: usize, weir: Option<&Path>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("weir-bench-").tempdir();
        let folder = folder.context("making a temporary folder")?;
        let program = weir.map_or_else(find_weir_program, |path| Ok(path.to_path_buf()))?;
        let free_port = free_port()?;
        let own = std::env::current_exe().context("finding this program")?;
        let paths = HostingPaths { folder: folder.path().to_path_buf(), program: own, free_port };
        let settings = hosting.settings(workers, &paths);
        std::fs::write(folder.path().join("weir.toml"), settings)?;
        let mut weir = spawn(&program, folder.path())?;
        let output = weir.stdout.take().context("Weir's output")?;
        let sockets = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port));
        let mut hosted = Self {
            weir,
            program,
            url: HttpUrl::from_address(sockets).with_default_path(PATH),
            folder,
        };
        hosted
            .wait_until_ready(hosting, workers, output)
            .map_err(|error| hosted.with_log_tail(&error))?;
        Ok(hosted)
    }

    pub(crate) fn target(&self) -> Target {
        Target { url: self.url.clone(), pids: vec![self.weir.id()] }
    }

    fn wait_until_ready(
        &mut self,
        hosting: &Hosting,
        workers: usize,
        output: ChildStdout,
    ) -> Result<()> {
        let front_address = read_front_address(output);
        let front = front_address.recv_timeout(START_TIMEOUT).context("it does not get ready")?;
        if hosting.is_proxy() {
            let address = front.parse().with_context(|| format!("front={front}"))?;
            self.url = HttpUrl::from_address(address).with_default_path(PATH);
        }
        let deadline = now() + START_TIMEOUT;
        while self.count_ready_workers()? < workers || probe(&self.url, PROBE_TIMEOUT).is_err() {
            if let Some(status) = self.weir.try_wait()? {
                bail!("it has ended: {status}");
            }
            if now() > deadline {
                let ready_workers = self.count_ready_workers()?;
                bail!("{ready_workers} of {workers} workers serve after {START_TIMEOUT:?}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns the number of ready workers, from `weir workers list`.
    fn count_ready_workers(&self) -> Result<usize> {
        let mut command = Command::new(&self.program);
        command.args(["workers", "list", "--json", "--config"]).arg(self.settings_path());
        let output = command.output().context("weir workers list")?;
        // There is no list yet just after the start.
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Ok(count_workers_at_work(&list))
    }

    fn settings_path(&self) -> PathBuf {
        self.folder.path().join("weir.toml")
    }

    fn with_log_tail(&self, error: &anyhow::Error) -> anyhow::Error {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        anyhow!("starting {} up: {error:#}\n{last}", self.program.display())
    }

    fn stop(&mut self) -> std::io::Result<()> {
        let pid = i32::try_from(self.weir.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| matches!(self.weir.try_wait(), Ok(None))) {
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = now() + STOP_TIMEOUT;
        while self.weir.try_wait()?.is_none() {
            if now() > deadline {
                self.weir.kill()?;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // Errors are ignored, because the run is over.
        let _ = self.stop();
    }
}

fn spawn(program: &Path, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["up", "--only", "front", "--config"]).arg(folder.join("weir.toml"));
    command.stdout(Stdio::piped()).stderr(File::create(folder.join("log"))?);
    command.spawn().with_context(|| format!("starting {} (--weir)", program.display()))
}

/// Reads Weir's output to its end on a thread. Sends the address after `front=` in the line `weir ready`.
fn read_front_address(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("weir ready") {
                let address = line.split(' ').find_map(|field| field.strip_prefix("front="));
                // Only the first line is expected.
                let _ = sender.try_send(address.unwrap_or_default().to_owned());
            }
        }
    });
    receiver
}

/// Counts the objects, at any depth, whose `state` is that of a ready worker.
fn count_workers_at_work(json: &Value) -> usize {
    const NOT_AT_WORK: [&str; 4] = ["starting", "waiting", "failed", "stopped"];
    match json {
        Value::Array(items) => items.iter().map(count_workers_at_work).sum(),
        Value::Object(fields) => {
            let state = fields.get("state").and_then(Value::as_str);
            let serves = state.is_some_and(|state| !NOT_AT_WORK.contains(&state));
            usize::from(serves) + fields.values().map(count_workers_at_work).sum::<usize>()
        }
        _ => 0,
    }
}

fn find_weir_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let sibling = own.with_file_name("weir");
    // Otherwise the one in the PATH.
    Ok(if sibling.exists() { sibling } else { PathBuf::from("weir") })
}

/// Returns a free port. If another process takes it before Weir does, Weir reports it.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_ready_workers_are_counted() {
        let states = ["serving", "starting", "serving", "failed", "draining"];
        let workers: Vec<Value> = states.iter().map(|state| json!({ "state": state })).collect();
        assert_eq!(count_workers_at_work(&json!([{ "app": "bench", "workers": workers }])), 3);
        assert_eq!(count_workers_at_work(&Value::Null), 0);
    }
}
