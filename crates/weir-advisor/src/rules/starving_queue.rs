//! A queue gets no thread because the queues before it always have jobs, or because long jobs of
//! other queues hold every thread.

mod held_threads;

use std::collections::BTreeMap;
use std::time::Duration;

use self::held_threads::{HeldThreads, ServingCapsule};

use crate::finding::{Confidence, Finding, Severity};
use crate::flow::Drain;
use crate::observation::{
    Capsule, Fact, JobProcess, Observation, ObservedQueue, Ordering, SidekiqObservation,
};
use crate::queue_line::{self, Repaired};
use crate::rules::{lock_waits, waiting_jobs};
use crate::wording;

pub(crate) const NAME: &str = "starving-queue";

/// Shorter waits are normal.
const LATENCY_MIN: Duration = Duration::from_secs(60);
/// The same if the queue grows and none of its jobs was completed: a flood before it has begun.
const GROWING_MIN: Duration = Duration::from_secs(30);

/// Maximum number of queues in a list.
const NAMES_MAX: usize = 3;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let starving = all(jobs);
    // The rule `backlog` reports that the queues wait for Redis.
    if starving.is_empty() || waiting_jobs::refused(observation).is_some() {
        return Vec::new();
    }
    let repaired = Repaired::of(observation);
    let found = |it: &Starving<'_>| {
        found(observation, jobs, &repaired, it).since(it.latency(), waiting_jobs::OLDEST_JOB)
    };
    starving.iter().map(found).collect()
}

/// Returns the capsules that should put starving queues first, with the names of those.
pub(crate) fn to_begin_with(jobs: &SidekiqObservation) -> Vec<(&JobProcess, &Capsule, Vec<&str>)> {
    let starving = all(jobs);
    // Another order does not end the jobs that hold the threads.
    let behind = starving.iter().filter(|it| matches!(it.cause, Cause::Behind(_)));
    let places = behind.filter_map(|it| Some((spare(jobs, &it.places)?, it.names())));
    places.map(|((process, capsule), names)| (process, capsule, names)).collect()
}

fn all(jobs: &SidekiqObservation) -> Vec<Starving<'_>> {
    let starving = jobs.queues.iter().filter_map(|queue| starving(jobs, queue));
    let mut starving = starving.collect::<Vec<_>>();
    combine(&mut starving);
    starving
}

/// One or several queues served by the same capsules, and why they wait.
struct Starving<'a> {
    queues: Vec<&'a ObservedQueue>,
    places: Vec<ServingCapsule<'a>>,
    cause: Cause<'a>,
}

/// Why a queue gets no thread.
enum Cause<'a> {
    /// The capsules fetch from these queues first, which have jobs.
    Behind(Vec<&'a str>),
    /// Long jobs of other queues hold every thread.
    Held(HeldThreads<'a>),
}

impl<'a> Starving<'a> {
    fn names(&self) -> Vec<&'a str> {
        self.queues.iter().map(|queue| queue.name.as_str()).collect()
    }

    /// Returns "queue a", or "queues a and b".
    fn subject(&self) -> String {
        let words = if self.queues.len() > 1 { "queues" } else { "queue" };
        format!("{words} {}", wording::list(self.names()))
    }

    /// Returns the number of waiting jobs, and for how long the oldest has waited.
    fn waiting(&self) -> String {
        let length: u64 = self.queues.iter().map(|queue| queue.length).sum();
        wording::jobs_wait_since(length, self.latency())
    }

    fn latency(&self) -> Duration {
        self.queues.iter().map(|queue| queue.latency).max().unwrap_or_default()
    }
}

/// Reports whether this rule explains why the queue waits.
pub(super) fn explains(jobs: &SidekiqObservation, queue: &ObservedQueue) -> bool {
    starving(jobs, queue).is_some()
}

/// Returns the queues whose long jobs hold every thread that serves other queues, with those.
pub(super) fn holders(jobs: &SidekiqObservation) -> BTreeMap<&str, Vec<&str>> {
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for starving in jobs.queues.iter().filter_map(|queue| starving(jobs, queue)) {
        let Cause::Held(held) = &starving.cause else { continue };
        for holder in &held.queues {
            holders.entry(holder).or_default().extend(starving.names());
        }
    }
    holders
}

