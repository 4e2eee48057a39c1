//! Sidekiq's queues, processes and sets.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{
    ClassHistory, DayCounts, Fact, FailingClass, JobProcess, Missing, PastSample, PayloadSize,
};
use crate::flow::Flow;

/// Suffix that `weir sidekiq set-aside` appends to the name of a queue.
pub(crate) const SET_ASIDE_SUFFIX: &str = "_backlog";

/// The error of a thread that found no free connection in the pool of its process.
pub(crate) const POOL_TIMEOUT: &str = "ActiveRecord::ConnectionTimeoutError";

/// Unreachable remote servers explain a smaller share of failures, but not half of all jobs.
const FAILING_SHARE_MIN: f64 = 0.5;
/// Fewer failures may be retries of a single job.
const FAILING_JOBS_MIN: f64 = 20.0;

/// State of one Sidekiq, from its Redis.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SidekiqObservation {
    /// Every queue that has ever been pushed to or that a process serves.
    pub queues: Vec<ObservedQueue>,
    /// Processes with a heartbeat.
    pub processes: Vec<JobProcess>,
    /// Some processes were not read (`processes_max`). They may serve further queues.
    pub has_more_processes: bool,
    /// Identities in the process list that have no heartbeat.
    pub ghosts: Vec<String>,
    /// Ghosts that still run on this machine: their heartbeats do not reach this Redis.
    pub running_ghosts: Vec<String>,
    /// Process IDs of Sidekiqs on this machine that have a connection to this Redis and that the
    /// list does not name: they hang, for example.
    pub unlisted: Vec<u32>,
    /// Jobs scheduled for a later time.
    pub scheduled: JobSet,
    /// Failed jobs that will be retried.
    pub retries: JobSet,
    /// Failed jobs that will not be retried.
    pub dead: JobSet,
    /// Total jobs finished, including failed ones.
    pub processed: Fact<u64>,
    /// Total jobs failed.
    pub failed: Fact<u64>,
    /// Jobs finished per second between two samples.
    pub processed_per_second: Fact<f64>,
    /// Share of those that failed. Unknown if none finished.
    pub failed_share: Fact<f64>,
    /// Jobs by day, today first.
    pub days: Fact<Vec<DayCounts>>,
    /// Runs by class. Not asked where no process has version 7 or later, which count them.
    pub classes: Fact<ClassHistory>,
    /// What earlier samples of a repeated observation have shown, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastSample>,
    /// Parts that could not be read and are missing from the other fields.
    pub unread: Vec<Missing>,
}

/// One queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ObservedQueue {
    /// Its name.
    pub name: String,
    /// Whether jobs have ever been pushed to it. If not, only a process names it.
    pub pushed: bool,
    /// Time until Redis deletes it, if its key has an expiry.
    pub expires_in: Option<Duration>,
    /// Whether the set of queues does not name it: its client has not added it.
    pub unlisted: bool,
    /// Jobs that are waiting.
    pub length: u64,
    /// Jobs of this queue that are in progress.
    pub in_hand: u64,
    /// Averages over the samples of the last minutes, or `None` after a single sample.
    pub lately: Option<RecentActivity>,
    /// Age of the oldest job.
    pub latency: Duration,
    /// Paused (Sidekiq Pro).
    pub paused: bool,
    /// Change between two samples.
    pub flow: Fact<Flow>,
    /// `flow` is a lower limit: none of the earlier jobs was left, so further jobs may have arrived
    /// and been completed between the samples unnoticed.
    pub flow_is_least: bool,
    /// Composition of a bounded sample of its jobs.
    pub sample: Fact<JobSample>,
}

/// Averages over several samples, at least one heartbeat apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RecentActivity {
    /// Number of samples.
    pub looks: u32,
    /// Average number of jobs in progress, which is the number of threads that the queue occupies.
    pub in_hand: f64,
    /// Average completion rate, as far as observed.
    pub per_second: f64,
}

/// Composition of a bounded sample of a queue or a set. Job arguments are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobSample {
    /// Jobs in the sample.
    pub size: u64,
    /// By job class, most frequent first.
    pub classes: Vec<SampleShare>,
    /// By remote host, for jobs that name one.
    pub hosts: Vec<SampleShare>,
    /// By error class.
    pub errors: Vec<SampleShare>,
    /// By error class: the most frequent message of its errors, on one short line without passwords.
    /// Of sets only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub error_messages: BTreeMap<String, String>,
    /// Of sets only: failed jobs by class and error, most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailingClass>,
    /// Sizes by class, largest total first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<PayloadSize>,
}

