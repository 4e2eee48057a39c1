//! Estimates the load of a queue from samples.
//!
//! Based on Little's law: jobs in progress = completion rate x seconds of a thread per job.

use serde::Serialize;
use weir_base::hint;

use crate::flow::{Drain, Flow};
use crate::observation::{ObservedQueue, RecentActivity, SidekiqObservation};

use super::{DemandSource, QueueDemand, cpu, current_threads, importance, isolation};

/// Assumed job duration when none was observed: half of a delivery over the network.
const SERVICE_SECONDS: f64 = 0.2;
/// Lower rates are too imprecise, because a single job more or less changes them.
const SERVED_MIN: f64 = 0.2;
/// Minimum number of jobs that each busy thread has completed between two samples. With fewer, the quotient
/// may be many times too high or too low.
const COMPLETED_MIN: f64 = 2.0;
/// Jobs that run longer were delayed, for example by a debugger or a database.
const SERVICE_SECONDS_MAX: f64 = 600.0;

/// Minimum number of samples whose average is the load, or that limit it if none found a job in progress.
const LOOKS_MIN: u32 = 10;
/// If a queue keeps this many threads busy, summed over all samples, 1 in 20 series of samples
/// finds no job in progress (-ln 0.05).
const MISSED: f64 = 3.0;

/// Estimates the load from two samples of a queue. A backlog shows all arrivals; an empty queue
/// shows few arrivals, but its jobs in progress. If none is in progress now, the average over
/// earlier samples is used.
#[must_use]
pub fn demand(queue: &ObservedQueue) -> QueueDemand {
    let flow = queue.flow.known();
    let mut served = flow.map_or(0.0, |flow| served_per_second(flow, queue.in_hand));
    let arrivals = flow.map_or(0.0, |flow| flow.arrivals_per_second);
    let (mut in_hand, mut is_most) = (queue.in_hand as f64, false);
    if served == 0.0 && queue.paced().is_some() && arrivals > 0.0 {
        // The rate is known, and the busy threads are too few for it.
        in_hand = 0.0;
    }
    if let Some(lately) = queue.lately.as_ref().filter(|_| queue.in_hand == 0) {
        served = served.max(lately.per_second);
        (in_hand, is_most) = on_average(lately, served.max(arrivals));
    }
    let service_seconds = if served >= SERVED_MIN && in_hand > 0.0 {
        (in_hand / served).min(SERVICE_SECONDS_MAX)
    } else {
        SERVICE_SECONDS
    };
    let arrivals_per_second = arrivals.max(in_hand / service_seconds);
    let known = if served >= SERVED_MIN && in_hand > 0.0 {
        if is_most { DemandSource::AtMost } else { DemandSource::All }
    } else if arrivals_per_second > arrivals {
        DemandSource::Busy
    } else if arrivals > 0.0 || served >= SERVED_MIN {
        DemandSource::Comes
    } else {
        DemandSource::Nothing
    };
    let said = QueueDemand::said(queue.name.clone(), arrivals_per_second, service_seconds);
    let samples = queue.lately.map_or(1, |lately| lately.looks.max(1));
    let grows = flow.is_some_and(|flow| flow.drain() == Drain::Grows);
    QueueDemand { known, samples, grows, ..said }
}

/// Returns the completion rate, or 0 if each busy thread completed too few jobs in the window: how many of
/// them ended in it then depends on when they began.
fn served_per_second(flow: &Flow, in_hand: u64) -> f64 {
    let served = flow.served_per_second();
    let completed = (served * flow.window.as_secs_f64()).round();
    if completed < COMPLETED_MIN * in_hand as f64 { 0.0 } else { served }
}

/// Returns the average number of jobs in progress, and whether it is an upper limit. The number is
/// 0 if there are too few samples or no arrivals.
fn on_average(lately: &RecentActivity, rate: f64) -> (f64, bool) {
    match lately.in_hand > 0.0 {
        true => (lately.in_hand, false),
        false if lately.looks >= LOOKS_MIN && rate > 0.0 => {
            (MISSED / f64::from(lately.looks), true)
        }
        false => (0.0, false),
    }
}

/// The queues to plan for, and the names that were left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Demands {
    /// Queues by load, highest first.
    pub queues: Vec<QueueDemand>,
    /// Configured or known names that get no process.
    pub left_out: Vec<LeftOut>,
}

/// A name that is no longer a queue, or never was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The name.
    pub name: String,
    /// Why it gets no process.
    pub why: String,
}

/// Returns the load of all queues that have jobs, that a running process serves, or that the
/// application is known to push to.
///
/// Sidekiq never forgets a name that jobs were pushed to. Empty queues without a process are
/// therefore left out, and so are misspelt names that are served but not pushed to.
#[must_use]
pub fn demands(jobs: &SidekiqObservation, pushes: &[String]) -> Demands {
    demands_of(jobs, pushes, false)
}

/// Does the same while something holds jobs up ([`held_up`](super::held_up)): present durations
/// then say nothing about the threads needed.
#[must_use]
pub fn demands_held_up(jobs: &SidekiqObservation, pushes: &[String]) -> Demands {
    demands_of(jobs, pushes, true)
}

