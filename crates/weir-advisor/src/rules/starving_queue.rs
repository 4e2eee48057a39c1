//! A queue never gets a thread because the queues before it always have jobs.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{
    Capsule, Fact, JobProcess, Observation, ObservedQueue, Ordering, SidekiqObservation, is_sidekiq,
};
use crate::queue_line::{self, Repaired};
use crate::rules::waiting_jobs;
use crate::wording;

pub(crate) const NAME: &str = "starving-queue";

/// Shorter waits are normal.
const LATENCY_MIN: Duration = Duration::from_secs(60);

/// A process and its capsule that serves a queue.
type ServingCapsule<'a> = (&'a JobProcess, &'a Capsule);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let starving = all(jobs);
    // The rule `backlog` reports that the queues wait for Redis.
    if starving.is_empty() || waiting_jobs::refused(observation).is_some() {
        return Vec::new();
    }
    let repaired = Repaired::of(observation);
    starving.iter().map(|it| found(observation, jobs, &repaired, it)).collect()
}

/// Returns the capsules that should put starving queues first, with the names of those.
pub(crate) fn to_begin_with(jobs: &SidekiqObservation) -> Vec<(&JobProcess, &Capsule, Vec<&str>)> {
    let starving = all(jobs);
    let places = starving.iter().filter_map(|it| Some((spare(jobs, &it.places)?, it.names())));
    places.map(|((process, capsule), names)| (process, capsule, names)).collect()
}

fn all(jobs: &SidekiqObservation) -> Vec<Starving<'_>> {
    let starving = jobs.queues.iter().filter_map(|queue| starving(jobs, queue));
    let mut starving = starving.collect::<Vec<_>>();
    combine(&mut starving);
    starving
}

/// One or several queues served by the same capsules, with the queues before them.
struct Starving<'a> {
    queues: Vec<&'a ObservedQueue>,
    places: Vec<ServingCapsule<'a>>,
    before: Vec<&'a str>,
}

impl<'a> Starving<'a> {
    fn names(&self) -> Vec<&'a str> {
        self.queues.iter().map(|queue| queue.name.as_str()).collect()
    }
}

/// Reports whether this rule explains why the queue waits.
pub(super) fn explains(jobs: &SidekiqObservation, queue: &ObservedQueue) -> bool {
    starving(jobs, queue).is_some()
}

/// Returns the details if the queue is late and every capsule that serves it has jobs of another
/// queue to run first.
fn starving<'a>(jobs: &'a SidekiqObservation, queue: &'a ObservedQueue) -> Option<Starving<'a>> {
    let is_meant_to = queue.paused || queue.is_set_aside();
    let is_late = queue.latency >= LATENCY_MIN && waits(queue) && queue.stands();
    // A queue with jobs in progress does get threads. Processes that take no jobs at all do not take
    // others first.
    if is_meant_to || !is_late || queue.in_hand > 0 || waiting_jobs::idle(jobs, queue).is_some() {
        return None;
    }
    let capsules = jobs.serving().flat_map(|it| it.capsules.iter().map(move |own| (it, own)));
    let places: Vec<ServingCapsule<'_>> =
        capsules.filter(|(_, it)| position(it, &queue.name).is_some()).collect();
    if places.is_empty() {
        return None;
    }
    let before: Option<Vec<&str>> =
        places.iter().map(|place| waiting_before(jobs, *place, &queue.name)).collect();
    let mut before = before?;
    before.sort_unstable();
    before.dedup();
    Some(Starving { queues: vec![queue], places, before })
}

/// Combines the queues that starve in the same capsules, so that one change covers all.
fn combine(findings: &mut Vec<Starving<'_>>) {
    let mut combined: Vec<Starving<'_>> = Vec::new();
    for finding in findings.drain(..) {
        let same = |it: &&mut Starving<'_>| {
            let identities = |it: &Starving<'_>| {
                it.places.iter().map(|(process, _)| process.identity.clone()).collect::<Vec<_>>()
            };
            identities(it) == identities(&finding)
        };
        match combined.iter_mut().find(same) {
            Some(it) => it.queues.extend(finding.queues),
            None => combined.push(finding),
        }
    }
    *findings = combined;
}

