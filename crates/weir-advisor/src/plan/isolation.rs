//! Decides which queues must not share processes with others, because their long jobs would hold every
//! thread there.
//!
//! Two signs show it: the jobs are known to be long, or the queue has a process of its own now and
//! nothing shows that its jobs are quick. The second is kept because an operator has probably chosen it.

use std::time::Duration;

use crate::observation::{Capsule, JobInHand, JobProcess, SidekiqObservation, is_set_aside};
use crate::wording::list;

use super::claim::{Claim, ClaimOutcome, Proof};
use super::layout::ProcessLayout;
use super::{DemandSource, PlanInput, QueueDemand};

/// Jobs of at least this duration, in seconds, are long: a quick job that finds every thread taken by
/// them waits for a minute or more.
const LONG_SECONDS: f64 = 60.0;
/// A heartbeat has the start of each job in whole seconds.
const START_PRECISION: Duration = Duration::from_secs(1);

/// Notes how long the oldest jobs in progress have been running, unless something delays jobs, and
/// which queues have processes of their own.
pub(super) fn note(queues: &mut [QueueDemand], jobs: &SidekiqObservation, is_held_up: bool) {
    for queue in queues.iter_mut() {
        queue.has_own_process = has_own_process(jobs, &queue.name);
        if !is_held_up {
            queue.oldest_seconds = oldest_seconds(jobs, &queue.name);
        }
        if queue.known == DemandSource::Busy && queue.oldest_seconds > queue.service_seconds {
            // The number of busy threads is what was measured.
            let busy = queue.arrivals_per_second * queue.service_seconds;
            queue.service_seconds = queue.oldest_seconds;
            queue.arrivals_per_second = busy / queue.service_seconds;
        }
    }
}

/// Reports whether the processes of the queue must serve no other queue.
pub(super) fn is_isolated(queue: &QueueDemand) -> bool {
    has_long_jobs(queue) || queue.has_own_process && !queue.known.knows_seconds()
}

/// Reports whether its jobs are long, by their mean duration or by the job that has been running longest.
fn has_long_jobs(queue: &QueueDemand) -> bool {
    queue.service_seconds >= LONG_SECONDS || queue.oldest_seconds >= LONG_SECONDS
}

/// Checks that no process of another queue serves an isolated one. Returns `None` if there is none.
pub(super) fn proof(wanted: &PlanInput, layout: &ProcessLayout) -> Option<Proof> {
    let queues = wanted.queues.iter().filter(|it| is_isolated(it) && !is_set_aside(&it.name));
    let (mut kept, mut broken) = (Vec::new(), Vec::new());
    for queue in queues {
        let is_other = |name: &String| *name != queue.name && !is_set_aside(name);
        let mut serving = layout.workers.iter().filter(|it| it.serves(&queue.name));
        match serving.find(|worker| worker.queues.iter().any(is_other)) {
            Some(worker) => broken.push(format!("{} also serves {}", worker.name, queue.name)),
            None => kept.push(queue.name.as_str()),
        }
    }
    if !broken.is_empty() {
        let figures = broken.join("; ");
        return Some(Proof { claim: Claim::LongJobsApart, outcome: ClaimOutcome::Broken, figures });
    }
    let have = if kept.len() == 1 { "has" } else { "have" };
    let figures = format!("{} {have} processes without other queues", list(kept.iter().copied()));
    let outcome = ClaimOutcome::Holds;
    (!kept.is_empty()).then_some(Proof { claim: Claim::LongJobsApart, outcome, figures })
}

/// Reports whether the threads that serve `queue` serve no other. Processes that have ended count only if
/// no other serves it.
fn has_own_process(jobs: &SidekiqObservation, queue: &str) -> bool {
    let serving: Vec<_> = jobs.processes.iter().filter(|it| it.serves(queue)).collect();
    let is_one_alive = serving.iter().any(|it| it.is_alive());
    let present = serving.into_iter().filter(|it| it.is_alive() || !is_one_alive);
    let mut capsules =
        present.flat_map(|it| &it.capsules).filter(|it| it.position(queue).is_some());
    let is_alone = |it: &Capsule| {
        it.queues.iter().all(|served| served.name == queue || is_set_aside(&served.name))
    };
    capsules.next().is_some_and(is_alone) && capsules.all(is_alone)
}

/// Returns how long the oldest job of the queue had been running, at least, when its process listed it.
/// It may have ended just after that heartbeat.
fn oldest_seconds(jobs: &SidekiqObservation, queue: &str) -> f64 {
    let alive = jobs.processes.iter().filter(|it: &&JobProcess| it.is_alive());
    let ages = |process: &JobProcess| {
        let own = process.in_hand.iter().filter(|job| job.queue == queue);
        let later = process.beat_age + START_PRECISION;
        let age = |job: &JobInHand| job.age.saturating_sub(later).as_secs_f64();
        own.map(age).fold(0.0, f64::max)
    };
    alive.map(ages).fold(0.0, f64::max)
}
