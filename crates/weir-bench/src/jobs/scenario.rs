//! The scenarios: what the connections do, in which order, and what is checked at the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::connect::Control;
use super::drain::{DrainPlan, Heartbeat};
use super::ledger::{Ledger, Numbers};
use super::payload::{JobTemplate, random_tag};
use super::phase::{self, Phase, Target};
use super::push::{PushMode, Pusher};
use super::role::Role;
use super::settings::{LoadSettings, Scenario};
use crate::clock::now;
use crate::event_loop::Progress;
use crate::tally::Faults;

/// Connections that fill a queue before a timed drain.
const FILL_CONNECTIONS_MAX: usize = 4;
/// Pushes in flight per filling connection if the server has no PUSHB.
const FILL_IN_FLIGHT: usize = 200;

/// The phases of a run, the main one last, and its errors.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) server_version: String,
    pub(crate) phases: Vec<Phase>,
    pub(crate) faults: Faults,
    /// RSS with the whole backlog, and before it (scenario backlog with a `--server-pid`).
    pub(crate) backlog_rss_bytes: Option<(u64, u64)>,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    let mut bench = Bench::prepare(target, settings)?;
    let outcome = match settings.scenario {
        Scenario::Push => bench.push(PushMode::Single),
        Scenario::Pushb => bench.push(PushMode::Batch(settings.batch)),
        Scenario::FetchAck => bench.fetch_ack(),
        Scenario::Mixed => bench.mixed(),
        Scenario::Backlog => bench.backlog(),
    };
    // Also after an error, because the next run needs an empty queue.
    let removed = if settings.keep { Ok(()) } else { bench.remove_queue() };
    outcome?;
    removed?;
    Ok(bench.run)
}

struct Bench<'run> {
    target: &'run Target,
    settings: &'run LoadSettings,
    template: JobTemplate,
    ledger: Ledger,
    wid: String,
    run: Run,
}

impl<'run> Bench<'run> {
    fn prepare(target: &'run Target, settings: &'run LoadSettings) -> Result<Self> {
        let tag = random_tag();
        let template =
            JobTemplate::new(tag, &settings.queue, settings.tenants, settings.payload_bytes)?;
        let mut run = Run {
            server_version: String::new(),
            phases: Vec::new(),
            faults: Faults::default(),
            backlog_rss_bytes: None,
        };
        let info = fetch_info(target, settings.operation_timeout)?;
        let server = &info["server"];
        let text = |key: &str| server[key].as_str().unwrap_or("?").to_owned();
        run.server_version = format!("{} {}", text("description"), text("faktory_version"));
        let queue_size = queue_size(&info, &settings.queue);
        let queue = &settings.queue;
        ensure!(
            queue_size == 0,
            "queue {queue} already holds {queue_size} jobs: choose another --queue"
        );
        let ledger = Ledger::new(settings.jobs);
        Ok(Self { target, settings, template, ledger, wid: format!("weir-bench-{tag:08x}"), run })
    }

    fn push(&mut self, mode: PushMode) -> Result<()> {
        let settings = self.settings;
        let accepted = self.push_phase("push", mode, settings.connections, settings.in_flight)?;
        self.check_queue_size(accepted)
    }

    fn fetch_ack(&mut self) -> Result<()> {
        self.append_commands()?;
        self.drain_phase(self.settings.jobs)
    }

    fn backlog(&mut self) -> Result<()> {
        let before = self.target.usage()?;
        self.append_commands()?;
        let after = self.target.usage()?;
        let before_and_after = after.zip(before);
        self.run.backlog_rss_bytes =
            before_and_after.map(|(after, before)| (after.rss_bytes, before.rss_bytes));
        self.drain_phase(self.settings.drain)
    }

    fn mixed(&mut self) -> Result<()> {
        let settings = self.settings;
        let (numbers, fetches) = (Numbers::new(settings.jobs), Numbers::new(settings.jobs));
        let progress = Progress::default();
        let plan = self.drain_plan(&fetches, &progress);
        let pushers = settings.connections / 2;
        let mut roles = Vec::with_capacity(settings.connections);
        for index in 0..settings.connections {
            roles.push(if index < pushers {
                let template = &self.template;
                let in_flight = settings.in_flight;
                Role::Pusher(Pusher::new(
                    template,
                    &numbers,
                    &progress,
                    PushMode::Single,
                    in_flight,
                ))
            } else {
                Role::from_plan(&plan, self.heartbeat(index == pushers))
            });
        }
        let phase = phase::run("mixed", self.target, settings, &progress, &self.wid, roles)?;
        self.finish_drain(phase, settings.jobs, &progress)
    }

