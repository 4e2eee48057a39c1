//! One Weir, as its unit runs it: started, killed, started again with the same data.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::Signal;

use super::commands::{signal, stop, wait, with_parent};
use crate::clock::monotonic;
use crate::soak::shared::Endpoints;
use crate::weir_process::POLL_INTERVAL;

/// Longer than a start that repairs what a crash has left, in a debug build.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// `TimeoutStopSec` of deploy/weir.service.
const STOP_TIMEOUT: Duration = Duration::from_secs(105);
/// Longest run of `weir restart` and `weir upgrade`: supervisor.replace_deadline and the draining of the old process.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(180);
/// Lines of the log that are shown with an error.
const LOG_LINES: usize = 20;
const FAKETIME_FILE: &str = "faketime";

#[derive(Debug)]
pub(in crate::soak) struct Node {
    number: usize,
    program: PathBuf,
    folder: PathBuf,
    pub(in crate::soak) endpoints: Endpoints,
    /// Network namespace.
    namespace: Option<String>,
    faketime: Option<PathBuf>,
    parent: Option<Child>,
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "node {}", self.number)
    }
}

impl Node {
    pub(super) fn new(
        number: usize,
        program: &Path,
        folder: PathBuf,
        endpoints: Endpoints,
        namespace: Option<String>,
        faketime: Option<&Path>,
    ) -> Result<Self> {
        let faketime = faketime.map(Path::to_owned);
        let program = program.to_owned();
        let node = Self { number, program, folder, endpoints, namespace, faketime, parent: None };
        node.set_clock(0)?;
        Ok(node)
    }

