//! The queue `scheduler`, whose process enqueues what is due by the clock: exactly one serves it.

use crate::finding::{Finding, Severity};
use crate::observation::{Jobs, Observation};
use crate::wording;

pub(crate) const NAME: &str = "scheduler";

const QUEUE: &str = "scheduler";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let pushed =
        observation.pushed_queues.known().is_some_and(|names| names.iter().any(|it| it == QUEUE));
    let used = pushed || jobs.queue(QUEUE).is_some_and(|queue| queue.pushed);
    match jobs.serving_queue(QUEUE).count() {
        0 if used && jobs.nobody_serves(QUEUE) && jobs.serving().next().is_some() => {
            vec![missing()]
        }
        0 | 1 => Vec::new(),
        _ => vec![duplicate(jobs)],
    }
}

fn missing() -> Finding {
    Finding::new(NAME, Severity::Critical, "queue scheduler", "no process serves it")
        .leads_to("Nothing that runs by the clock is enqueued: no clean-up, no trends, no digests.")
        .change_and_restart("the command line of one Sidekiq process", "-q scheduler")
}

fn duplicate(jobs: &Jobs) -> Finding {
    let identities: Vec<_> = jobs.serving_queue(QUEUE).map(|it| it.identity.as_str()).collect();
    let evidence = format!(
        "{} processes serve it: {}",
        identities.len(),
        wording::list(identities.iter().copied())
    );
    let spare = wording::list(identities.iter().skip(1).copied());
    Finding::new(NAME, Severity::Warning, "queue scheduler", evidence)
        .leads_to("What runs by the clock is enqueued more than once.")
        .change_and_restart(
            format!("the command line or sidekiq.yml of {spare}"),
            "without -q scheduler",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Fact, Ordering};

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
        assert!(finding.change.unwrap().place.contains("shop:3:"));
        observation.jobs.known_mut().processes[2].quiet = true;
        assert_eq!(check(&observation), []);
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
