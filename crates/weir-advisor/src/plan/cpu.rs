//! CPU time of jobs. Ruby runs one thread of a process at a time: jobs that compute need processes,
//! and no number of threads replaces those.

use std::collections::BTreeSet;

use crate::observation::{Fact, JobProcess, ObservedQueue, SidekiqObservation};

use super::rounding::busy;
use super::{QueueDemand, ceiling};

/// Share of its one core that a process is planned to use on average. The rest is for bursts.
const CORE_SHARE: f64 = 0.8;
/// With fewer jobs per second, the CPU time is mostly that of idle processes.
const SERVED_MIN: f64 = 0.2;

/// Returns the mean CPU time of a job of `queue` in seconds. Processes report only the sum over their
/// queues, so that it is the mean over all queues that share processes. `None` if the CPU time of a
/// process is unknown, or too few jobs were completed.
pub(super) fn seconds_per_job(jobs: &SidekiqObservation, queue: &str) -> Option<f64> {
    let (processes, queues) = sharing(jobs, queue);
    let cores: Option<Vec<f64>> =
        processes.iter().map(|process| process.cores_used.known().copied()).collect();
    let cores: f64 = cores.filter(|all| !all.is_empty())?.iter().sum();
    let served = served_per_second(jobs, &processes, &queues)?;
    (served >= SERVED_MIN).then_some(cores / served)
}

/// Returns the processes that accept jobs of `queue`, those that share a queue with them, and all of
/// their queues.
fn sharing<'a>(
    jobs: &'a SidekiqObservation,
    queue: &'a str,
) -> (Vec<&'a JobProcess>, BTreeSet<&'a str>) {
    let mut queues = BTreeSet::from([queue]);
    loop {
        let serves_one = |it: &&JobProcess| queues.iter().any(|name| it.serves(name));
        let processes: Vec<_> = jobs.serving().filter(serves_one).collect();
        let before = queues.len();
        queues.extend(processes.iter().flat_map(|process| process.served()));
        if queues.len() == before {
            return (processes, queues);
        }
    }
}

/// Returns the completion rate of the processes. Two samples of a queue that was empty in between may
/// have missed jobs; Sidekiq's own count is of all processes.
fn served_per_second(
    jobs: &SidekiqObservation,
    processes: &[&JobProcess],
    queues: &BTreeSet<&str>,
) -> Option<f64> {
    if let Fact::Known(all) = &jobs.processed_per_second
        && processes.len() == jobs.serving().count()
        && !jobs.has_more_processes
    {
        return Some(*all);
    }
    let own: Vec<&ObservedQueue> = queues.iter().filter_map(|name| jobs.queue(name)).collect();
    let served = own.iter().filter_map(|it| it.flow.known()).map(|flow| flow.served_per_second());
    (!own.iter().any(|queue| queue.flow_is_least)).then(|| served.sum())
}

/// Returns the cores that the jobs of a queue use on average, or `None` if that is unknown.
pub(super) fn cores(queue: &QueueDemand) -> Option<f64> {
    Some(busy(queue.arrivals_per_second, queue.cpu_seconds?))
}

/// Returns the cores that the jobs of `queues` use on average, as far as known.
pub(super) fn cores_of<'a>(queues: impl IntoIterator<Item = &'a QueueDemand>) -> f64 {
    queues.into_iter().filter_map(cores).sum()
}

/// Returns the fewest processes that can use the cores that the jobs of `queues` need.
pub(super) fn processes_min<'a>(queues: impl IntoIterator<Item = &'a QueueDemand>) -> u32 {
    ceiling(cores_of(queues) / CORE_SHARE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::Ordering;

    /// Returns one process for `thumbs`, which uses most of a core for 4 jobs per second, and one for
    /// `mail`.
    fn jobs() -> SidekiqObservation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes = vec![
            healthy::process(1, 25, Ordering::Strict, &[("thumbs", 0)]),
            healthy::process(2, 5, Ordering::Strict, &[("mail", 0)]),
        ];
        jobs.processes[0].cores_used = Fact::Known(0.9);
        jobs.processes[1].cores_used = Fact::Known(0.1);
        let flow = |arrivals_per_second, after| Flow {
            window: Duration::from_secs(10),
            before: 100,
            after,
            arrivals_per_second,
            deviation: None,
        };
        jobs.queues.truncate(2);
        jobs.queues[0].name = "thumbs".to_owned();
        jobs.queues[0].flow = Fact::Known(flow(6.0, 120));
        jobs.queues[1].name = "mail".to_owned();
        jobs.queues[1].flow = Fact::Known(flow(1.0, 100));
        jobs.clone()
    }

    fn seconds(jobs: &SidekiqObservation, queue: &str) -> String {
        seconds_per_job(jobs, queue).map_or("unknown".to_owned(), |it| format!("{it:.3}"))
    }

    #[test]
    fn the_cpu_time_of_a_job_is_that_of_its_processes() {
        let mut jobs = jobs();
        assert_eq!(seconds(&jobs, "thumbs"), "0.225", "0.9 cores for 4 jobs per second");
        assert_eq!(seconds(&jobs, "mail"), "0.100");
        assert_eq!(seconds(&jobs, "unserved"), "unknown");
        jobs.processes[0].cores_used = Fact::NotAsked;
        assert_eq!(seconds(&jobs, "thumbs"), "unknown", "it runs on another host");
    }

    #[test]
    fn queues_that_share_a_process_have_one_mean() {
        let mut jobs = jobs();
        jobs.processes[1] = healthy::process(2, 5, Ordering::Strict, &[("mail", 0), ("thumbs", 0)]);
        jobs.processes[1].cores_used = Fact::Known(0.1);
        assert_eq!(
            (seconds(&jobs, "thumbs"), seconds(&jobs, "mail")),
            ("0.200".into(), "0.200".into())
        );
        jobs.queues[0].flow_is_least = true;
        assert_eq!(seconds(&jobs, "mail"), "unknown", "more jobs may have been completed");
        jobs.processed_per_second = Fact::Known(10.0);
        assert_eq!(seconds(&jobs, "mail"), "0.100", "Sidekiq counts them all");
    }
}
