//! What a queue needs, as it was seen to need.
//!
//! Source: Little's law. Jobs in hand are their rate times the seconds of a thread that each takes.

use serde::Serialize;
use weir_base::hint;

use crate::observation::{ObservedQueue, RecentActivity, SidekiqObservation};

use super::{DemandSource, QueueDemand, current_threads, importance};

/// Seconds of a job where nobody has seen one end: half of what a delivery over the net takes.
const SERVICE_SECONDS: f64 = 0.2;
/// Below, one job more or less makes the difference.
const SERVED_MIN: f64 = 0.2;
/// A longer job was held up, by a debugger or a database.
const SERVICE_SECONDS_MAX: f64 = 600.0;

/// Looks in which none of a queue's jobs was in hand say how few they are.
const LOOKS_MIN: u32 = 10;
/// Of a queue that keeps so many threads busy, in all looks together, one series in twenty meets none of its
/// jobs (-ln 0.05).
const MISSED: f64 = 3.0;

/// Of two looks at a queue. One that is always empty shows few of its arrivals, but its jobs in hand;
/// one with a backlog shows all that come. Where none is in hand just now, the looks before tell how many are
/// on average.
#[must_use]
pub fn demand(queue: &ObservedQueue) -> QueueDemand {
    let flow = queue.flow.known();
    let mut served = flow.map_or(0.0, |flow| flow.served_per_second());
    let arrivals = flow.map_or(0.0, |flow| flow.arrivals_per_second);
    let (mut in_hand, mut is_most) = (queue.in_hand as f64, false);
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
    QueueDemand { known, ..said }
}

/// Jobs in hand on average, and whether they may be fewer. None, if there are too few looks to tell, or if
/// nothing came.
fn on_average(lately: &RecentActivity, rate: f64) -> (f64, bool) {
    match lately.in_hand > 0.0 {
        true => (lately.in_hand, false),
        false if lately.looks >= LOOKS_MIN && rate > 0.0 => {
            (MISSED / f64::from(lately.looks), true)
        }
        false => (0.0, false),
    }
}

/// What is to be planned for, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Demands {
    /// Those with most to do first.
    pub queues: Vec<QueueDemand>,
    /// Names that stand somewhere and get no process.
    pub left_out: Vec<LeftOut>,
}

/// A name that is no queue any more, or never was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The name.
    pub name: String,
    /// Why it gets no process.
    pub why: String,
}

/// Of all queues that have jobs, that a live process serves or that the application is known to push to.
///
/// Sidekiq never forgets a name that was pushed to once: one that is empty and that nobody serves is left
/// out, as is one that is only served, and misspelt.
#[must_use]
pub fn demands(jobs: &SidekiqObservation, pushes: &[String]) -> Demands {
    demands_of(jobs, pushes, false)
}

/// The same, where something holds jobs up ([`held_up`](super::held_up)): how long they take now tells nothing
/// of how many threads they need.
#[must_use]
pub fn demands_held_up(jobs: &SidekiqObservation, pushes: &[String]) -> Demands {
    demands_of(jobs, pushes, true)
}

fn demands_of(jobs: &SidekiqObservation, pushes: &[String], is_held_up: bool) -> Demands {
    let mut demands = Demands::default();
    for queue in &jobs.queues {
        match why_not(jobs, pushes, queue) {
            None if is_held_up => demands.queues.push(demand_held_up(queue)),
            None => demands.queues.push(demand(queue)),
            Some(why) => demands.left_out.push(LeftOut { name: queue.name.clone(), why }),
        }
    }
    for name in pushes {
        if !demands.queues.iter().any(|queue| queue.name == *name) {
            demands.queues.push(QueueDemand::unseen(name));
        }
    }
    current_threads::keep(&mut demands.queues, jobs);
    let ranks = importance::ranks(jobs);
    for queue in &mut demands.queues {
        queue.importance = ranks.get(queue.name.as_str()).copied().unwrap_or(u32::MAX);
    }
    let need = |queue: &QueueDemand| queue.arrivals_per_second * queue.service_seconds;
    demands.queues.sort_by(|one, other| need(other).total_cmp(&need(one)));
    demands
}

/// Its time was that of whatever holds it up, and so is a rate that rests on it.
fn demand_held_up(queue: &ObservedQueue) -> QueueDemand {
    let seen = demand(queue);
    let arrivals_per_second = match seen.known {
        DemandSource::Nothing => return seen,
        DemandSource::Busy => queue.flow.known().map_or(0.0, |flow| flow.arrivals_per_second),
        _ => seen.arrivals_per_second,
    };
    let said = QueueDemand::said(seen.name, arrivals_per_second, SERVICE_SECONDS);
    QueueDemand { known: DemandSource::HeldUp, ..said }
}

impl QueueDemand {
    /// Of a queue that the application pushes to and that nobody has seen yet.
    #[must_use]
    pub fn unseen(name: &str) -> Self {
        Self { known: DemandSource::Nothing, ..Self::said(name.to_owned(), 0.0, SERVICE_SECONDS) }
    }

    /// Of a queue whose figures somebody knows.
    #[must_use]
    pub const fn said(name: String, arrivals_per_second: f64, service_seconds: f64) -> Self {
        Self {
            name,
            arrivals_per_second,
            service_seconds,
            target_seconds: None,
            known: DemandSource::All,
            threads_now: 0,
            importance: 0,
        }
    }

    /// Whether somebody has said or seen what comes.
    #[must_use]
    pub fn knows_rate(&self) -> bool {
        self.known.knows_rate()
            && (self.known != DemandSource::HeldUp || self.arrivals_per_second > 0.0)
    }
}

/// None: it is one to plan for.
fn why_not(jobs: &SidekiqObservation, pushes: &[String], queue: &ObservedQueue) -> Option<String> {
    if has_jobs(queue) || pushes.contains(&queue.name) {
        return None;
    }
    // One that is quiet, for it is about to end, serves again in its next life.
    let is_served = jobs.processes.iter().any(|process| process.serves(&queue.name));
    if is_served {
        return meant(jobs, pushes, queue).map(|meant| {
            format!(
                "it is served, but nothing pushes to it: assumed to be a misspelling of \
                     {meant:?}"
            )
        });
    }
    // While no process is there to be asked, a name may be that of any of their queues.
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

/// The queue to plan for that nobody serves and whose name is nearly that of `served`, which nobody has
/// pushed to.
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
