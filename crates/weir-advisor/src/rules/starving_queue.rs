//! A queue that only gets a turn when those before it are empty, which they are not.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Capsule, Fact, JobProcess, Jobs, Observation, Ordering, Queue};
use crate::queue_line;
use crate::wording;

pub(crate) const NAME: &str = "starving-queue";

/// Below this a queue waits for its turn as it should.
const LATENCY_MIN: Duration = Duration::from_secs(60);

/// Where a queue is served: a process with one of its capsules.
type Place<'a> = (&'a JobProcess, &'a Capsule);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let starving = jobs.queues.iter().filter_map(|queue| starving(jobs, queue));
    let mut findings = starving.collect::<Vec<_>>();
    combine(&mut findings);
    findings.into_iter().map(|it| found(jobs, &it)).collect()
}

/// A queue, or several that the same places serve, with what stands before.
struct Starving<'a> {
    queues: Vec<&'a Queue>,
    places: Vec<Place<'a>>,
    before: Vec<&'a str>,
}

/// Whether this is why the queue waits.
pub(super) fn explains(jobs: &Jobs, queue: &Queue) -> bool {
    starving(jobs, queue).is_some()
}

/// If the queue is late, and every capsule that serves it has jobs of another to do first.
fn starving<'a>(jobs: &'a Jobs, queue: &'a Queue) -> Option<Starving<'a>> {
    let is_meant_to = queue.paused || queue.is_set_aside();
    let is_late = queue.latency >= LATENCY_MIN && waits(queue) && queue.stands();
    if is_meant_to || !is_late {
        return None;
    }
    let capsules = jobs.serving().flat_map(|it| it.capsules.iter().map(move |own| (it, own)));
    let places: Vec<Place<'_>> =
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

/// One change for all queues that starve in the same place.
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

fn found(jobs: &Jobs, starving: &Starving<'_>) -> Finding {
    let Starving { queues, places, before } = starving;
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let words = if names.len() > 1 { "queues" } else { "queue" };
    let length: u64 = queues.iter().map(|queue| queue.length).sum();
    let latency = queues.iter().map(|queue| queue.latency).max().unwrap_or_default();
    // Sidekiq 6 does not say whether its order is strict.
    let sure = places.iter().any(|(_, it)| it.ordering == Ordering::Strict);
    let (severity, if_strict) = match sure {
        true => (Severity::Critical, ""),
        false => (Severity::Notice, " if its order is strict"),
    };
    let evidence = format!(
        "{} jobs wait, the oldest for {}; each process that serves it looks at {} first{if_strict}",
        wording::count(length),
        wording::duration(latency),
        wording::list(before.iter().copied())
    );
    let subject = format!("{words} {}", wording::list(names.iter().copied()));
    let finding = Finding::new(NAME, severity, subject, evidence);
    match spare(jobs, places) {
        Some((process, capsule)) => {
            let finding = finding.leads_to("It gets a thread only when those are empty.");
            let mut all = capsule.queues.clone();
            all.sort_by_key(|it| !names.contains(&it.name.as_str()));
            queue_line::change(finding, process, capsule, &all)
        }
        None => {
            let threads = places.iter().map(|(_, it)| it.concurrency).max().unwrap_or_default();
            finding
                .leads_to(
                    "It gets a thread only when those are empty. A process more takes a \
                     connection of the database for each of its threads.",
                )
                .change(
                    "one process more, beside those that run",
                    queue_line::one_more(threads, &names),
                )
        }
    }
}

/// One whose first queue is first elsewhere as well: it can begin with another, and none is worse off.
fn spare<'a>(jobs: &Jobs, places: &[Place<'a>]) -> Option<Place<'a>> {
    let first = |capsule: &Capsule| capsule.queues.first().map(|it| it.name.clone());
    let is_spare = |place: &&Place<'_>| {
        let (process, own) = place;
        let others = jobs.serving().filter(|it| it.identity != process.identity);
        others.flat_map(|it| &it.capsules).any(|it| first(it) == first(own))
    };
    (places.len() > 1).then(|| places.iter().find(is_spare).copied()).flatten()
}

fn position(capsule: &Capsule, queue: &str) -> Option<usize> {
    capsule.queues.iter().position(|served| served.name == queue)
}

/// The first queue with jobs that `capsule` looks at before `queue`; none if `queue` has its turns, or
/// threads are idle: what waits before it is being taken then.
fn waiting_before<'a>(jobs: &Jobs, (process, capsule): Place<'a>, queue: &str) -> Option<&'a str> {
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

