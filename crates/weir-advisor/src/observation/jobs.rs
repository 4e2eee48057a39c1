//! Sidekiq's queues, processes and sets.

use std::time::Duration;

use serde::Serialize;

use super::{Fact, JobProcess, Missing};
use crate::flow::Flow;

/// What `weir sidekiq set-aside` puts behind a queue's name.
pub(crate) const SET_ASIDE_SUFFIX: &str = "_backlog";

/// All that Sidekiq says of itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SidekiqObservation {
    /// Every queue that was ever pushed to or that a process serves.
    pub queues: Vec<ObservedQueue>,
    /// Processes with a heartbeat.
    pub processes: Vec<JobProcess>,
    /// There are more, which were not looked at: who is not among these may serve a queue all the same.
    pub has_more_processes: bool,
    /// Identities in the list of processes without a heartbeat.
    pub ghosts: Vec<String>,
    /// Of these, the ones that still run on this machine: their heartbeats do not reach this Redis.
    pub running_ghosts: Vec<String>,
    /// Jobs that wait for their time.
    pub scheduled: JobSet,
    /// Failed jobs that will be tried again.
    pub retries: JobSet,
    /// Failed jobs that nobody will try again.
    pub dead: JobSet,
    /// Jobs finished since ever, failed ones included.
    pub processed: Fact<u64>,
    /// Jobs failed since ever.
    pub failed: Fact<u64>,
    /// Jobs finished per second between two looks.
    pub processed_per_second: Fact<f64>,
    /// Of those, the share that failed; unknown while none was counted.
    pub failed_share: Fact<f64>,
    /// Parts that could not be read and are left out of the rest.
    pub unread: Vec<Missing>,
}

/// One queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ObservedQueue {
    /// Its name.
    pub name: String,
    /// Jobs were pushed to it at some time; otherwise only a process names it.
    pub pushed: bool,
    /// Jobs that wait.
    pub length: u64,
    /// Jobs of it that threads have in hand.
    pub in_hand: u64,
    /// The same over looks of the last minutes; none: there was one.
    pub lately: Option<RecentActivity>,
    /// How long the oldest has waited.
    pub latency: Duration,
    /// Paused (Sidekiq Pro).
    pub paused: bool,
    /// From two looks at it.
    pub flow: Fact<Flow>,
    /// Jobs may have come and been taken between the looks without a sign, so that more came and were
    /// worked off than `flow` says: nothing was left of what was there before.
    pub flow_is_least: bool,
    /// From a bounded sample of its jobs.
    pub sample: Fact<JobSample>,
}

/// Jobs in hand over several looks, a heartbeat apart or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RecentActivity {
    /// So many.
    pub looks: u32,
    /// Jobs in hand, on average: threads that the queue keeps busy.
    pub in_hand: f64,
    /// Jobs that were worked off per second, on average, as far as it was seen.
    pub per_second: f64,
}

/// What a bounded sample of a queue or set is made of. Arguments of jobs are not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobSample {
    /// Jobs that were looked at.
    pub size: u64,
    /// By job class, most first.
    pub classes: Vec<SampleShare>,
    /// By remote host, as far as jobs name one.
    pub hosts: Vec<SampleShare>,
    /// By class of error.
    pub errors: Vec<SampleShare>,
}

/// How many of a sample have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleShare {
    /// In common.
    pub name: String,
    /// So many.
    pub count: u64,
}

/// The scheduled, retry or dead set.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobSet {
    /// Jobs in it.
    pub size: u64,
    /// Jobs whose time has come and that are still in it.
    pub overdue: u64,
    /// How long ago the first of those was due.
    pub overdue_by: Duration,
    /// Between two looks some of those were taken.
    pub overdue_moves: bool,
    /// So many fewer they have become in each second between.
    pub overdue_fewer_per_second: f64,
    /// Of the dead, those that died within the last hour.
    pub died_lately: u64,
    /// Growth from two looks.
    pub flow: Fact<Flow>,
    /// From a bounded sample.
    pub sample: Fact<JobSample>,
}