/// Returns the details if the queue is late, and every capsule that serves it has jobs of another
/// queue to run first or has all its threads held by long ones.
fn starving<'a>(jobs: &'a SidekiqObservation, queue: &'a ObservedQueue) -> Option<Starving<'a>> {
    let is_meant_to = queue.paused || queue.is_set_aside();
    let least = if queue.stands() && grows(queue) { GROWING_MIN } else { LATENCY_MIN };
    let is_late = queue.latency >= least && waits(queue) && (queue.stands() || grows(queue));
    // A queue with jobs in progress does get threads. Processes that take no jobs at all do not take
    // others first.
    if is_meant_to || !is_late || queue.in_hand > 0 || waiting_jobs::idle(jobs, queue).is_some() {
        return None;
    }
    let capsules = jobs.serving().flat_map(|it| it.capsules.iter().map(move |own| (it, own)));
    let places: Vec<ServingCapsule<'_>> =
        capsules.filter(|(_, it)| it.position(&queue.name).is_some()).collect();
    if places.is_empty() {
        return None;
    }
    let behind = behind(jobs, &places, queue);
    let held = held_threads::held(jobs, &places, &queue.name);
    // Sidekiq 6 does not report whether its order is strict, but which jobs it runs.
    let cause = match (behind, held) {
        (Some(before), None) => Cause::Behind(before),
        (Some(before), _) if is_strict(&places) => Cause::Behind(before),
        (_, held) => Cause::Held(held?),
    };
    Some(Starving { queues: vec![queue], places, cause })
}

fn is_strict(places: &[ServingCapsule<'_>]) -> bool {
    places.iter().any(|(_, it)| it.ordering == Ordering::Strict)
}

/// Returns the queues that every capsule fetches from first, if none of the queue's jobs was completed.
fn behind<'a>(
    jobs: &SidekiqObservation,
    places: &[ServingCapsule<'a>],
    queue: &ObservedQueue,
) -> Option<Vec<&'a str>> {
    if !queue.stands() {
        return None;
    }
    let before: Option<Vec<&str>> =
        places.iter().map(|place| waiting_before(jobs, *place, &queue.name)).collect();
    let mut before = before?;
    before.sort_unstable();
    before.dedup();
    Some(before)
}

/// Combines the queues that starve in the same capsules, so that one change covers all.
fn combine(findings: &mut Vec<Starving<'_>>) {
    let mut combined: Vec<Starving<'_>> = Vec::new();
    for finding in findings.drain(..) {
        let same = |it: &&mut Starving<'_>| {
            let identities = |it: &Starving<'_>| {
                it.places.iter().map(|(process, _)| process.identity.clone()).collect::<Vec<_>>()
            };
            let is_held = |it: &Starving<'_>| matches!(it.cause, Cause::Held(_));
            identities(it) == identities(&finding) && is_held(it) == is_held(&finding)
        };
        let Some(it) = combined.iter_mut().find(same) else {
            combined.push(finding);
            continue;
        };
        it.queues.extend(finding.queues);
        if let (Cause::Held(one), Cause::Held(other)) = (&mut it.cause, finding.cause) {
            one.is_preferred |= other.is_preferred;
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
    let before = match &starving.cause {
        Cause::Behind(before) => before,
        Cause::Held(held) => return found_held(observation, jobs, starving, held),
    };
    let Starving { queues, places, .. } = starving;
    let sure = is_strict(places);
    // The rule `backlog` leaves long queues to this one.
    let is_long = queues.iter().any(|queue| waiting_jobs::is_long(queue));
    let has_waited = starving.latency() >= LATENCY_MIN;
    let (severity, confidence, if_strict) = match (sure, is_long) {
        (true, _) if has_waited => (Severity::Critical, Confidence::Certain, ""),
        (true, _) => (Severity::Warning, Confidence::Certain, ""),
        (false, true) => (Severity::Warning, Confidence::Possible, " if its order is strict"),
        (false, false) => (Severity::Notice, Confidence::Possible, " if its order is strict"),
    };
    let evidence = format!(
        "{}; each process that serves it fetches from {} first{if_strict}",
        starving.waiting(),
        wording::list(before.iter().copied())
    );
    let finding = Finding::new(NAME, severity, starving.subject(), evidence);
    let finding = finding.with_confidence(confidence);
    match spare(jobs, places) {
        Some((process, capsule)) => {
            let finding = finding.leads_to(when(sure));
            repaired.line_of(finding, process, capsule)
        }
        None => {
            let when = when(sure);
            let or = ", or put the queue earlier in its list";
            one_more(observation, finding, starving, (when, or))
        }
    }
}