/// The number of jobs in a sample that share a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SampleShare {
    /// The shared property.
    pub name: String,
    /// Number of jobs.
    pub count: u64,
}

/// The scheduled, retry or dead set.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobSet {
    /// Jobs in it.
    pub size: u64,
    /// Jobs that are due and still in the set.
    pub overdue: u64,
    /// How long the first of those has been due.
    pub overdue_by: Duration,
    /// Some overdue jobs were taken between two samples.
    pub overdue_moves: bool,
    /// Decrease of overdue jobs per second between the samples.
    pub overdue_fewer_per_second: f64,
    /// In the dead set: jobs that died within the last hour.
    pub died_lately: u64,
    /// In the scheduled set: jobs that are due in more than ten years.
    #[serde(skip_serializing_if = "FarAhead::is_empty")]
    pub far_ahead: FarAhead,
    /// Change between two samples.
    pub flow: Fact<Flow>,
    /// Composition of a bounded sample.
    pub sample: Fact<JobSample>,
}

/// Jobs that are scheduled for a time in more than ten years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FarAhead {
    /// Their number.
    pub jobs: u64,
    /// Those whose time is within ten years of now if it is read as milliseconds.
    pub as_millis: u64,
    /// In ten years, in seconds since 1970.
    pub after_unix_seconds: u64,
}

impl FarAhead {
    /// Reports whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.jobs == 0
    }
}

impl SidekiqObservation {
    /// Returns the processes that accept jobs.
    pub fn serving(&self) -> impl Iterator<Item = &JobProcess> {
        self.processes.iter().filter(|process| process.takes_jobs())
    }

    /// Returns the processes that serve `queue` but accept no jobs now (quiet, silent or gone).
    /// After a restart they would.
    pub fn absent_servers<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a JobProcess> {
        self.processes.iter().filter(move |it| !it.takes_jobs() && it.serves(queue))
    }

    /// Returns the processes that accept jobs from `queue`.
    pub fn serving_queue<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a JobProcess> {
        self.serving().filter(move |process| process.serves(queue))
    }

    /// Reports whether no process accepts jobs from `queue`. False if some processes were not read. The list of blocked
    /// jobs that Weir keeps beside a queue, such as `default.blocked.payments`, is served with the queue.
    #[must_use]
    pub fn nobody_serves(&self, queue: &str) -> bool {
        let queue = queue.rsplit_once(".blocked.").map_or(queue, |(queue, _)| queue);
        !self.has_more_processes && self.serving_queue(queue).next().is_none()
    }

