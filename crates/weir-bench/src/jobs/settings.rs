//! The flags of a jobs run, checked once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::payload::{JOBS_MAX, TENANTS_MAX};
use crate::checks::check_range;
use crate::event_loop::Timeouts;

/// A FETCH of an empty queue takes 2 s by the protocol, so the timeout must be longer.
const OPERATION_TIMEOUT_SECONDS_MIN: u64 = 3;
/// A server forgets a worker that has not sent a BEAT for 60 s.
const BEAT_SECONDS_MAX: u64 = 60;
const CONNECTIONS_MAX: usize = 20_000;
const IN_FLIGHT_MAX: usize = 10_000;
const PUSHB_JOBS: u64 = 1_000;
const BATCH_MAX: u64 = 100_000;
const THREADS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Jobs pushed with one PUSH each.
    Push,
    /// A filled queue (filling is not timed) drained with FETCH and ACK.
    FetchAck,
    /// Jobs pushed with PUSHB, --batch at a time.
    Pushb,
    /// Half of the connections push, half fetch and acknowledge at the same time.
    Mixed,
    /// All jobs pushed with PUSHB (timed), memory read at the top, then --drain of them drained (timed).
    Backlog,
}

impl Scenario {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::FetchAck => "fetch-ack",
            Self::Pushb => "pushb",
            Self::Mixed => "mixed",
            Self::Backlog => "backlog",
        }
    }
}

/// How much of what. An operation is a job.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadFlags {
    // Required, but optional by type: `jobs compare` carries a set of these flags of its own.
    #[arg(long, value_enum, required = true)]
    pub(crate) scenario: Option<Scenario>,
    /// Jobs per run.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) jobs: u64,
    /// Commands (or jobs or batches of them, when draining) in flight on each connection.
    #[arg(long, default_value_t = 1)]
    pub(crate) in_flight: usize,
    /// Jobs per PUSHB (1000 by default). When draining (fetch-ack, backlog): also per FETCHB and ACKB, which
    /// are then used instead of FETCH and ACK.
    #[arg(long)]
    pub(crate) batch: Option<u64>,
    /// Exact size of a job's JSON on the wire.
    #[arg(long, default_value_t = 250)]
    pub(crate) payload_bytes: usize,
    /// backlog only: how many jobs to drain; all by default.
    #[arg(long)]
    pub(crate) drain: Option<u64>,
    /// Must be empty at the start; removed at the end, unless --keep.
    #[arg(long, default_value = "weir-bench")]
    pub(crate) queue: String,
    /// Another queue, which each FETCH names before --queue; none of its jobs may be delivered. Repeatable.
    #[arg(long = "fetch-first")]
    pub(crate) fetch_first: Vec<String>,
    /// The first argument of each job is one of as many names of tenants (tenant-000042), in no order.
    #[arg(long)]
    pub(crate) tenants: Option<u32>,
    /// Leave in the queue what the run did not drain.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Client threads; one saturates most servers on a shared machine.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Longest wait for the reply to one command; the run fails then.
    #[arg(long, default_value_t = 30)]
    pub(crate) operation_timeout_seconds: u64,
    /// Longest time in which no operation at all is completed; what is missing then counts as errors.
    #[arg(long, default_value_t = 10)]
    pub(crate) stall_timeout_seconds: u64,
    /// A draining run sends BEAT this often.
    #[arg(long, default_value_t = 15)]
    pub(crate) beat_seconds: u64,
}

/// Validated flags.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadSettings {
    #[serde(skip)]
    pub(crate) scenario: Scenario,
    pub(crate) jobs: u64,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    pub(crate) batch: u64,
    /// Jobs per FETCHB; `None`: FETCH.
    pub(crate) drain_batch: Option<u64>,
    pub(crate) payload_bytes: usize,
    /// Jobs that the drain takes.
    pub(crate) drain: u64,
    pub(crate) queue: String,
    /// As FETCH has them: `--fetch-first`, then `--queue`.
    pub(crate) fetched_queues: String,
    pub(crate) tenants: Option<u32>,
    #[serde(skip)]
    pub(crate) keep: bool,
    pub(crate) threads: usize,
    #[serde(skip)]
    pub(crate) operation_timeout: Duration,
    #[serde(skip)]
    pub(crate) stall_timeout: Duration,
    #[serde(skip)]
    pub(crate) beat: Duration,
}

impl LoadFlags {
    pub(crate) fn validate(&self, connections: usize) -> Result<LoadSettings> {
        let scenario = self.scenario.context("--scenario is missing")?;
        self.check_limits(scenario, connections)?;
        Ok(LoadSettings {
            scenario,
            jobs: self.jobs,
            connections,
            in_flight: self.in_flight,
            batch: self.batch.unwrap_or(PUSHB_JOBS),
            drain_batch: self.batch.filter(|_| drains_in_batches(scenario)),
            payload_bytes: self.payload_bytes,
            drain: self.drain.unwrap_or(self.jobs),
            queue: self.queue.clone(),
            fetched_queues: self.fetched_queues().collect::<Vec<_>>().join(" "),
            tenants: self.tenants,
            keep: self.keep,
            threads: self.threads.min(connections),
            operation_timeout: Duration::from_secs(self.operation_timeout_seconds),
            stall_timeout: Duration::from_secs(self.stall_timeout_seconds),
            beat: Duration::from_secs(self.beat_seconds),
        })
    }

    fn check_limits(&self, scenario: Scenario, connections: usize) -> Result<()> {
        check_range("--jobs", self.jobs, 1, JOBS_MAX)?;
        check_range("--connections", connections as u64, 1, CONNECTIONS_MAX as u64)?;
        check_range("--in-flight", self.in_flight as u64, 1, IN_FLIGHT_MAX as u64)?;
        check_range("--batch", self.batch.unwrap_or(PUSHB_JOBS), 1, BATCH_MAX)?;
        check_range("--threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        let operation_timeout = self.operation_timeout_seconds;
        check_range(
            "--operation-timeout-seconds",
            operation_timeout,
            OPERATION_TIMEOUT_SECONDS_MIN,
            3600,
        )?;
        check_range("--stall-timeout-seconds", self.stall_timeout_seconds, 1, 3600)?;
        check_range("--beat-seconds", self.beat_seconds, 1, BEAT_SECONDS_MAX)?;
        if let Some(drain) = self.drain {
            ensure!(scenario == Scenario::Backlog, "--drain belongs to --scenario backlog");
            check_range("--drain", drain, 1, self.jobs)?;
        }
        let is_mixed = scenario == Scenario::Mixed;
        ensure!(!is_mixed || connections >= 2, "--scenario mixed needs --connections 2 or more");
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        for queue in self.fetched_queues() {
            ensure!(
                !queue.is_empty() && queue.bytes().all(is_allowed),
                "queue {queue:?}: a queue name is made of a-z, A-Z, 0-9, '.', '_', '-'"
            );
        }
        check_range("--tenants", self.tenants.unwrap_or(1).into(), 1, TENANTS_MAX.into())
    }

    fn fetched_queues(&self) -> impl Iterator<Item = &str> {
        self.fetch_first.iter().chain([&self.queue]).map(String::as_str)
    }
}

fn drains_in_batches(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::FetchAck | Scenario::Backlog)
}

impl LoadSettings {
    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts { operation_timeout: self.operation_timeout, stall_timeout: self.stall_timeout }
    }
}
