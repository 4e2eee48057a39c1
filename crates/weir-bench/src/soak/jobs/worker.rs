//! `weir-bench soak-worker`: a worker process, which may be killed at any time. Each event is a line on standard output.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use super::{CALLBACK_TYPE, REPLY_TIMEOUT};
use crate::clock::monotonic;
use crate::front_worker::exit_with_parent;
use crate::jobs::connect::Control;
use crate::jobs::server_url::ServerUrl;
use crate::output::Output;

/// Weir returns the jobs of a worker without a BEAT for `jobs.limits.heartbeat_timeout`.
const BEAT_INTERVAL: Duration = Duration::from_secs(4);
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The reply to the FAIL of a job that is not reserved any more.
const NOT_FOUND: &str = "Job not found";

#[derive(Debug, Args)]
pub(crate) struct SoakWorkerFlags {
    /// Addresses of the job servers. The worker goes from one to the next after an error.
    #[arg(long, value_delimiter = ',', required = true)]
    nodes: Vec<SocketAddr>,
    #[arg(long, value_delimiter = ',', required = true)]
    queues: Vec<String>,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    wid: String,
    /// End when the process that started this one does.
    #[arg(long)]
    end_with_parent: u32,
}

/// Events of a worker, in the order in which they happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    RunBegan { jid: String, at: Duration },
    CallbackBegan { jid: String, batch: usize, at: Duration },
    Failed { jid: String },
    AckSent { jid: String, at: Duration },
    Acknowledged { jid: String },
    Error { began: Duration, at: Duration, text: String },
}

impl Event {
    fn to_line(&self) -> String {
        match self {
            Self::RunBegan { jid, at } => format!("run {} {jid}\n", at.as_nanos()),
            Self::CallbackBegan { jid, batch, at } => {
                format!("callback {} {batch} {jid}\n", at.as_nanos())
            }
            Self::Failed { jid } => format!("failed {jid}\n"),
            Self::AckSent { jid, at } => format!("ack {} {jid}\n", at.as_nanos()),
            Self::Acknowledged { jid } => format!("done {jid}\n"),
            Self::Error { began, at, text } => {
                let text = text.replace('\n', " ");
                format!("error {} {} {text}\n", began.as_nanos(), at.as_nanos())
            }
        }
    }

    /// Returns `None` for a line that a kill has cut.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (kind, rest) = line.split_once(' ')?;
        let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
        Some(match kind {
            "run" => {
                let (at, jid) = rest.split_once(' ')?;
                Self::RunBegan { jid: jid.to_owned(), at: time(at)? }
            }
            "callback" => {
                let mut fields = rest.splitn(3, ' ');
                let at = time(fields.next()?)?;
                let batch = fields.next()?.parse().ok()?;
                Self::CallbackBegan { jid: fields.next()?.to_owned(), batch, at }
            }
            "failed" => Self::Failed { jid: rest.to_owned() },
            "ack" => {
                let (at, jid) = rest.split_once(' ')?;
                Self::AckSent { jid: jid.to_owned(), at: time(at)? }
            }
            "done" => Self::Acknowledged { jid: rest.to_owned() },
            "error" => {
                let mut fields = rest.splitn(3, ' ');
                let (began, at) = (time(fields.next()?)?, time(fields.next()?)?);
                Self::Error { began, at, text: fields.next()?.to_owned() }
            }
            _ => return None,
        })
    }

    fn print(&self) -> Result<()> {
        let mut output = std::io::stdout().lock();
        output.write_all(self.to_line().as_bytes())?;
        Ok(output.flush()?)
    }
}

/// Works until it is killed.
pub(crate) fn run(flags: &SoakWorkerFlags, _: &mut Output) -> Result<bool> {
    exit_with_parent(flags.end_with_parent)?;
    let nodes = Arc::new(flags.nodes.clone());
    let fetch = format!("FETCH {}", flags.queues.join(" "));
    let worker = |node| WorkerThread {
        nodes: Arc::clone(&nodes),
        node,
        wid: flags.wid.clone(),
        connection: None,
    };
    for number in 0..flags.threads {
        let (mut worker, fetch) = (worker(number), fetch.clone());
        std::thread::Builder::new().spawn(move || worker.run(&fetch))?;
    }
    let mut heart = worker(0);
    let beat = format!("BEAT {{\"wid\":\"{}\"}}", flags.wid);
    loop {
        // An error is an event.
        heart.command(&beat)?;
        std::thread::sleep(BEAT_INTERVAL);
    }
}

