//! The scenarios: which connections do what, in which order, and what must hold at the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::connect::Control;
use super::drain::{DrainPlan, Heartbeat};
use super::ledger::{Ledger, Numbers};
use super::payload::{JobTemplate, random_tag};
use super::phase::{self, Phase, Target};
use super::push::{PushBy, Pusher};
use super::role::Role;
use super::settings::{LoadSettings, Scenario};
use crate::clock::now;
use crate::event_loop::Progress;
use crate::tally::Faults;

/// Connections that fill a queue before a drain that is timed.
const FILL_CONNECTIONS_MAX: usize = 4;
/// Pushes under way per filling connection where the server has no PUSHB.
const FILL_IN_FLIGHT: usize = 200;

/// The phases of a run, the one that the scenario is about last, and what did not add up.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) server_version: String,
    pub(crate) phases: Vec<Phase>,
    pub(crate) faults: Faults,
    /// RSS with the whole backlog waiting, and before it (scenario backlog with a `--server-pid`).
    pub(crate) backlog_rss_bytes: Option<(u64, u64)>,
}

pub(crate) fn run(target: &Target, settings: &LoadSettings) -> Result<Run> {
    let mut bench = Bench::prepare(target, settings)?;
    let outcome = match settings.scenario {
        Scenario::Push => bench.push(PushBy::One),
        Scenario::Pushb => bench.push(PushBy::Batch(settings.batch)),
        Scenario::FetchAck => bench.fetch_ack(),
        Scenario::Mixed => bench.mixed(),
        Scenario::Backlog => bench.backlog(),
    };
    // Also after a failure: the next run wants an empty queue.
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
        let template = JobTemplate::new(tag, &settings.queue, settings.payload_bytes)?;
        let mut run = Run {
            server_version: String::new(),
            phases: Vec::new(),
            faults: Faults::default(),
            backlog_rss_bytes: None,
        };
        let info = info(target, settings.operation_timeout)?;
        let server = &info["server"];
        let text = |key: &str| server[key].as_str().unwrap_or("?").to_owned();
        run.server_version = format!("{} {}", text("description"), text("faktory_version"));
        let waiting = queue_size(&info, &settings.queue);
        let queue = &settings.queue;
        ensure!(waiting == 0, "queue {queue} already holds {waiting} jobs: choose another --queue");
        let ledger = Ledger::new(settings.jobs);
        Ok(Self { target, settings, template, ledger, wid: format!("weir-bench-{tag:08x}"), run })
    }

    fn push(&mut self, by: PushBy) -> Result<()> {
        let settings = self.settings;
        let accepted = self.push_phase("push", by, settings.connections, settings.in_flight)?;
        self.check_waiting(accepted)
    }

    fn fetch_ack(&mut self) -> Result<()> {
        self.fill()?;
        self.drain_phase(self.settings.jobs)
    }

    fn backlog(&mut self) -> Result<()> {
        let before = self.target.usage()?;
        self.fill()?;
        let top = self.target.usage()?;
        let both = top.zip(before);
        self.run.backlog_rss_bytes = both.map(|(top, before)| (top.rss_bytes, before.rss_bytes));
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
                Role::Pusher(Pusher::new(template, &numbers, &progress, PushBy::One, in_flight))
            } else {
                Role::drainer(&plan, self.heartbeat(index == pushers))
            });
        }
        let phase = phase::run("mixed", self.target, settings, &progress, &self.wid, roles)?;
        self.finish_drain(phase, settings.jobs, &progress)
    }

    /// Puts all jobs into the queue as fast as the server takes them.
    fn fill(&mut self) -> Result<()> {
        let connections = self.settings.connections.min(FILL_CONNECTIONS_MAX);
        let mut control = Control::open(&self.target.url, self.settings.operation_timeout)?;
        let has_bulk = control.command("PUSHB []").is_ok();
        let (by, in_flight) = if has_bulk {
            (PushBy::Batch(self.settings.batch), 1)
        } else {
            (PushBy::One, FILL_IN_FLIGHT)
        };
        let accepted = self.push_phase("fill", by, connections, in_flight)?;
        let first_error = self.run.phases.last().and_then(|phase| phase.tallies.first_error());
        let jobs = self.settings.jobs;
        ensure!(
            accepted == jobs,
            "filled {accepted} of {jobs} jobs: {}",
            first_error.unwrap_or("?")
        );
        self.check_waiting(jobs)
    }

    /// The number of jobs that the server accepted.
    fn push_phase(
        &mut self,
        name: &'static str,
        by: PushBy,
        connections: usize,
        in_flight: usize,
    ) -> Result<u64> {
        let numbers = Numbers::new(self.settings.jobs);
        let progress = Progress::default();
        let pusher = || Pusher::new(&self.template, &numbers, &progress, by, in_flight);
        let roles = (0..connections).map(|_| Role::Pusher(pusher())).collect();
        let phase = phase::run(name, self.target, self.settings, &progress, &self.wid, roles)?;
        self.note_stall(&progress, name);
        let accepted = phase.tallies.pushed.operations;
        self.run.phases.push(phase);
        Ok(accepted)
    }

    fn drain_phase(&mut self, jobs: u64) -> Result<()> {
        let fetches = Numbers::new(jobs);
        let progress = Progress::default();
        let plan = self.drain_plan(&fetches, &progress);
        let drainer = |index| Role::drainer(&plan, self.heartbeat(index == 0));
        let roles = (0..self.settings.connections).map(drainer).collect();
        let phase = phase::run("drain", self.target, self.settings, &progress, &self.wid, roles)?;
        self.finish_drain(phase, jobs, &progress)
    }

    fn finish_drain(&mut self, phase: Phase, jobs: u64, progress: &Progress) -> Result<()> {
        self.note_stall(progress, phase.name);
        self.run.phases.push(phase);
        let delivered = self.ledger.delivered();
        let missing = jobs.saturating_sub(delivered);
        self.run.faults.add(missing, || format!("{missing} of {jobs} jobs never came back"));
        self.check_waiting(self.settings.jobs.saturating_sub(delivered))
    }

    fn drain_plan<'plan>(
        &'plan self,
        fetches: &'plan Numbers,
        progress: &'plan Progress,
    ) -> DrainPlan<'plan> {
        DrainPlan {
            template: &self.template,
            queue: &self.settings.queue,
            fetches,
            ledger: &self.ledger,
            progress,
            in_flight: self.settings.in_flight,
            batch: self.settings.drain_batch,
        }
    }

    /// All connections share one wid, so one of them beats for all.
    fn heartbeat(&self, is_first: bool) -> Option<Heartbeat> {
        let every = self.settings.beat;
        is_first.then(|| Heartbeat { wid: self.wid.clone(), every, next: now() + every })
    }

    fn note_stall(&mut self, progress: &Progress, phase: &str) {
        let patience = self.settings.stall_timeout;
        self.run.faults.add(u64::from(progress.is_stalled()), || {
            format!("{phase} stalled: nothing completed for {patience:?} (--stall-timeout-seconds)")
        });
    }

    /// The server's own count of the queue must agree.
    fn check_waiting(&mut self, expected: u64) -> Result<()> {
        let info = info(self.target, self.settings.operation_timeout)?;
        let waiting = queue_size(&info, &self.settings.queue);
        self.run.faults.add(waiting.abs_diff(expected), || {
            format!("the server says {waiting} jobs are waiting, {expected} should be")
        });
        Ok(())
    }

    fn remove_queue(&self) -> Result<()> {
        let mut control = Control::open(&self.target.url, self.settings.operation_timeout)?;
        control.command(&format!("QUEUE REMOVE {}", self.settings.queue))?;
        Ok(())
    }
}

fn info(target: &Target, timeout: Duration) -> Result<Value> {
    let info = Control::open(&target.url, timeout)?.command("INFO")?;
    serde_json::from_slice(&info).context("reading the answer to INFO")
}

fn queue_size(info: &Value, queue: &str) -> u64 {
    info["faktory"]["queues"][queue].as_u64().unwrap_or(0)
}
