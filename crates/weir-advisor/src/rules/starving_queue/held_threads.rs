//! Long jobs of other queues hold every thread that serves a queue. Heartbeats report the jobs in
//! progress with their start, so that this shows in any window.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::observation::{Capsule, JobInHand, JobProcess, Ordering, SidekiqObservation};

/// A process and its capsule that serves a queue.
pub(super) type ServingCapsule<'a> = (&'a JobProcess, &'a Capsule);

/// Shorter jobs, on average so far, release a thread soon.
const AGE_MIN: Duration = Duration::from_secs(10);
/// If every thread has had its job for this long, the rule `stuck_threads` reports the processes.
const STUCK_MIN: Duration = Duration::from_secs(600);

/// The threads that serve a queue, and what holds them.
pub(super) struct HeldThreads<'a> {
    /// The queues that the jobs in progress are of, most jobs first.
    pub(super) queues: Vec<&'a str>,
    /// Number of threads.
    pub(super) threads: usize,
    /// How long the oldest of the jobs has been running.
    pub(super) oldest: Duration,
    /// Each capsule prefers the waiting queue to those.
    pub(super) is_preferred: bool,
}

/// Returns what holds the threads of `places`, which are all that serve `queue`. Returns `None` if one
/// is free, runs a job of the queue, or runs a job of an unknown one.
pub(super) fn held<'a>(
    jobs: &SidekiqObservation,
    places: &[ServingCapsule<'a>],
    queue: &str,
) -> Option<HeldThreads<'a>> {
    // Which capsule of several runs a job is not known.
    let is_full = |(process, _): &ServingCapsule<'_>| {
        let threads = process.concurrency();
        process.capsules.len() == 1
            && threads > 0
            && process.in_hand.len() as u64 >= u64::from(threads)
            && process.in_hand.iter().all(|job| !job.queue.is_empty() && job.queue != queue)
    };
    let is_stuck =
        |(process, _): &ServingCapsule<'_>| process.all_have_had_their_job_for(STUCK_MIN);
    let is_held = !places.is_empty() && !jobs.has_more_processes && places.iter().all(is_full);
    if !is_held || places.iter().all(is_stuck) || mean_age(places) < AGE_MIN {
        return None;
    }
    let in_hand = || places.iter().flat_map(|(process, _)| &process.in_hand);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for job in in_hand() {
        *counts.entry(&job.queue).or_default() += 1;
    }
    let mut queues: Vec<_> = counts.into_iter().collect();
    queues.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(HeldThreads {
        queues: queues.into_iter().map(|(name, _)| name).collect(),
        threads: in_hand().count(),
        oldest: in_hand().map(|job| job.age).max().unwrap_or_default(),
        is_preferred: places
            .iter()
            .all(|(process, capsule)| prefers(capsule, queue, &process.in_hand)),
    })
}

/// Returns the mean age of the jobs in progress at the last heartbeat. Short ones may have ended since.
fn mean_age(places: &[ServingCapsule<'_>]) -> Duration {
    let ages = places.iter().flat_map(|(process, _)| {
        process.in_hand.iter().map(|job| job.age.saturating_sub(process.beat_age))
    });
    let (sum, count) = ages.fold((Duration::ZERO, 0_u32), |(sum, count), age| {
        (sum.saturating_add(age), count.saturating_add(1))
    });
    sum.checked_div(count).unwrap_or_default()
}

/// Reports whether a capsule fetches from `queue` before, or at least as often as, from the queues of
/// `running`.
fn prefers(capsule: &Capsule, queue: &str, running: &[JobInHand]) -> bool {
    let place = |name: &str| capsule.position(name);
    let weight = |at: Option<usize>| at.map_or(0, |at| capsule.queues[at].weight);
    let own = place(queue);
    running.iter().map(|job| place(&job.queue)).all(|other| match capsule.ordering {
        Ordering::Weighted => weight(own) >= weight(other),
        Ordering::Strict | Ordering::Unknown => other.is_none_or(|other| own < Some(other)),
        Ordering::Random => false,
    })
}