#[derive(Debug)]
struct WorkerThread {
    nodes: Arc<Vec<SocketAddr>>,
    node: usize,
    wid: String,
    connection: Option<Control>,
}

impl WorkerThread {
    fn run(&mut self, fetch: &str) {
        loop {
            // Standard output is closed: the coordinator has ended, and this process is about to.
            let Ok(reply) = self.command(fetch) else { return };
            let Some(job) = reply.filter(|job| !job.is_empty()) else { continue };
            if self.work(&job).is_err() {
                return;
            }
        }
    }

    fn work(&mut self, job: &[u8]) -> Result<()> {
        let job: Value = serde_json::from_slice(job).context("reading a job")?;
        let jid = job["jid"].as_str().context("a job without a jid")?.to_owned();
        let at = monotonic();
        if job["jobtype"] == CALLBACK_TYPE {
            let batch = job["args"][0].as_u64().context("a callback without its batch")?;
            Event::CallbackBegan { jid: jid.clone(), batch: usize::try_from(batch)?, at }
                .print()?;
        } else {
            Event::RunBegan { jid: jid.clone(), at }.print()?;
        }
        let takes = job["args"][1].as_u64().unwrap_or(0);
        std::thread::sleep(Duration::from_millis(takes));
        if job["args"][2] == true && job["failure"].is_null() {
            // Known before it is sent, because the reply may be lost.
            Event::Failed { jid: jid.clone() }.print()?;
            let fail = format!(r#"FAIL {{"jid":"{jid}","errtype":"Soak","message":"once"}}"#);
            return self.command_until_replied(&fail);
        }
        Event::AckSent { jid: jid.clone(), at: monotonic() }.print()?;
        self.command_until_replied(&format!(r#"ACK {{"jid":"{jid}"}}"#))?;
        Event::Acknowledged { jid }.print()
    }

    fn command_until_replied(&mut self, command: &str) -> Result<()> {
        while self.command(command)?.is_none() {}
        Ok(())
    }

    /// Returns the reply, or `None` after an error, which is printed.
    fn command(&mut self, command: &str) -> Result<Option<Vec<u8>>> {
        let began = monotonic();
        match self.try_command(command) {
            Ok(reply) => Ok(Some(reply)),
            // The FAIL before had no reply, but was carried out.
            Err(error) if format!("{error:#}").contains(NOT_FOUND) => Ok(Some(Vec::new())),
            Err(error) => {
                let node = self.node % self.nodes.len();
                let text = format!("worker {} at node {node}: {error:#}", self.wid);
                Event::Error { began, at: monotonic(), text }.print()?;
                self.connection = None;
                self.node += 1;
                std::thread::sleep(RETRY_AFTER);
                Ok(None)
            }
        }
    }

    fn try_command(&mut self, command: &str) -> Result<Vec<u8>> {
        let Self { nodes, node, wid, connection } = self;
        let connection = match connection {
            Some(connection) => connection,
            None => {
                let address = nodes[*node % nodes.len()];
                let url = ServerUrl { address, password: None };
                connection.insert(Control::open_worker(&url, wid, REPLY_TIMEOUT)?)
            }
        };
        connection.command(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines() {
        let (jid, at) = ("soak-00-000000001".to_owned(), Duration::from_nanos(7));
        for event in [
            Event::RunBegan { jid: jid.clone(), at },
            Event::CallbackBegan { jid: jid.clone(), batch: 3, at },
            Event::Failed { jid: jid.clone() },
            Event::AckSent { jid: jid.clone(), at },
            Event::Acknowledged { jid },
            Event::Error { began: at, at, text: "a b: c".to_owned() },
        ] {
            let line = event.to_line();
            assert_eq!(Event::parse(line.trim_end()), Some(event), "{line}");
        }
        for cut in ["ru", "run 7", "callback 7 3", ""] {
            assert_eq!(Event::parse(cut), None, "{cut}");
        }
    }
}