    /// Starts it and waits until it is ready.
    pub(in crate::soak) fn start(&mut self) -> Result<()> {
        let mut command = self.command_in_namespace();
        command.arg("up").arg("--config").arg(self.folder.join("weir.toml"));
        let log = File::options().create(true).append(true).open(self.folder.join("log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut parent = command
            .spawn()
            .with_context(|| format!("starting {} (--weir)", self.program.display()))?;
        let output = parent.stdout.take().context("Weir's output")?;
        self.parent = Some(parent);
        let ready = lines_with_ready(output);
        ready.recv_timeout(START_TIMEOUT).map_err(|_| self.not_ready())
    }

    fn not_ready(&self) -> anyhow::Error {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        anyhow!("it does not get ready; the end of its log:\n{last}")
    }

    fn command_in_namespace(&self) -> Command {
        let mut command = match &self.namespace {
            None => with_parent("TERM", &self.program),
            Some(namespace) => {
                let mut command = with_parent("TERM", "ip");
                command.args(["netns", "exec", namespace]).arg(&self.program);
                command
            }
        };
        if let Some(library) = &self.faketime {
            command.env("LD_PRELOAD", library);
            command.env("FAKETIME_TIMESTAMP_FILE", self.folder.join(FAKETIME_FILE));
            command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.env("NO_COLOR", "1").env_remove("NOTIFY_SOCKET");
        command
    }

    /// Runs a command of Weir for this node. Returns its standard output.
    pub(in crate::soak) fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).arg("--config").arg(self.folder.join("weir.toml"));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = || format!("weir {}", arguments.join(" "));
        let mut child = command.spawn().with_context(what)?;
        // Its output is a few lines, which fit into the pipes.
        wait(&mut child, COMMAND_TIMEOUT).with_context(what)?;
        let output = child.wait_with_output().with_context(what)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {}", what(), output.status, error.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The parent process.
    pub(in crate::soak) fn pid(&self) -> Option<u32> {
        self.parent.as_ref().map(Child::id)
    }

    /// Returns the service process that started last.
    pub(in crate::soak) fn service(&self) -> Result<u32> {
        let parent = self.pid().context("it does not run")?;
        let service = processes_of(parent).into_iter().rev().find(|pid| *pid != parent);
        service.with_context(|| format!("{self} has no service process"))
    }

    pub(in crate::soak) fn kill_service(&self) -> Result<()> {
        signal(self.service()?, Signal::KILL)
    }

    /// Kills parent and service processes. The workers of the app notice it.
    pub(in crate::soak) fn kill(&mut self) -> Result<()> {
        let mut parent = self.parent.take().context("it does not run")?;
        let processes = processes_of(parent.id());
        // The parent first, so that it starts no other service.
        parent.kill()?;
        parent.wait()?;
        for pid in processes {
            // A service that has noticed that its parent has ended may have ended.
            let _ = signal(pid, Signal::KILL);
        }
        Ok(())
    }

    /// Stops it gracefully.
    pub(in crate::soak) fn stop(&mut self) -> Result<()> {
        let mut parent = self.parent.take().context("it does not run")?;
        signal(parent.id(), Signal::TERM)?;
        let status = wait(&mut parent, STOP_TIMEOUT)?;
        ensure!(status.success(), "{self} was stopped, and ended with {status}");
        Ok(())
    }

    pub(in crate::soak) fn pause(&self) -> Result<u32> {
        let service = self.service()?;
        signal(service, Signal::STOP)?;
        Ok(service)
    }

    /// `service`: what [`Self::pause`] has returned. It may have been replaced.
    pub(in crate::soak) fn resume(service: u32) {
        let _ = signal(service, Signal::CONT);
    }

    /// Kills one of the workers of the app.
    pub(in crate::soak) fn kill_app_worker(&self, victim: usize) -> Result<()> {
        let parent = self.pid().context("it does not run")?;
        let own = processes_of(parent);
        let workers: Vec<u32> =
            children_of(parent).into_iter().filter(|pid| !own.contains(pid)).collect();
        ensure!(!workers.is_empty(), "{self} has no workers of the app");
        signal(workers[victim % workers.len()], Signal::KILL)
    }

    /// Sets its clock ahead. Does nothing without libfaketime.
    pub(in crate::soak) fn set_clock(&self, seconds_ahead: i64) -> Result<()> {
        let path = self.folder.join(FAKETIME_FILE);
        Ok(std::fs::write(path, format!("{seconds_ahead:+}s\n"))?)
    }

    /// Returns how it has ended, if nobody stopped it.
    pub(in crate::soak) fn ended(&mut self) -> Result<Option<String>> {
        let Some(parent) = &mut self.parent else { return Ok(None) };
        let Some(status) = parent.try_wait()? else { return Ok(None) };
        self.parent = None;
        Ok(Some(format!("{self} has ended by itself: {status}")))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let Some(mut parent) = self.parent.take() else { return };
        let processes = processes_of(parent.id());
        stop(&mut parent, STOP_TIMEOUT);
        for pid in processes {
            // It has ended, unless the parent had to be killed.
            let _ = signal(pid, Signal::KILL);
        }
    }
}

/// Reads the output to its end on a thread, and sends once when Weir is ready.
fn lines_with_ready(output: impl std::io::Read + Send + 'static) -> Receiver<()> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line.starts_with("weir ready") {
                // Nobody receives the lines of later services.
                let _ = sender.try_send(());
            }
        }
    });
    receiver
}

/// Returns a Weir's parent process and its service processes, which run the same program, but not the workers of apps.
pub(in crate::soak) fn processes_of(parent: u32) -> BTreeSet<u32> {
    let program = |pid: u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let of_parent = program(parent);
    let is_weir = |pid: &u32| of_parent.is_some() && program(*pid) == of_parent;
    std::iter::once(parent).chain(children_of(parent)).filter(is_weir).collect()
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// Waits until `probe` succeeds. Returns the last error if it does not within `timeout`.
pub(in crate::soak) fn wait_until(
    timeout: Duration,
    mut probe: impl FnMut() -> Result<()>,
) -> Result<()> {
    let deadline = monotonic() + timeout;
    loop {
        match probe() {
            Ok(()) => return Ok(()),
            Err(error) if monotonic() > deadline => {
                bail!("not within {timeout:?}: {error:#}")
            }
            Err(_) => std::thread::sleep(POLL_INTERVAL * 4),
        }
    }
}
