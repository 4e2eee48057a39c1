//! Ranks queues by importance, so that idle threads help the most important one first.
//!
//! The running processes' orders of queues determine the rank. Each process usually has its own
//! queue first regardless of importance, so the first queue of each is ignored: the rank of a queue
//! is the share of the others that precede it in processes where it is not first.

use std::collections::{BTreeMap, BTreeSet};

use crate::observation::{Capsule, SidekiqObservation};

/// Shares are integers in parts of this, so that they can be compared.
const WHOLE: u64 = 1_000;

/// The positions of a queue over all orders.
#[derive(Clone, Copy, Default)]
struct QueueRank {
    /// Number of queues that precede it, without the first of each process.
    before: u64,
    /// Number of queues that it shares processes with, without the first of each.
    beside: u64,
    /// Whether it is the first of several queues of some process.
    is_first: bool,
}

impl QueueRank {
    fn rank(self) -> u32 {
        let unknown = if self.is_first { 0 } else { WHOLE / 2 };
        let rank = (self.before * WHOLE).checked_div(self.beside).unwrap_or(unknown);
        u32::try_from(rank).unwrap_or(u32::MAX)
    }
}

/// Ranks each served queue from 0 (always before the others) to 1,000 (always after them), or 500
/// if nothing is known. Orders by weight, then by position.
pub(super) fn ranks(jobs: &SidekiqObservation) -> BTreeMap<&str, u32> {
    let capsules = jobs.processes.iter().flat_map(|process| &process.capsules);
    // Equal orders count once, however many processes have them.
    let orders: BTreeSet<Vec<&str>> = capsules.map(order).collect();
    let mut all: BTreeMap<&str, QueueRank> = BTreeMap::new();
    for order in &orders {
        let Some((first, others)) = order.split_first() else { continue };
        all.entry(first).or_default().is_first |= !others.is_empty();
        let beside = (others.len() as u64).saturating_sub(1);
        for (before, name) in (0..).zip(others) {
            let places = all.entry(name).or_default();
            places.before += before;
            places.beside += beside;
        }
    }
    all.into_iter().map(|(name, places)| (name, places.rank())).collect()
}

fn order(capsule: &Capsule) -> Vec<&str> {
    let mut queues: Vec<_> = capsule.queues.iter().collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.weight));
    queues.into_iter().map(|queue| queue.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Ordering;

    fn by_importance(processes: &[&[(&str, u32)]]) -> Vec<String> {
        let process = |queues: &&[(&str, u32)]| healthy::process(1, 5, Ordering::Strict, queues);
        let jobs = SidekiqObservation {
            processes: processes.iter().map(process).collect(),
            ..SidekiqObservation::default()
        };
        let mut ranks: Vec<_> = ranks(&jobs).into_iter().map(|(name, rank)| (rank, name)).collect();
        ranks.sort_unstable();
        ranks.into_iter().map(|(_, name)| name.to_owned()).collect()
    }

    #[test]
    fn processes_with_another_queue_first_each_agree_on_an_order() {
        let default: &[_] = &[("default", 0), ("push", 0), ("ingress", 0), ("pull", 0)];
        let push: &[_] = &[("push", 0), ("default", 0), ("ingress", 0), ("pull", 0)];
        let pull: &[_] = &[("pull", 0), ("default", 0), ("push", 0), ("ingress", 0)];
        let expected = ["default", "push", "ingress", "pull"];
        for processes in [[default, push, pull], [pull, push, default], [push, default, pull]] {
            assert_eq!(by_importance(&processes), expected);
        }
        assert_eq!(by_importance(&[pull, pull, pull, push, default]), expected, "three of a kind");
    }

    #[test]
    fn a_weight_counts_more_than_a_place() {
        assert_eq!(
            by_importance(&[&[("pull", 1), ("default", 8), ("push", 6)]]),
            ["default", "push", "pull"]
        );
    }

    #[test]
    fn a_queue_with_processes_for_itself_alone_is_not_the_most_important_one() {
        let shared: &[_] = &[("default", 0), ("push", 0), ("pull", 0)];
        let order = by_importance(&[&[("video", 0)], shared]);
        assert_eq!(order[0], "default");
        assert_eq!(order[3], "pull");
    }
}