/// At both looks: what comes and is taken at once is not waited for.
fn waits(queue: &Queue) -> bool {
    let before = match &queue.flow {
        Fact::Known(flow) => flow.before,
        _ => queue.length,
    };
    queue.length > 0 && before > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::healthy;

    /// Nothing comes, nothing is worked off.
    fn stands(length: u64) -> Fact<Flow> {
        let window = Duration::from_secs(10);
        Fact::Known(Flow { window, before: length, after: length, ..Flow::default() })
    }

    fn observation(ordering: Ordering) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[0] = healthy::process(1, 25, ordering, &[("push", 0), ("mailers", 0)]);
        let queue = jobs.queue_mut("mailers");
        (queue.length, queue.latency) = (40, Duration::from_secs(3_600));
        queue.flow = stands(40);
        let push = jobs.queue_mut("push");
        (push.length, push.flow) = (150_000, stands(150_000));
        observation
    }

    #[test]
    fn mail_behind_pushes_in_strict_order_starves() {
        let finding = check(&observation(Ordering::Strict)).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.evidence.ends_with("each process that serves it looks at push first"));
        let change = finding.change.unwrap();
        assert_eq!(change.place, "one process more, beside those that run");
        assert_eq!(change.line, "bundle exec sidekiq -c 5 -q mailers", "push keeps its process");
    }

    #[test]
    fn where_two_begin_alike_one_of_them_begins_with_it_and_keeps_all_others() {
        let mut observation = observation(Ordering::Strict);
        let second = healthy::process(3, 5, Ordering::Strict, &[("push", 0), ("mailers", 0)]);
        observation.jobs.known_mut().processes.push(second);
        let change = check(&observation).remove(0).change.unwrap();
        assert!(change.place.starts_with("all queues of shop:1:"), "{}", change.place);
        assert_eq!(change.line, "-q mailers -q push");
    }

    #[test]
    fn several_in_one_place_are_one_finding() {
        let mut observation = observation(Ordering::Strict);
        let jobs = observation.jobs.known_mut();
        let queues = [("push", 0), ("mailers", 0), ("pull", 0)];
        jobs.processes[0] = healthy::process(1, 25, Ordering::Strict, &queues);
        let pull = jobs.queue_mut("pull");
        (pull.length, pull.latency) = (500, Duration::from_secs(900));
        pull.flow = stands(500);
        let findings = check(&observation);
        assert_eq!(findings.len(), 1);
        let line = &findings[0].change.as_ref().unwrap().line;
        assert_eq!(line, "bundle exec sidekiq -c 5 -q mailers,1 -q pull,1");
    }

    #[test]
    fn what_was_set_aside_and_what_is_served_or_about_to_be_does_not_starve() {
        let mut aside = observation(Ordering::Strict);
        let jobs = aside.jobs.known_mut();
        jobs.queue_mut("mailers").name = "mailers_backlog".to_owned();
        jobs.processes[0].capsules[0].queues[1].name = "mailers_backlog".to_owned();
        assert_eq!(check(&aside), []);

        let mut served = observation(Ordering::Strict);
        served.jobs.known_mut().queue_mut("mailers").flow.known_mut().before = 42;
        assert_eq!(check(&served), []);

        let mut idle = observation(Ordering::Strict);
        let push = idle.jobs.known_mut().queue_mut("push");
        (push.length, push.flow) = (23, stands(23));
        assert_eq!(check(&idle), [], "a thread of 25 is left");
        idle.jobs.known_mut().queue_mut("push").length = 24;
        assert_eq!(check(&idle).len(), 1);
    }

    #[test]
    fn sidekiq_6_may_be_strict_and_weights_give_turns() {
        assert_eq!(check(&observation(Ordering::Unknown))[0].severity, Severity::Notice);
        assert_eq!(check(&observation(Ordering::Weighted)), []);
    }

    #[test]
    fn one_process_that_looks_at_it_first_is_enough() {
        let mut observation = observation(Ordering::Strict);
        let other = healthy::process(3, 5, Ordering::Strict, &[("mailers", 0), ("push", 0)]);
        observation.jobs.known_mut().processes.push(other);
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn a_minute_is_the_limit() {
        let mut observation = observation(Ordering::Strict);
        observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(59);
        assert_eq!(check(&observation), []);
        observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(60);
        assert_eq!(check(&observation).len(), 1);
    }

    #[test]
    fn it_waits_its_turn_while_those_before_it_are_empty() {
        let mut observation = observation(Ordering::Strict);
        observation.jobs.known_mut().queue_mut("push").length = 0;
        assert_eq!(check(&observation), []);
    }
}
