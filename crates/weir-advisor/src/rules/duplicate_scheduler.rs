//! More than one process serves the queue `scheduler`, so scheduled jobs are enqueued more than
//! once.

use std::fmt::Write;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Observation, ProcessPresence, SidekiqObservation};
use crate::queue_line::{self, Repaired};
use crate::rules::absent_server;
use crate::wording;

pub(crate) const NAME: &str = "scheduler";

const QUEUE: &str = "scheduler";
/// A process that stops as it should removes its heartbeat.
const RESTARTING: &str = "If its process is just restarting, wait for it: a second one would enqueue \
                          periodic jobs twice.";
const ONCE: &str = "Where processes of this queue enqueue periodic jobs, as in Mastodon, they may be enqueued \
                    more than once. Another application may use the name for ordinary jobs: then this \
                    is no problem.";
const ONCE_IF_ALL_RUN: &str = "If all of them run, periodic jobs may be enqueued more than once, as in \
                               Mastodon. Another application may use the name for ordinary jobs: then \
                               this is no problem.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let pushed =
        observation.pushed_queues.known().is_some_and(|names| names.iter().any(|it| it == QUEUE));
    let used = pushed || jobs.queue(QUEUE).is_some_and(|queue| queue.pushed);
    match jobs.serving_queue(QUEUE).count() {
        0 if used && jobs.nobody_serves(QUEUE) && jobs.serving().next().is_some() => {
            vec![missing(observation, jobs)]
        }
        0 | 1 => Vec::new(),
        _ => duplicate(jobs, &Repaired::of(observation)),
    }
}

fn missing(observation: &Observation, jobs: &SidekiqObservation) -> Finding {
    const CONSEQUENCE: &str = "Its jobs wait. In Mastodon they are the periodic ones: no clean-up, no \
                               trends, no digests.";
    let subject = "queue scheduler";
    if let Some(finding) = absent_server::found(NAME, subject, "", jobs, QUEUE) {
        return finding.leads_to(CONSEQUENCE);
    }
    let finding = Finding::new(NAME, Severity::Critical, subject, "no process serves it")
        .leads_to(format!("{CONSEQUENCE} {RESTARTING}"));
    Repaired::of(observation).change(finding, QUEUE)
}

/// Returns a finding for each process except the one with the fewest other queues. Processes not
/// seen running since their last heartbeat are ignored, because they may have ended.
fn duplicate(jobs: &SidekiqObservation, repaired: &Repaired<'_>) -> Vec<Finding> {
    let mut serving: Vec<_> = jobs.serving_queue(QUEUE).collect();
    serving.sort_by_key(|process| queue_line::scheduler_rank(process));
    let identities = wording::list(serving.iter().map(|it| it.identity.as_str()));
    let mut evidence = format!("{} processes serve it: {identities}", serving.len());
    let unsure = serving.iter().filter(|it| it.presence != ProcessPresence::Seen);
    let unsure: Vec<_> = unsure.map(|it| it.identity.as_str()).collect();
    let (severity, consequence) = match unsure.is_empty() {
        true => (Severity::Warning, ONCE),
        false => {
            let (run, their) = if unsure.len() == 1 { ("runs", "its") } else { ("run", "their") };
            let unsure = wording::list(unsure);
            let _ = write!(
                evidence,
                "; it is unknown whether {unsure} still {run} since {their} last heartbeat"
            );
            (Severity::Notice, ONCE_IF_ALL_RUN)
        }
    };
    let finding = |process: &&JobProcess| {
        let finding = Finding::new(NAME, severity, "queue scheduler", evidence.as_str());
        repaired.without_scheduler(finding.leads_to(consequence), process)
    };
    let mut findings: Vec<Finding> = serving.iter().skip(1).map(finding).collect();
    // Without lines, those of several processes are the same.
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, Ordering, WeightedQueue};

    #[test]
    fn two_are_one_too_many() {
        let mut observation = healthy::observation();
        let third = healthy::process(3, 5, Ordering::Strict, &[("scheduler", 0)]);
        observation.jobs.known_mut().processes.push(third);
        let finding = check(&observation).remove(0);
        assert!(
            finding.evidence.starts_with("2 processes serve it: shop:2:"),
            "{}",
            finding.evidence
        );
        assert_eq!(finding.line_change().unwrap().place, "the unit of shop:3:0123456789ab");
        observation.jobs.known_mut().processes[2].quiet = true;
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn who_serves_most_beside_it_leaves_it() {
        let mut observation = healthy::observation();
        let queues = &mut observation.jobs.known_mut().processes[0].capsules[0].queues;
        queues.truncate(2);
        queues.push(WeightedQueue { name: QUEUE.to_owned(), weight: 1 });
        let line = check(&observation).remove(0).line_change().unwrap().line.clone();
        assert!(line.starts_with("-q default,8 -q push,6") && !line.contains(QUEUE), "{line}");
    }

    #[test]
    fn none_is_one_too_few_where_it_is_used() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.remove(1);
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
        observation.pushed_queues = Fact::NotAsked;
        observation.jobs.known_mut().queue_mut("scheduler").pushed = false;
        assert_eq!(check(&observation), []);
    }
}