impl SidekiqObservation {
    /// Processes that take jobs.
    pub fn serving(&self) -> impl Iterator<Item = &JobProcess> {
        self.processes.iter().filter(|process| process.takes_jobs())
    }

    /// Those that serve `queue` and take no jobs now: quieted, silent or gone. Started again, they do.
    pub fn absent_servers<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a JobProcess> {
        self.processes.iter().filter(move |it| !it.takes_jobs() && it.serves(queue))
    }

    /// Those of them that take jobs of `queue`.
    pub fn serving_queue<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a JobProcess> {
        self.serving().filter(move |process| process.serves(queue))
    }

    /// Whether no process takes jobs of `queue`, as far as can be said.
    #[must_use]
    pub fn nobody_serves(&self, queue: &str) -> bool {
        !self.has_more_processes && self.serving_queue(queue).next().is_none()
    }

    /// The queue of that name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&ObservedQueue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// Threads of the processes that take jobs.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.serving().map(JobProcess::concurrency).sum()
    }

    /// Jobs in hand.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.processes.iter().filter(|it| it.is_alive()).map(|process| process.busy).sum()
    }

    /// How long the oldest job of any queue has waited.
    #[must_use]
    pub fn latency_max(&self) -> Duration {
        self.queues.iter().map(|queue| queue.latency).max().unwrap_or_default()
    }

    /// All queues together; none: one of them was not looked at twice.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let flows: Option<Vec<&Flow>> =
            self.queues.iter().map(|queue| queue.flow.known()).collect();
        Flow::total(flows?)
    }

    /// Whether there is nothing of Sidekiq's at all, as far as that can be said.
    #[must_use]
    pub fn is_nowhere(&self) -> bool {
        let sets = [&self.scheduled, &self.retries, &self.dead];
        let counts = [&self.processed, &self.failed];
        self.processes.is_empty()
            && !self.has_more_processes
            && self.ghosts.is_empty()
            && self.unread.is_empty()
            && self.queues.iter().all(|queue| !queue.pushed)
            && sets.iter().all(|set| set.size == 0)
            && counts.iter().all(|count| count.known().is_none_or(|count| *count == 0))
    }

    /// Jobs that come and that are worked off per second, in all queues: by the queues where they tell,
    /// otherwise by Sidekiq's own counter. None: neither does.
    #[must_use]
    pub fn pace(&self) -> Option<(f64, f64)> {
        let flow = self.flow()?;
        let (come, served) = (flow.arrivals_per_second, flow.served_per_second());
        if self.queues.iter().all(|queue| !queue.flow_is_least) {
            return Some((come, served));
        }
        let counted = self.processed_per_second.known()?.max(served);
        Some(((counted + flow.net_per_second()).max(come), counted))
    }

    /// Jobs that wait in all queues.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.queues.iter().map(|queue| queue.length).sum()
    }
}

impl ObservedQueue {
    /// `weir sidekiq set-aside` has renamed it: it is meant to wait until nothing else is to do.
    #[must_use]
    pub fn is_set_aside(&self) -> bool {
        is_set_aside(&self.name)
    }

    /// Its flow, if that is all there was: not if more may have come and gone unseen.
    #[must_use]
    pub fn paced(&self) -> Option<&Flow> {
        self.flow.known().filter(|_| !self.flow_is_least)
    }

    /// Not one of its jobs was worked off between two looks.
    pub(crate) fn stands(&self) -> bool {
        let fewer_than_one = |flow: &Flow| {
            flow.after >= flow.before && flow.served_per_second() * flow.window.as_secs_f64() < 1.0
        };
        self.flow.known().is_none_or(fewer_than_one)
    }
}

/// Whether a queue of that name holds what was set aside.
#[must_use]
pub(crate) fn is_set_aside(name: &str) -> bool {
    name.ends_with(SET_ASIDE_SUFFIX)
}