/// Says when a queue is served that others come before, for certain if the order is known.
const fn when(sure: bool) -> &'static str {
    match sure {
        true => "It gets a thread only when those are empty.",
        false => {
            "In a strict order, it gets a thread only when those are empty; by weight, seldom."
        }
    }
}

/// Reports queues whose threads are held by long jobs of others.
fn found_held(
    observation: &Observation,
    jobs: &SidekiqObservation,
    starving: &Starving<'_>,
    held: &HeldThreads<'_>,
) -> Finding {
    const WHEN: &str = "It gets a thread only when one of those jobs ends.";
    let Starving { queues, .. } = starving;
    let is_long = queues.iter().any(|queue| waiting_jobs::is_long(queue));
    let is_growing = queues.iter().any(|queue| grows(queue));
    let severity = match (is_long, is_growing, held.is_preferred) {
        (true, true, _) => Severity::Critical,
        (false, false, false) => Severity::Notice,
        _ => Severity::Warning,
    };
    let others = if held.queues.len() > NAMES_MAX { Some("others") } else { None };
    let holders = wording::list(held.queues.iter().copied().take(NAMES_MAX).chain(others));
    let (oldest, it) =
        (wording::duration(held.oldest), if queues.len() == 1 { "it" } else { "them" });
    let hold = match held.threads {
        1 => format!("a job of {holders} has held the only thread that serves {it} for {oldest}"),
        threads => format!(
            "jobs of {holders} hold all {threads} threads that serve {it}, the oldest for {oldest}"
        ),
    };
    let evidence = format!("{}; {hold}", starving.waiting());
    let finding = Finding::new(NAME, severity, starving.subject(), evidence);
    // Heartbeats show which jobs run, but a short one may have run in between.
    let finding = finding.with_confidence(Confidence::Likely);
    let is_locked = |queue: &&str| lock_waits::may_hold_up(observation, jobs, queue);
    match held.queues.iter().any(is_locked) {
        true => finding.leads_to(format!(
            "{WHEN} Sessions wait for a lock of Postgres, which may be why those jobs take long: end \
             that wait first."
        )),
        false => one_more(observation, finding, starving, (WHEN, "")),
    }
}

/// Suggests an additional process with at most as many threads as the database has free
/// connections. `when` says when the queue gets a thread, and `or` what else helps.
fn one_more(
    observation: &Observation,
    finding: Finding,
    starving: &Starving<'_>,
    (when, or): (&str, &str),
) -> Finding {
    const TAKES: &str =
        "An additional process takes one database connection for each of its threads";
    let threads = starving.places.iter().map(|(_, it)| it.concurrency).max().unwrap_or_default();
    let threads = match observation.free_slots().filter(|_| observation.sidekiq_needs_slots()) {
        Some(0) => {
            return finding.leads_to(format!(
                "{when} {TAKES}, and the database has no slots for more: the others are in use, or \
                 are needed for other services, psql and deploys. Give a running process fewer \
                 threads first{or}."
            ));
        }
        Some(free) => threads.min(free),
        None => threads,
    };
    let finding = finding.leads_to(format!("{when} {TAKES}."));
    queue_line::one_more(finding, threads, &starving.names())
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
    let served = capsule.queues.iter().take(capsule.position(queue)?);
    let before = || served.clone().filter_map(|it| Some((it, jobs.queue(&it.name)?)));
    let ahead: u64 = before().filter(|(_, it)| !it.paused).map(|(_, it)| it.length).sum();
    if ahead.saturating_add(process.busy) < u64::from(process.concurrency()) {
        return None;
    }
    before().find(|(_, it)| !it.paused && waits(it)).map(|(served, _)| served.name.as_str())
}

fn grows(queue: &ObservedQueue) -> bool {
    queue.flow.known().is_some_and(|flow| flow.drain() == Drain::Grows)
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
