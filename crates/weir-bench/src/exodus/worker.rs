//! `weir-bench exodus-worker`: a worker process of the surge. Each of its threads fetches a job, reports it to the
//! coordinator, which simulates its work, and acknowledges it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::load::QUEUES;
use super::producer::template;
use crate::clock::monotonic;
use crate::front_worker::exit_with_parent;
use crate::jobs::connect::Control;
use crate::jobs::payload::{JobTemplate, jid_of};
use crate::jobs::server_url::ServerUrl;
use crate::output::Output;

/// A server forgets a worker after 60 s without a BEAT.
const BEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A FETCH waits for two seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// A report: the number of the job and the nanoseconds of the monotonic clock at which it was fetched.
pub(super) const REPORT_BYTES: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct ExodusWorkerFlags {
    #[arg(long)]
    url: ServerUrl,
    /// Socket of the coordinator.
    #[arg(long)]
    coordinator: PathBuf,
    #[arg(long)]
    threads: u64,
    /// End when the process that started this one does.
    #[arg(long)]
    end_with_parent: u32,
}

/// Works until it is killed, or until a thread fails.
pub(crate) fn run(flags: &ExodusWorkerFlags, _: &mut Output) -> Result<bool> {
    exit_with_parent(flags.end_with_parent)?;
    let wid = format!("exodus-{}", std::process::id());
    let (sender, failures) = channel();
    for _ in 0..flags.threads {
        let server = Control::open_worker(&flags.url, &wid, REPLY_TIMEOUT)?;
        start_thread(server, &flags.coordinator, sender.clone())?;
    }
    let mut control = Control::open_worker(&flags.url, &wid, REPLY_TIMEOUT)?;
    loop {
        match failures.recv_timeout(BEAT_INTERVAL) {
            Ok(error) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => bail!("no thread is left"),
            Err(RecvTimeoutError::Timeout) => {
                control.command(&format!("BEAT {{\"wid\":\"{wid}\"}}"))?
            }
        };
    }
}

fn start_thread(
    mut server: Control,
    coordinator: &Path,
    failures: Sender<anyhow::Error>,
) -> Result<()> {
    let mut coordinator =
        UnixStream::connect(coordinator).context("connecting to the coordinator")?;
    let template = template(0)?;
    std::thread::Builder::new().spawn(move || {
        if let Err(error) = work(&mut server, &mut coordinator, &template) {
            // The process is about to end if nobody receives it.
            let _ = failures.send(error);
        }
    })?;
    Ok(())
}

fn work(server: &mut Control, coordinator: &mut UnixStream, template: &JobTemplate) -> Result<()> {
    let names = QUEUES.map(|queue| queue.name);
    let fetch = format!("FETCH {}", names.join(" "));
    wait_for_reply(coordinator)?;
    loop {
        let job = server.command(&fetch)?;
        if job.is_empty() {
            continue;
        }
        let fetched = u64::try_from(monotonic().as_nanos()).unwrap_or(u64::MAX);
        let number = template.number_of(&job).context("a job that is not of this run")?;
        let jid = jid_of(&job).map(String::from_utf8_lossy).context("a job without a jid")?;
        let mut report = [0; REPORT_BYTES];
        report[..8].copy_from_slice(&number.to_le_bytes());
        report[8..].copy_from_slice(&fetched.to_le_bytes());
        coordinator.write_all(&report).context("reporting to the coordinator")?;
        wait_for_reply(coordinator)?;
        let reply = server.command(&format!("ACK {{\"jid\":\"{jid}\"}}"))?;
        ensure!(reply == b"OK", "ACK: {}", String::from_utf8_lossy(&reply));
    }
}

/// Waits for the byte by which the coordinator says that the work may begin, or has ended.
fn wait_for_reply(coordinator: &mut UnixStream) -> Result<()> {
    coordinator.read_exact(&mut [0]).context("waiting for the coordinator")
}
