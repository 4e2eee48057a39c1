//! A queue that is behind: how fast it grows, when it is over.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::flow::Drain;
use crate::forecast::Forecast;
use crate::observation::{Fact, Jobs, Observation, Queue};
use crate::wording::{self, rate};

pub(crate) const NAME: &str = "backlog";

/// A queue is behind when its oldest job has waited this long.
const LATENCY_MIN: Duration = Duration::from_secs(60);
/// Fewer jobs are a slow job or two, not a backlog.
const LENGTH_MIN: u64 = 100;
/// From here on new jobs are better served before the old ones.
const SET_ASIDE_MIN: Duration = Duration::from_secs(600);
/// What `weir sidekiq set-aside` calls what it has set aside: it is meant to wait.
const SET_ASIDE_SUFFIX: &str = "_backlog";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let behind = |queue: &&Queue| queue.length >= LENGTH_MIN && queue.latency >= LATENCY_MIN;
    let served = |queue: &&Queue| jobs.serving_queue(&queue.name).next().is_some();
    let mut queues: Vec<_> = jobs.queues.iter().filter(behind).filter(served).collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.latency));
    let forecast = if queues.is_empty() { Forecast::default() } else { Forecast::of(jobs) };
    queues.into_iter().map(|queue| found(jobs, queue, &forecast)).collect()
}

fn found(jobs: &Jobs, queue: &Queue, forecast: &Forecast) -> Finding {
    let drain = forecast.queue(&queue.name);
    let set_aside = queue.name.ends_with(SET_ASIDE_SUFFIX);
    let severity = match drain {
        _ if set_aside => Severity::Notice,
        Some(Drain::Grows) => Severity::Critical,
        _ => Severity::Warning,
    };
    let finding = Finding::new(NAME, severity, format!("queue {}", queue.name), evidence(queue))
        .leads_to(consequence(queue, forecast));
    let threads: u32 = jobs.serving_queue(&queue.name).map(|it| it.concurrency()).sum();
    if set_aside {
        finding
    } else if queue.latency >= SET_ASIDE_MIN {
        finding.next(format!("weir sidekiq set-aside {}", queue.name))
    } else {
        finding.next(format!("weir plan   ({threads} threads serve it now)"))
    }
}

fn evidence(queue: &Queue) -> String {
    let waiting = wording::count(queue.length);
    let oldest = wording::duration(queue.latency);
    let flow = match &queue.flow {
        Fact::Known(flow) => format!(
            "; {} come, {} are worked off",
            rate(flow.arrivals_per_second),
            rate(flow.served_per_second())
        ),
        _ => String::new(),
    };
    format!("{waiting} jobs wait, the oldest for {oldest}{flow}")
}

fn consequence(queue: &Queue, forecast: &Forecast) -> String {
    let between = forecast.queue_between(&queue.name);
    match forecast.queue(&queue.name) {
        Some(Drain::Grows) => "It grows: at this rate it never ends.".to_owned(),
        Some(Drain::After(left)) => format!("It is empty in {}.", wording::about(left, between)),
        Some(Drain::Stands) => "It neither grows nor shrinks: new jobs wait as long.".to_owned(),
        Some(Drain::Empty) | None => "New jobs wait as long.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::healthy;

    fn behind(name: &str, before: u64, after: u64, seconds: u64) -> Observation {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut(name);
        (queue.length, queue.latency) = (after, Duration::from_secs(seconds));
        let window = Duration::from_secs(10);
        queue.flow =
            Fact::Known(Flow { window, before, after, arrivals_per_second: 10.0, deviation: None });
        observation
    }

    #[test]
    fn a_queue_that_drains_says_when_it_is_empty() {
        let finding = check(&behind("push", 40_200, 40_000, 120)).remove(0);
        assert_eq!(finding.severity, Severity::Warning);
        let expected = "40,000 jobs wait, the oldest for 2 min; 10.0/s come, 30.0/s are worked off";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.consequence, "It is empty in 33 min 20 s (27 min to 43 min).");
        assert!(finding.next.unwrap().contains("25 threads"));
    }

    #[test]
    fn one_that_grows_is_critical_and_new_jobs_can_go_first() {
        let finding = check(&behind("push", 39_000, 40_000, 1_200)).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.next.as_deref(), Some("weir sidekiq set-aside push"));
    }

    #[test]
    fn short_young_and_unserved_queues_are_no_backlog() {
        assert_eq!(check(&behind("push", 99, 99, 1_200)), []);
        assert_eq!(check(&behind("push", 100, 100, 1_200)).len(), 1);
        assert_eq!(check(&behind("push", 9_000, 9_000, 59)), []);
        let mut observation = behind("push", 9_000, 9_000, 1_200);
        observation.jobs.known_mut().processes.clear();
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn what_was_set_aside_is_meant_to_wait() {
        let mut observation = behind("pull", 39_000, 40_000, 1_200);
        observation.jobs.known_mut().queue_mut("pull").name = "pull_backlog".to_owned();
        observation.jobs.known_mut().processes[0].capsules[0].queues[4].name =
            "pull_backlog".to_owned();
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next), (Severity::Notice, None));
    }
}
