//! A Weir of our own: started with the sample workers on free ports, and stopped by its number when it is dropped.

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

use super::hosting::{Hosting, Places};
use super::scenario::{PATH, probe};
use crate::clock::now;
use crate::http::{HttpUrl, Target};

/// Until all workers serve.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// More than Weir gives itself to end (supervisor.kill_after and shutdown_deadline).
const STOP_PATIENCE: Duration = Duration::from_secs(40);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Lines of its log that explain a failure.
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
        let program = weir.map_or_else(beside_this_program, |path| Ok(path.to_path_buf()))?;
        let free_port = free_port()?;
        let own = std::env::current_exe().context("finding this program")?;
        let places = Places { folder: folder.path().to_path_buf(), program: own, free_port };
        let settings = hosting.settings(workers, &places);
        std::fs::write(folder.path().join("weir.toml"), settings)?;
        let mut weir = spawn(&program, folder.path())?;
        let output = weir.stdout.take().context("Weir's output")?;
        let sockets = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port));
        let mut hosted = Self { weir, program, url: HttpUrl::of(sockets).or_path(PATH), folder };
        hosted
            .wait_until_ready(hosting, workers, output)
            .map_err(|error| hosted.explain(&error))?;
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
        let said = front_address(output);
        let front = said.recv_timeout(START_PATIENCE).context("it does not get ready")?;
        if hosting.is_proxy() {
            let address = front.parse().with_context(|| format!("front={front}"))?;
            self.url = HttpUrl::of(address).or_path(PATH);
        }
        let deadline = now() + START_PATIENCE;
        while self.serving()? < workers || probe(&self.url, PROBE_TIMEOUT).is_err() {
            if let Some(status) = self.weir.try_wait()? {
                bail!("it has ended: {status}");
            }
            if now() > deadline {
                let serving = self.serving()?;
                bail!("{serving} of {workers} workers serve after {START_PATIENCE:?}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Workers that serve, by Weir's own account.
    fn serving(&self) -> Result<usize> {
        let mut command = Command::new(&self.program);
        command.args(["workers", "list", "--json", "--config"]).arg(self.settings_path());
        let output = command.output().context("weir workers list")?;
        // Not yet: it has just been started.
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Ok(count_serving(&list))
    }

    fn settings_path(&self) -> PathBuf {
        self.folder.path().join("weir.toml")
    }

    fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
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
        let deadline = now() + STOP_PATIENCE;
        while self.weir.try_wait()?.is_none() {
            if now() > deadline {
                self.weir.kill()?;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // There is nobody to tell, and the run itself is over.
        let _ = self.stop();
    }
}

fn spawn(program: &Path, folder: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["up", "--only", "front", "--config"]).arg(folder.join("weir.toml"));
    command.stdout(Stdio::piped()).stderr(File::create(folder.join("log"))?);
    command.spawn().with_context(|| format!("starting {} (--weir)", program.display()))
}

/// The address behind `front=` in the line that says that Weir is ready. Its output is read to the end.
fn front_address(output: ChildStdout) -> Receiver<String> {
    let (say, hear) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("weir ready") {
                let address = line.split(' ').find_map(|word| word.strip_prefix("front="));
                // Nobody waits for a second one.
                let _ = say.try_send(address.unwrap_or_default().to_owned());
            }
        }
    });
    hear
}

/// Objects with a `state` that is that of a worker at work, wherever they stand.
fn count_serving(json: &Value) -> usize {
    const NOT_YET: [&str; 4] = ["starting", "waiting", "failed", "stopped"];
    match json {
        Value::Array(items) => items.iter().map(count_serving).sum(),
        Value::Object(fields) => {
            let state = fields.get("state").and_then(Value::as_str);
            let serves = state.is_some_and(|state| !NOT_YET.contains(&state));
            usize::from(serves) + fields.values().map(count_serving).sum::<usize>()
        }
        _ => 0,
    }
}

fn beside_this_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("finding this program")?;
    let beside = own.with_file_name("weir");
    // Otherwise whatever the shell would find.
    Ok(if beside.exists() { beside } else { PathBuf::from("weir") })
}

/// Free now; somebody else may take it before Weir does, which is then told.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_workers_at_work_are_counted() {
        let states = ["serving", "starting", "serving", "failed", "draining"];
        let workers: Vec<Value> = states.iter().map(|state| json!({ "state": state })).collect();
        assert_eq!(count_serving(&json!([{ "app": "bench", "workers": workers }])), 3);
        assert_eq!(count_serving(&Value::Null), 0);
    }
}
