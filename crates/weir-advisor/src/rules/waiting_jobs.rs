//! Checks of waiting jobs that the rules `backlog` and `starving_queue` share.

use std::time::Duration;

use crate::observation::{JobProcess, Observation, ObservedQueue, SidekiqObservation};

/// Minimum latency of a backlog.
const LATENCY_MIN: Duration = Duration::from_secs(60);
/// Minimum number of jobs. Fewer are explained by single slow jobs.
const LENGTH_MIN: u64 = 100;
/// Latency from which it is better to run new jobs before the backlog. A younger backlog that is empty
/// within that time is only a notice.
pub(super) const OLD_MIN: Duration = Duration::from_secs(600);
/// A free thread takes a job at once. After this time, each process has sent several heartbeats.
const IDLE_MIN: Duration = Duration::from_secs(60);

/// The source of a queue's latency.
pub(super) const OLDEST_JOB: &str = "enqueued_at of its oldest job";

/// Reports whether the queue is long and late enough for a backlog.
pub(super) fn is_long(queue: &ObservedQueue) -> bool {
    queue.length >= LENGTH_MIN && queue.latency >= LATENCY_MIN
}

/// Reports whether a young backlog will be empty soon, even if it takes the `longest` time.
pub(super) fn is_over_soon(latency: Duration, left: Duration, longest: Duration) -> bool {
    latency < OLD_MIN && left.max(longest) < OLD_MIN
}

/// Returns the first process that serves the queue, if none of them takes jobs although none has a
/// job in progress. Heartbeats report the jobs in progress, so a process must have run for several
/// of them.
pub(super) fn idle<'a>(
    jobs: &'a SidekiqObservation,
    queue: &'a ObservedQueue,
) -> Option<&'a JobProcess> {
    let waited = queue.flow.known().is_some_and(|flow| flow.before > 0) && queue.stands();
    let is_none_done = jobs.processed_per_second.known().is_none_or(|rate| *rate == 0.0);
    let was_none_in_hand = queue.lately.is_none_or(|lately| lately.in_hand == 0.0);
    if !waited || !is_none_done || !was_none_in_hand || queue.latency < IDLE_MIN {
        return None;
    }
    let is_idle = |process: &JobProcess| {
        let is_young = process.running_for.is_some_and(|age| age < IDLE_MIN);
        process.busy == 0 && process.in_hand.is_empty() && !is_young
    };
    let mut serving = jobs.serving_queue(&queue.name);
    let first = serving.next().filter(|it| is_idle(it))?;
    serving.all(is_idle).then_some(first)
}

/// Returns why the Redis of the jobs rejects writes. Jobs can then be neither taken nor set aside, and
/// a process that restarts may lose those that it has in progress.
pub(super) fn refused(observation: &Observation) -> Option<&'static str> {
    observation.redis.first()?.known()?.refuses_writes_of(observation.jobs.known()?)
}
