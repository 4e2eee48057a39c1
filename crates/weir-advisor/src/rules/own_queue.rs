//! A queue of Weir's own job store that is behind, or that no worker asks for.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, OwnQueue};
use crate::wording::{self, rate};

pub(crate) const NAME: &str = "own-queue";

/// As for queues of Sidekiq.
const LATENCY_MIN: Duration = Duration::from_secs(60);
const LENGTH_MIN: u64 = 100;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let queues = observation.own_queues.known().map(Vec::as_slice).unwrap_or_default();
    let late = queues.iter().filter(|queue| queue.latency >= LATENCY_MIN && !queue.is_paused);
    late.filter_map(found).collect()
}

fn found(queue: &OwnQueue) -> Option<Finding> {
    let subject = format!("Weir's queue {}", queue.name);
    let waiting = wording::jobs_wait_since(queue.length, queue.latency);
    if queue.fetchers == 0 && queue.length > 0 {
        let them = if queue.length == 1 { "it" } else { "them" };
        let evidence = format!("{waiting}, and no worker asks for {them}");
        let finding = Finding::new(NAME, Severity::Critical, subject, evidence);
        return Some(finding.leads_to("Its jobs are never worked off.").next(format!(
            "start a worker that fetches {}; weir status shows who is there",
            queue.name
        )));
    }
    (queue.length >= LENGTH_MIN).then(|| behind(queue, subject, &waiting))
}

fn behind(queue: &OwnQueue, subject: String, waiting: &str) -> Finding {
    let (come, go) = (queue.arrivals_per_second, queue.served_per_second);
    let evidence = format!("{waiting}; {} come, {} are worked off", rate(come), rate(go));
    if come >= go {
        return Finding::new(NAME, Severity::Critical, subject, evidence)
            .leads_to("It grows: at this rate it never ends.")
            .next("weir workers scale GROUP NUMBER, if goodput rises with it");
    }
    let left = Duration::try_from_secs_f64(queue.length as f64 / (go - come)).unwrap_or_default();
    Finding::new(NAME, Severity::Warning, subject, evidence)
        .leads_to(format!("It is empty in {}.", wording::duration(left)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn with(change: impl FnOnce(&mut OwnQueue)) -> Vec<Finding> {
        let mut observation = healthy::observation();
        let queue = &mut observation.own_queues.known_mut()[0];
        (queue.length, queue.latency) = (5_000, Duration::from_secs(120));
        (queue.arrivals_per_second, queue.served_per_second) = (10.0, 60.0);
        change(queue);
        check(&observation)
    }

    #[test]
    fn a_queue_that_is_behind_says_when_it_is_over_or_that_it_never_is() {
        let finding = with(|_| {}).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.consequence, "It is empty in 1 min 40 s.");
        let finding = with(|queue| queue.served_per_second = 10.0).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
    }

    #[test]
    fn one_that_nobody_asks_for_is_never_worked_off() {
        let finding = with(|queue| (queue.fetchers, queue.length) = (0, 1)).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.evidence, "1 job waits, for 2 min, and no worker asks for it");
        let several = with(|queue| queue.fetchers = 0).remove(0);
        assert!(several.evidence.ends_with("no worker asks for them"), "{several:?}");
    }

    #[test]
    fn short_young_and_paused_queues_are_no_backlog() {
        assert_eq!(with(|queue| queue.length = 99), []);
        assert_eq!(with(|queue| queue.latency = Duration::from_secs(59)), []);
        assert_eq!(with(|queue| queue.is_paused = true), []);
    }
}