fn found(
    observation: &Observation,
    jobs: &SidekiqObservation,
    repaired: &Repaired<'_>,
    starving: &Starving<'_>,
) -> Finding {
    let (Starving { queues, places, before }, names) = (starving, starving.names());
    let words = if names.len() > 1 { "queues" } else { "queue" };
    let length: u64 = queues.iter().map(|queue| queue.length).sum();
    let latency = queues.iter().map(|queue| queue.latency).max().unwrap_or_default();
    // Sidekiq 6 does not report whether its order is strict.
    let sure = places.iter().any(|(_, it)| it.ordering == Ordering::Strict);
    // The rule `backlog` leaves long queues to this one.
    let is_long = queues.iter().any(|queue| waiting_jobs::is_long(queue));
    let (severity, if_strict) = match (sure, is_long) {
        (true, _) => (Severity::Critical, ""),
        (false, true) => (Severity::Warning, " if its order is strict"),
        (false, false) => (Severity::Notice, " if its order is strict"),
    };
    let evidence = format!(
        "{}; each process that serves it fetches from {} first{if_strict}",
        wording::jobs_wait_since(length, latency),
        wording::list(before.iter().copied())
    );
    let subject = format!("{words} {}", wording::list(names.iter().copied()));
    let finding = Finding::new(NAME, severity, subject, evidence);
    match spare(jobs, places) {
        Some((process, capsule)) => {
            let finding = finding.leads_to("It gets a thread only when those are empty.");
            repaired.line_of(finding, process, capsule)
        }
        None => {
            let threads = places.iter().map(|(_, it)| it.concurrency).max().unwrap_or_default();
            one_more(observation, finding, threads, &names)
        }
    }
}

/// Suggests an additional process with at most as many threads as the database has free
/// connections.
fn one_more(observation: &Observation, finding: Finding, threads: u32, names: &[&str]) -> Finding {
    const WHEN: &str = "It gets a thread only when those are empty. An additional process takes \
                        one database connection for each of its threads";
    let threads = match observation.free_slots().filter(|_| needs_slots(observation)) {
        Some(0) => {
            return finding.leads_to(format!(
                "{WHEN}, and the database has no slots for more: the others are in use, or are \
                 needed for other services, psql and deploys. Give a running process fewer \
                 threads first, or put the queue earlier in its list."
            ));
        }
        Some(free) => threads.min(free),
        None => threads,
    };
    queue_line::one_more(finding.leads_to(format!("{WHEN}.")), threads, names)
}

/// Reports whether an additional process of Sidekiq would bypass the pooler, if there is one.
fn needs_slots(observation: &Observation) -> bool {
    let services = observation.services.known().map(Vec::as_slice).unwrap_or_default();
    let mut sidekiqs = services.iter().filter(|service| is_sidekiq(&service.name)).peekable();
    // A pooler without sessions may be that of other services.
    observation.pooler.is_none()
        || observation.held_by_pooler() == 0
        || sidekiqs.peek().is_none()
        || sidekiqs.any(|service| observation.is_direct(service))
}

/// Returns a capsule whose first queue is also first elsewhere: its order can change without harm.
fn spare<'a>(
    jobs: &SidekiqObservation,
    places: &[ServingCapsule<'a>],
) -> Option<ServingCapsule<'a>> {
    let first = |capsule: &Capsule| capsule.queues.first().map(|it| it.name.clone());
    let is_spare = |place: &&ServingCapsule<'_>| {
        let (process, own) = place;
        let others = jobs.serving().filter(|it| it.identity != process.identity);
        others.flat_map(|it| &it.capsules).any(|it| first(it) == first(own))
    };
    (places.len() > 1).then(|| places.iter().find(is_spare).copied()).flatten()
}

fn position(capsule: &Capsule, queue: &str) -> Option<usize> {
    capsule.queues.iter().position(|served| served.name == queue)
}

/// Returns the first queue with jobs that `capsule` checks before `queue`. Returns `None` if
/// `queue` is selected at random, or if threads are idle, because the jobs before it are then being
/// taken.
fn waiting_before<'a>(
    jobs: &SidekiqObservation,
    (process, capsule): ServingCapsule<'a>,
    queue: &str,
) -> Option<&'a str> {
    if !matches!(capsule.ordering, Ordering::Strict | Ordering::Unknown) {
        return None;
    }
    let served = capsule.queues.iter().take(position(capsule, queue)?);
    let before = || served.clone().filter_map(|it| Some((it, jobs.queue(&it.name)?)));
    let ahead: u64 = before().filter(|(_, it)| !it.paused).map(|(_, it)| it.length).sum();
    if ahead.saturating_add(process.busy) < u64::from(process.concurrency()) {
        return None;
    }
    before().find(|(_, it)| !it.paused && waits(it)).map(|(served, _)| served.name.as_str())
}

/// Reports whether jobs waited in both samples. Jobs taken on arrival do not count.
fn waits(queue: &ObservedQueue) -> bool {
    let before = match &queue.flow {
        Fact::Known(flow) => flow.before,
        _ => queue.length,
    };
    queue.length > 0 && before > 0
}

#[cfg(test)]
mod tests;