fn demands_of(jobs: &SidekiqObservation, pushes: &[String], is_held_up: bool) -> Demands {
    let mut demands = Demands::default();
    // Most jobs fail: their durations, and the rate of their retries, are not the application's.
    let is_held_up = is_held_up || jobs.most_fail();
    for queue in &jobs.queues {
        match why_not(jobs, pushes, queue) {
            // Nothing delays jobs that no process takes.
            None if is_held_up && !jobs.nobody_serves(&queue.name) => {
                demands.queues.push(demand_held_up(jobs, queue))
            }
            None => demands.queues.push(demand(queue)),
            Some(why) => demands.left_out.push(LeftOut { name: queue.name.clone(), why }),
        }
    }
    for name in pushes {
        if !demands.queues.iter().any(|queue| queue.name == *name) {
            demands.queues.push(QueueDemand::unseen(name));
        }
    }
    for queue in &mut demands.queues {
        queue.is_unserved = jobs.nobody_serves(&queue.name);
    }
    current_threads::keep(&mut demands.queues, jobs);
    isolation::note(&mut demands.queues, jobs, is_held_up);
    let ranks = importance::ranks(jobs);
    for queue in &mut demands.queues {
        queue.cpu_seconds = cpu::seconds_per_job(jobs, &queue.name);
        queue.importance = ranks.get(queue.name.as_str()).copied().unwrap_or(u32::MAX);
    }
    let need = |queue: &QueueDemand| queue.arrivals_per_second * queue.service_seconds;
    demands.queues.sort_by(|one, other| need(other).total_cmp(&need(one)));
    demands
}

/// Returns the load without durations, and without rates derived from them, because the delay
/// distorts both.
fn demand_held_up(jobs: &SidekiqObservation, queue: &ObservedQueue) -> QueueDemand {
    let seen = demand(queue);
    let arrivals = || queue.flow.known().map_or(0.0, |flow| flow.arrivals_per_second);
    let arrivals_per_second = match seen.known {
        DemandSource::Nothing => return seen,
        _ if jobs.most_fail() => queue.pushed_per_second().unwrap_or_default(),
        DemandSource::Busy => arrivals(),
        _ => seen.arrivals_per_second,
    };
    QueueDemand {
        arrivals_per_second,
        service_seconds: SERVICE_SECONDS,
        known: DemandSource::HeldUp,
        ..seen
    }
}

impl QueueDemand {
    /// Returns assumed figures for a queue that the application pushes to but that was never
    /// observed.
    #[must_use]
    pub fn unseen(name: &str) -> Self {
        Self { known: DemandSource::Nothing, ..Self::said(name.to_owned(), 0.0, SERVICE_SECONDS) }
    }

    /// Returns configured figures of a queue.
    #[must_use]
    pub const fn said(name: String, arrivals_per_second: f64, service_seconds: f64) -> Self {
        Self {
            name,
            arrivals_per_second,
            service_seconds,
            cpu_seconds: None,
            target_seconds: None,
            known: DemandSource::All,
            threads_now: 0,
            importance: 0,
            samples: 0,
            oldest_seconds: 0.0,
            is_unserved: false,
            grows: false,
            has_own_process: false,
        }
    }

    /// Reports whether the number of threads that it keeps busy was configured or measured. A few samples
    /// of jobs in progress are no measurement: they show moments, such as that of a burst.
    #[must_use]
    pub fn knows_load(&self) -> bool {
        let is_enough = self.known != DemandSource::Busy || self.samples >= LOOKS_MIN;
        self.known.knows_load() && is_enough
    }

    /// Reports whether the arrival rate was configured or measured.
    #[must_use]
    pub fn knows_rate(&self) -> bool {
        self.known.knows_rate()
            && (self.known != DemandSource::HeldUp || self.arrivals_per_second > 0.0)
    }
}

/// Returns why `queue` gets no process, or `None` if it is to be planned for.
fn why_not(jobs: &SidekiqObservation, pushes: &[String], queue: &ObservedQueue) -> Option<String> {
    if has_jobs(queue) || pushes.contains(&queue.name) {
        return None;
    }
    // A quiet process is about to restart, and will serve its queues again.
    let is_served = jobs.processes.iter().any(|process| process.serves(&queue.name));
    if is_served {
        return meant(jobs, pushes, queue).map(|meant| {
            format!(
                "it is served, but nothing pushes to it: assumed to be a misspelling of \
                     {meant:?}"
            )
        });
    }
    // Only if all running processes are known can a name be ruled out.
    let everybody_was_asked = !jobs.processes.is_empty() && !jobs.has_more_processes;
    everybody_was_asked.then(|| {
        "it is empty and no process serves it; `--pushes` names queues that the application still pushes to"
            .to_owned()
    })
}

fn has_jobs(queue: &ObservedQueue) -> bool {
    let came = || queue.flow.known().is_some_and(|flow| flow.arrivals_per_second > 0.0);
    queue.length > 0 || queue.in_hand > 0 || came()
}

/// Returns the unserved queue whose name `served` probably misspells; jobs were never pushed to
/// `served`.
fn meant<'a>(
    jobs: &'a SidekiqObservation,
    pushes: &'a [String],
    served: &ObservedQueue,
) -> Option<&'a str> {
    if served.pushed {
        return None;
    }
    let of_jobs = jobs.queues.iter().filter(|it| has_jobs(it)).map(|it| it.name.as_str());
    let names = of_jobs.chain(pushes.iter().map(String::as_str));
    let is_free = |name: &&str| !jobs.processes.iter().any(|process| process.serves(name));
    hint::closest(&served.name, names.filter(is_free))
}

#[cfg(test)]
mod tests;
