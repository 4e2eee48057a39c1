//! `weir-bench forecasts-worker`: a worker process. Each of its threads fetches a job, runs for as long as the job takes,
//! and acknowledges it, or reports that it failed.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fastrand::Rng;

use super::run_time::RunTime;
use crate::clock::own_thread_cpu_time;
use crate::front_worker::exit_with_parent;
use crate::jobs::connect::Control;
use crate::jobs::payload::jid_of;
use crate::jobs::server_url::ServerUrl;
use crate::output::Output;

/// A server forgets a worker after 60 s without a BEAT.
const BEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A FETCH waits for two seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Args)]
pub(crate) struct ForecastsWorkerFlags {
    #[arg(long)]
    url: ServerUrl,
    #[arg(long)]
    queue: String,
    #[arg(long)]
    threads: u64,
    /// JSON.
    #[arg(long)]
    run_time: String,
    /// The share of jobs that fail.
    #[arg(long)]
    failing: f64,
    #[arg(long)]
    seed: u64,
    /// End when the process that started this one does.
    #[arg(long)]
    end_with_parent: u32,
}

/// Works until it is killed, or until a thread fails.
pub(crate) fn run(flags: &ForecastsWorkerFlags, _: &mut Output) -> Result<bool> {
    exit_with_parent(flags.end_with_parent)?;
    let run_time: RunTime = serde_json::from_str(&flags.run_time).context("--run-time")?;
    let wid = format!("forecast-{}", std::process::id());
    let (sender, failures) = channel();
    for thread in 0..flags.threads {
        let server = Control::open_worker(&flags.url, &wid, REPLY_TIMEOUT)?;
        let random = Rng::with_seed(flags.seed.wrapping_add(thread));
        let worker = WorkerThread { server, run_time, failing: flags.failing, random };
        let (fetch, sender) = (format!("FETCH {}", flags.queue), sender.clone());
        std::thread::Builder::new().spawn(move || {
            if let Err(error) = worker.work(&fetch) {
                // The process is about to end if nobody receives it.
                let _ = sender.send(error);
            }
        })?;
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

struct WorkerThread {
    server: Control,
    run_time: RunTime,
    failing: f64,
    random: Rng,
}

impl WorkerThread {
    fn work(mut self, fetch: &str) -> Result<()> {
        loop {
            let job = self.server.command(fetch)?;
            if job.is_empty() {
                continue;
            }
            let cpu_until = own_thread_cpu_time() + self.run_time.cpu();
            while own_thread_cpu_time() < cpu_until {
                std::hint::spin_loop();
            }
            std::thread::sleep(self.run_time.draw(&mut self.random));
            self.end(&job)?;
        }
    }

    fn end(&mut self, job: &[u8]) -> Result<()> {
        let jid = jid_of(job).map(String::from_utf8_lossy).context("a job without a jid")?;
        let reply = match self.random.f64() < self.failing {
            true => self.server.command(&format!(
                r#"FAIL {{"jid":"{jid}","errtype":"BenchError","message":"it fails by chance"}}"#
            ))?,
            false => self.server.command(&format!(r#"ACK {{"jid":"{jid}"}}"#))?,
        };
        ensure!(reply == b"OK", "ACK or FAIL: {}", String::from_utf8_lossy(&reply));
        Ok(())
    }
}