    /// Returns the queue of that name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&ObservedQueue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// Returns the number of threads of the processes that accept jobs.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.serving().map(JobProcess::concurrency).sum()
    }

    /// Returns the number of jobs in progress.
    #[must_use]
    pub fn busy(&self) -> u64 {
        self.processes.iter().filter(|it| it.is_alive()).map(|process| process.busy).sum()
    }

    /// Returns the highest latency of all queues.
    #[must_use]
    pub fn latency_max(&self) -> Duration {
        self.queues.iter().map(|queue| queue.latency).max().unwrap_or_default()
    }

    /// Returns the flow over all queues, or `None` if a queue was not sampled twice.
    #[must_use]
    pub fn flow(&self) -> Option<Flow> {
        let flows: Option<Vec<&Flow>> =
            self.queues.iter().map(|queue| queue.flow.known()).collect();
        Flow::total(flows?)
    }

    /// Reports whether the Redis contains nothing of Sidekiq, as far as known.
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

    /// Returns the arrival and completion rates over all queues, the latter without failed jobs. Uses
    /// the queues' flows if they are exact, otherwise Sidekiq's counter. `None` if neither is
    /// available.
    #[must_use]
    pub fn pace(&self) -> Option<(f64, f64)> {
        let flow = self.flow()?;
        let (come, served) = (flow.arrivals_per_second, flow.served_per_second());
        if self.queues.iter().all(|queue| !queue.flow_is_least) {
            return Some((come, served * self.completed_share()));
        }
        let counted = self.processed_per_second.known()?.max(served);
        let completed = counted * self.completed_share();
        Some(((counted + flow.net_per_second()).max(come), completed))
    }

    /// Returns the share of jobs that failed between the samples, if most did and enough jobs
    /// finished to tell.
    pub(crate) fn failing_share(&self) -> Option<f64> {
        let share = *self.failed_share.known()?;
        let window = self.retries.flow.known()?.window;
        let finished = self.processed_per_second.known()? * window.as_secs_f64();
        (share >= FAILING_SHARE_MIN && finished >= FAILING_JOBS_MIN).then_some(share)
    }

    /// Reports whether most jobs fail. They leave their queue and return to it as retries, so its
    /// rates say neither when it will be empty nor what the application pushes.
    #[must_use]
    pub fn most_fail(&self) -> bool {
        self.failing_share().is_some()
    }

    /// Returns the rate at which jobs of a queue complete without an error. Sidekiq counts failures
    /// for all queues together, so each queue gets the same share of them.
    #[must_use]
    pub fn completed_per_second(&self, flow: &Flow) -> f64 {
        flow.served_per_second() * self.completed_share()
    }

    /// Returns the share of finished jobs that did not fail. Sidekiq counts a failed job as
    /// processed, too.
    #[must_use]
    pub fn completed_share(&self) -> f64 {
        1.0 - self.failed_share.known().copied().unwrap_or_default()
    }

    /// Reports whether the most common error of the retry set is that of a pool with too few connections
    /// ([`POOL_TIMEOUT`]). The pools are then smaller than the threads that use them, whatever was
    /// configured.
    #[must_use]
    pub fn lacks_pool_connections(&self) -> bool {
        let sample = self.retries.sample.known().filter(|_| self.retries.size > 0);
        sample.and_then(JobSample::most_common_error) == Some(POOL_TIMEOUT)
    }

    /// Reports whether clients wrote to the Redis between the samples: jobs were completed, pushed or
    /// taken.
    pub(crate) fn shows_writes(&self) -> bool {
        let moves = |queue: &ObservedQueue| {
            queue.flow.known().is_some_and(|flow| flow.before != flow.after)
        };
        self.processed_per_second.known().is_some_and(|rate| *rate > 0.0)
            || self.queues.iter().any(moves)
    }

    /// Returns the number of waiting jobs in all queues.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.queues.iter().map(|queue| queue.length).sum()
    }
}

impl JobSample {
    /// Returns the class of the most common error.
    #[must_use]
    pub fn most_common_error(&self) -> Option<&str> {
        self.errors.iter().max_by_key(|share| share.count).map(|share| share.name.as_str())
    }
}

impl ObservedQueue {
    /// Reports whether `weir sidekiq set-aside` renamed it. Such a queue waits until the other
    /// queues are empty.
    #[must_use]
    pub fn is_set_aside(&self) -> bool {
        is_set_aside(&self.name)
    }

    /// Returns its flow if that is exact rather than a lower limit.
    #[must_use]
    pub fn paced(&self) -> Option<&Flow> {
        self.flow.known().filter(|_| !self.flow_is_least)
    }

    /// Returns the arrival rate of jobs that are no retries, by the share of sampled jobs that have
    /// not failed before. `None` if that is unknown.
    pub(crate) fn pushed_per_second(&self) -> Option<f64> {
        let (flow, sample) = (self.flow.known()?, self.sample.known()?);
        let failed: u64 = sample.errors.iter().map(|error| error.count).sum();
        let retried = failed as f64 / sample.size.max(1) as f64;
        Some(flow.arrivals_per_second * (1.0 - retried).max(0.0))
    }

    /// Reports whether none of its jobs was completed between two samples.
    pub(crate) fn stands(&self) -> bool {
        let fewer_than_one = |flow: &Flow| {
            flow.after >= flow.before && flow.served_per_second() * flow.window.as_secs_f64() < 1.0
        };
        self.flow.known().is_none_or(fewer_than_one)
    }
}

/// Reports whether `name` is that of a queue that was set aside.
#[must_use]
pub(crate) fn is_set_aside(name: &str) -> bool {
    name.ends_with(SET_ASIDE_SUFFIX)
}
