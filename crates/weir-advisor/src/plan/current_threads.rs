//! Preserves the present threads of queues with unknown load: an hour without jobs does not mean
//! that a queue needs fewer threads.

use std::collections::BTreeSet;

use crate::observation::{Capsule, JobProcess, SidekiqObservation, is_set_aside};
use crate::rules;

use super::split::is_alone_by_name;
use super::{PlanInput, QueueDemand};

/// Assigns each queue with unknown load its share of the threads that serve it now.
pub(super) fn keep(queues: &mut [QueueDemand], jobs: &SidekiqObservation) {
    let planned: BTreeSet<String> = queues.iter().map(|queue| queue.name.clone()).collect();
    let unknown = queues.iter_mut().filter(|queue| !queue.knows_load());
    for queue in unknown {
        let capsules = servers(jobs, &queue.name).into_iter().flat_map(|process| &process.capsules);
        let shares = capsules.map(|capsule| share(capsule, &planned, &queue.name));
        queue.threads_now = shares.fold(0, u32::saturating_add);
    }
}

/// Returns the processes that take jobs from `queue`. If none does now, returns those that did before: of
/// processes that were started one after the other, as in a crash loop, the last one.
fn servers<'a>(jobs: &'a SidekiqObservation, queue: &'a str) -> Vec<&'a JobProcess> {
    let serving: Vec<_> = jobs.serving_queue(queue).collect();
    if !serving.is_empty() {
        return serving;
    }
    let absent: Vec<_> = jobs.absent_servers(queue).collect();
    let is_last = |it: &&JobProcess| !absent.iter().any(|later| rules::has_replaced(later, it));
    absent.iter().copied().filter(is_last).collect()
}

/// Returns a copy without these shares, and without the present number of web processes.
pub(super) fn forgotten(wanted: &PlanInput) -> PlanInput {
    let mut wanted = wanted.clone();
    wanted.web.processes_now = 0;
    wanted.queues.iter_mut().for_each(|queue| queue.threads_now = 0);
    wanted
}

/// Splits the threads of a capsule among its `planned` queues; the first ones get the remainder.
/// Mail and the scheduler get one thread if they share the capsule, because in a process of their
/// own they could not lend threads to others.
fn share(capsule: &Capsule, planned: &BTreeSet<String>, name: &str) -> u32 {
    let names = capsule.queues.iter().map(|queue| queue.name.as_str());
    let names = names.filter(|name| planned.contains(*name) && !is_set_aside(name));
    let (alone, others): (Vec<_>, Vec<_>) = names.partition(|name| is_alone_by_name(name));
    let (among, threads) = if others.is_empty() {
        (alone, capsule.concurrency)
    } else if alone.contains(&name) {
        return 1;
    } else {
        let left = usize::try_from(capsule.concurrency).unwrap_or(usize::MAX);
        (others, u32::try_from(left.saturating_sub(alone.len())).unwrap_or(u32::MAX))
    };
    let Some(at) = among.iter().position(|other| *other == name) else { return 0 };
    let count = u32::try_from(among.len()).unwrap_or(u32::MAX);
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    threads / count + u32::from(at < threads % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::WeightedQueue;

    fn shares(concurrency: u32, names: &[&str]) -> Vec<u32> {
        let queue = |name: &&str| WeightedQueue { name: (*name).to_owned(), weight: 0 };
        let queues = names.iter().map(queue).collect();
        let capsule = Capsule { concurrency, queues, ..Capsule::default() };
        let planned = names.iter().map(ToString::to_string).filter(|it| it != "mailer").collect();
        names.iter().map(|name| share(&capsule, &planned, name)).collect()
    }

    #[test]
    fn threads_are_shared_out_and_none_is_lost() {
        assert_eq!(shares(8, &["default"]), [8]);
        assert_eq!(shares(8, &["default", "push", "pull"]), [3, 3, 2]);
        assert_eq!(shares(8, &["scheduler", "default", "mailers", "push"]), [1, 3, 1, 3]);
        assert_eq!(shares(5, &["mailers"]), [5]);
        assert_eq!(shares(5, &["pull", "pull_backlog"]), [5, 0]);
        assert_eq!(shares(8, &["default", "mailer", "push"]), [4, 0, 4], "a misspelt one");
        assert_eq!(shares(1, &["default", "push", "mailers"]), [0, 0, 1]);
    }
}
