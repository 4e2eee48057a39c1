//! A queue that only gets a turn when those before it are empty, which they are not.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Capsule, Jobs, Observation, Ordering, Queue};
use crate::wording;

pub(crate) const NAME: &str = "starving-queue";

/// Below this a queue waits for its turn as it should.
const LATENCY_MIN: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let late = |queue: &&Queue| queue.length > 0 && queue.latency >= LATENCY_MIN && !queue.paused;
    jobs.queues.iter().filter(late).filter_map(|queue| starving(jobs, queue)).collect()
}

/// A finding if every capsule that serves `queue` has jobs of another to do first.
fn starving(jobs: &Jobs, queue: &Queue) -> Option<Finding> {
    let capsules = jobs.serving().flat_map(|process| &process.capsules);
    let serving: Vec<_> = capsules.filter(|it| position(it, &queue.name).is_some()).collect();
    if serving.is_empty() {
        return None;
    }
    let before: Option<Vec<&str>> =
        serving.iter().map(|it| waiting_before(jobs, it, &queue.name)).collect();
    let mut before = before?;
    before.sort_unstable();
    before.dedup();
    // Sidekiq 6 does not say whether its order is strict.
    let sure = serving.iter().any(|it| it.ordering == Ordering::Strict);
    let severity = if sure { Severity::Critical } else { Severity::Notice };
    Some(found(queue, &before, severity))
}

fn found(queue: &Queue, before: &[&str], severity: Severity) -> Finding {
    let Queue { name, length, latency, .. } = queue;
    let if_strict = if severity == Severity::Notice { " if its order is strict" } else { "" };
    let evidence = format!(
        "{} jobs wait, the oldest for {}; each process that serves it looks at {} first{if_strict}",
        wording::count(*length),
        wording::duration(*latency),
        wording::list(before.iter().copied())
    );
    Finding::new(NAME, severity, format!("queue {name}"), evidence)
        .leads_to("It gets a thread only when those are empty.")
        .change_and_restart(
            "the command line of one Sidekiq process",
            format!("-q {name} -q {}", before.join(" -q ")),
        )
}

fn position(capsule: &Capsule, queue: &str) -> Option<usize> {
    capsule.queues.iter().position(|served| served.name == queue)
}

/// The first queue with jobs that `capsule` looks at before `queue`; none if `queue` has its turns.
fn waiting_before<'a>(jobs: &Jobs, capsule: &'a Capsule, queue: &str) -> Option<&'a str> {
    if !matches!(capsule.ordering, Ordering::Strict | Ordering::Unknown) {
        return None;
    }
    let before = capsule.queues.iter().take(position(capsule, queue)?);
    let has_jobs = |name: &str| jobs.queue(name).is_some_and(|it| it.length > 0 && !it.paused);
    before.map(|served| served.name.as_str()).find(|name| has_jobs(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn observation(ordering: Ordering) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[0] = healthy::process(1, 25, ordering, &[("push", 0), ("mailers", 0)]);
        let queue = jobs.queue_mut("mailers");
        (queue.length, queue.latency) = (40, Duration::from_secs(3_600));
        jobs.queue_mut("push").length = 150_000;
        observation
    }

    #[test]
    fn mail_behind_pushes_in_strict_order_starves() {
        let finding = check(&observation(Ordering::Strict)).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.evidence.ends_with("each process that serves it looks at push first"));
        assert_eq!(finding.change.unwrap().line, "-q mailers -q push");
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
