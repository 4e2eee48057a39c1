//! Pushes the backlog, and then jobs at their times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::load::{Load, QUEUES};
use crate::clock::monotonic;
use crate::jobs::connect::Control;
use crate::jobs::payload::JobTemplate;
use crate::jobs::server_url::ServerUrl;

/// Jobs per PUSHB.
const BATCH_JOBS: u64 = 1_000;
const JOB_BYTES: usize = 250;
/// Every run has a server of its own.
const TAG: u32 = 0x0E0D;
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest sleep, after which it looks whether the run is over.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Returns the JSON of the jobs of a queue.
pub(super) fn template(queue: usize) -> Result<JobTemplate> {
    JobTemplate::new(TAG, QUEUES[queue].name, None, JOB_BYTES)
}

#[derive(Debug)]
pub(super) struct Producer {
    server: Control,
    load: Load,
    templates: Vec<JobTemplate>,
}

/// What the producer's thread shares.
#[derive(Debug, Default)]
struct Progress {
    /// Jobs that have arrived.
    arrived: AtomicU64,
    is_over: AtomicBool,
}

/// A producer at work.
#[derive(Debug)]
pub(super) struct RunningProducer {
    progress: Arc<Progress>,
    thread: JoinHandle<Result<()>>,
}

impl Producer {
    pub(super) fn new(server: SocketAddr, load: &Load) -> Result<Self> {
        let url = ServerUrl { address: server, password: None };
        let templates = (0..QUEUES.len()).map(template).collect::<Result<_>>()?;
        Ok(Self { server: Control::open(&url, REPLY_TIMEOUT)?, load: load.clone(), templates })
    }

    pub(super) fn push_backlog(mut self) -> Result<Self> {
        let numbers: Vec<u64> = (0..self.load.backlog()).collect();
        for numbers in numbers.chunks(usize::try_from(BATCH_JOBS)?) {
            let queue =
                |number: &u64| self.load.backlog_queue(*number).map(|queue| (queue, *number));
            let jobs: Vec<_> = numbers.iter().filter_map(queue).collect();
            self.push(&jobs)?;
        }
        Ok(self)
    }

    /// Pushes jobs from now on, each at its time after `start`.
    pub(super) fn start(mut self, start: Duration) -> Result<RunningProducer> {
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = std::thread::Builder::new().spawn(move || self.run(start, &shared))?;
        Ok(RunningProducer { progress, thread })
    }

    fn run(&mut self, start: Duration, progress: &Progress) -> Result<()> {
        let mut arrivals = (self.load.backlog()..).zip(self.load.arrivals()).peekable();
        while !progress.is_over.load(Ordering::Relaxed) {
            let now = monotonic().saturating_sub(start);
            let mut due = Vec::new();
            while let Some((number, job)) = arrivals.next_if(|(_, job)| job.at <= now) {
                due.push((job.queue, number));
                if due.len() as u64 == BATCH_JOBS {
                    break;
                }
            }
            if due.is_empty() {
                let next = arrivals.peek().map_or(SLEEP_MAX, |(_, job)| job.at.saturating_sub(now));
                std::thread::sleep(next.min(SLEEP_MAX));
                continue;
            }
            // They have arrived, even if the server is slow to accept them.
            progress.arrived.fetch_add(due.len() as u64, Ordering::Relaxed);
            self.push(&due)?;
        }
        Ok(())
    }

    fn push(&mut self, jobs: &[(usize, u64)]) -> Result<()> {
        let mut command = b"PUSHB [".to_vec();
        for (place, (queue, number)) in jobs.iter().enumerate() {
            if place > 0 {
                command.push(b',');
            }
            self.templates[*queue].append(*number, &mut command);
        }
        command.push(b']');
        let reply = self.server.command(&String::from_utf8(command)?)?;
        ensure!(reply == b"{}", "PUSHB: {}", String::from_utf8_lossy(&reply));
        Ok(())
    }
}

impl RunningProducer {
    /// Returns how many jobs have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.progress.arrived.load(Ordering::Relaxed)
    }

    /// Fails if it has ended.
    pub(super) fn check_running(&self) -> Result<()> {
        ensure!(!self.thread.is_finished(), "pushing has ended early");
        Ok(())
    }

    /// Ends it. Returns how many jobs have arrived.
    pub(super) fn stop(self) -> Result<u64> {
        self.progress.is_over.store(true, Ordering::Relaxed);
        let outcome = self.thread.join().map_err(|_| anyhow!("the producer panicked"))?;
        outcome.context("pushing")?;
        Ok(self.progress.arrived.load(Ordering::Relaxed))
    }
}