    /// Fills the queue with all jobs.
    fn append_commands(&mut self) -> Result<()> {
        let connections = self.settings.connections.min(FILL_CONNECTIONS_MAX);
        let mut control = Control::open(&self.target.url, self.settings.operation_timeout)?;
        let has_bulk = control.command("PUSHB []").is_ok();
        let (mode, in_flight) = if has_bulk {
            (PushMode::Batch(self.settings.batch), 1)
        } else {
            (PushMode::Single, FILL_IN_FLIGHT)
        };
        let accepted = self.push_phase("fill", mode, connections, in_flight)?;
        let first_error = self.run.phases.last().and_then(|phase| phase.tallies.first_error());
        let jobs = self.settings.jobs;
        ensure!(
            accepted == jobs,
            "filled {accepted} of {jobs} jobs: {}",
            first_error.unwrap_or("?")
        );
        self.check_queue_size(jobs)
    }

    /// Pushes all jobs. Returns how many the server accepted.
    fn push_phase(
        &mut self,
        name: &'static str,
        mode: PushMode,
        connections: usize,
        in_flight: usize,
    ) -> Result<u64> {
        let numbers = Numbers::new(self.settings.jobs);
        let progress = Progress::default();
        let pusher = || Pusher::new(&self.template, &numbers, &progress, mode, in_flight);
        let roles = (0..connections).map(|_| Role::Pusher(pusher())).collect();
        let phase = phase::run(name, self.target, self.settings, &progress, &self.wid, roles)?;
        self.record_stall(&progress, name);
        let accepted = phase.tallies.pushed.operations;
        self.run.phases.push(phase);
        Ok(accepted)
    }

    fn drain_phase(&mut self, jobs: u64) -> Result<()> {
        let fetches = Numbers::new(jobs);
        let progress = Progress::default();
        let plan = self.drain_plan(&fetches, &progress);
        let drainer = |index| Role::from_plan(&plan, self.heartbeat(index == 0));
        let roles = (0..self.settings.connections).map(drainer).collect();
        let phase = phase::run("drain", self.target, self.settings, &progress, &self.wid, roles)?;
        self.finish_drain(phase, jobs, &progress)
    }

    fn finish_drain(&mut self, phase: Phase, jobs: u64, progress: &Progress) -> Result<()> {
        self.record_stall(progress, phase.name);
        self.run.phases.push(phase);
        let delivered = self.ledger.delivered();
        let missing = jobs.saturating_sub(delivered);
        self.run.faults.add(missing, || format!("{missing} of {jobs} jobs never came back"));
        self.check_queue_size(self.settings.jobs.saturating_sub(delivered))
    }

    fn drain_plan<'plan>(
        &'plan self,
        fetches: &'plan Numbers,
        progress: &'plan Progress,
    ) -> DrainPlan<'plan> {
        DrainPlan {
            template: &self.template,
            queues: &self.settings.fetched_queues,
            fetches,
            ledger: &self.ledger,
            progress,
            in_flight: self.settings.in_flight,
            batch: self.settings.drain_batch,
        }
    }

    /// All connections share one wid, so only one sends heartbeats.
    fn heartbeat(&self, is_first: bool) -> Option<Heartbeat> {
        let every = self.settings.beat;
        is_first.then(|| Heartbeat { wid: self.wid.clone(), every, next: now() + every })
    }

    fn record_stall(&mut self, progress: &Progress, phase: &str) {
        let timeout = self.settings.stall_timeout;
        self.run.faults.add(u64::from(progress.is_stalled()), || {
            format!("{phase} stalled: nothing completed for {timeout:?} (--stall-timeout-seconds)")
        });
    }

    /// Checks the server's count of the queue.
    fn check_queue_size(&mut self, expected: u64) -> Result<()> {
        let info = fetch_info(self.target, self.settings.operation_timeout)?;
        let queue_size = queue_size(&info, &self.settings.queue);
        self.run.faults.add(queue_size.abs_diff(expected), || {
            format!("the server says {queue_size} jobs are waiting, {expected} should be")
        });
        Ok(())
    }

    fn remove_queue(&self) -> Result<()> {
        let mut control = Control::open(&self.target.url, self.settings.operation_timeout)?;
        control.command(&format!("QUEUE REMOVE {}", self.settings.queue))?;
        Ok(())
    }
}

fn fetch_info(target: &Target, timeout: Duration) -> Result<Value> {
    let info = Control::open(&target.url, timeout)?.command("INFO")?;
    serde_json::from_slice(&info).context("reading the answer to INFO")
}

fn queue_size(info: &Value, queue: &str) -> u64 {
    info["faktory"]["queues"][queue].as_u64().unwrap_or(0)
}
