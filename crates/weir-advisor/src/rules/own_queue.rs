//! A queue of Weir's own job store has a backlog, or no worker fetches from it.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::flow::{Drain, Flow};
use crate::observation::{Observation, OwnQueue};
use crate::rules::waiting_jobs;
use crate::wording::{self, rate};

pub(crate) const NAME: &str = "own-queue";

/// Weir measures its rates over this time.
const RATES_WINDOW: Duration = Duration::from_secs(60);
/// The same limits as for Sidekiq's queues.
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
        let evidence = format!("{waiting}, and no worker fetches {them}");
        let finding = Finding::new(NAME, Severity::Critical, subject, evidence);
        return Some(finding.leads_to("Its jobs wait until a worker fetches them.").next(format!(
            "start a worker that fetches {}; weir status lists the workers",
            queue.name
        )));
    }
    (queue.length >= LENGTH_MIN).then(|| behind(queue, subject, &waiting))
}

fn behind(queue: &OwnQueue, subject: String, waiting: &str) -> Finding {
    let (come, go) = (queue.arrivals_per_second, queue.served_per_second);
    let evidence = format!("{waiting}; arrival rate {}, completion rate {}", rate(come), rate(go));
    let flow = flow(queue);
    let finding = |severity| Finding::new(NAME, severity, subject, evidence);
    match flow.drain() {
        Drain::Grows => finding(Severity::Critical)
            .leads_to(
                "It is growing: at these rates it will never drain. More workers help as long as \
                 they raise goodput: weir workers scale adds them, if Weir runs them.",
            )
            .next("weir workers list"),
        Drain::After(left) => finding(severity(queue, &flow, left))
            .leads_to(format!("It will be empty in {}.", wording::duration(left))),
        Drain::Stands | Drain::Empty => finding(Severity::Warning).leads_to(format!(
            "A window of {} is too short to tell whether it is growing or shrinking.",
            wording::duration(RATES_WINDOW)
        )),
    }
}

/// A backlog that will be empty soon is a notice, as for Sidekiq's queues (rule `backlog`).
fn severity(queue: &OwnQueue, flow: &Flow, left: Duration) -> Severity {
    let longest = flow.spread().1.map(|factor| left.as_secs_f64() * factor);
    let longest = longest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let longest = longest.unwrap_or(Duration::MAX);
    match waiting_jobs::is_over_soon(queue.latency, left, longest) {
        true => Severity::Notice,
        false => Severity::Warning,
    }
}

/// Converts the measured rates to a flow.
fn flow(queue: &OwnQueue) -> Flow {
    let (come, go) = (queue.arrivals_per_second, queue.served_per_second);
    let before = queue.length as f64 + (go - come) * RATES_WINDOW.as_secs_f64();
    let before = Duration::try_from_secs_f64(before.max(0.0)).unwrap_or_default().as_secs();
    let (window, after) = (RATES_WINDOW, queue.length);
    Flow { window, before, after, arrivals_per_second: come, deviation: None }
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
        assert_eq!(finding.consequence, "It will be empty in 1 min 40 s.");
        let finding = with(|queue| queue.served_per_second = 1.0).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.next.as_deref(), Some("weir workers list"));
        let finding = with(|queue| queue.served_per_second = 10.0).remove(0);
        assert_eq!(finding.severity, Severity::Warning, "as many arrive as are completed");
        assert!(
            finding.consequence.contains("too short to tell whether it is growing"),
            "{finding:?}"
        );
    }

    #[test]
    fn a_young_backlog_that_is_over_soon_is_a_notice() {
        let severity = |change: fn(&mut OwnQueue)| with(change).remove(0).severity;
        assert_eq!(severity(|_| {}), Severity::Notice, "100 s");
        let old = |queue: &mut OwnQueue| queue.latency = Duration::from_secs(600);
        assert_eq!(severity(old), Severity::Warning, "its jobs are late already");
        assert_eq!(severity(|queue| queue.length = 29_000), Severity::Warning, "580 s or more");
        assert_eq!(severity(|queue| queue.length = 40_000), Severity::Warning, "800 s");
    }

    #[test]
    fn one_that_nobody_asks_for_is_never_worked_off() {
        let finding = with(|queue| (queue.fetchers, queue.length) = (0, 1)).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.evidence, "1 job waits, for 2 min, and no worker fetches it");
        let several = with(|queue| queue.fetchers = 0).remove(0);
        assert!(several.evidence.ends_with("no worker fetches them"), "{several:?}");
    }

    #[test]
    fn short_young_and_paused_queues_are_no_backlog() {
        assert_eq!(with(|queue| queue.length = 99), []);
        assert_eq!(with(|queue| queue.latency = Duration::from_secs(59)), []);
        assert_eq!(with(|queue| queue.is_paused = true), []);
    }
}
