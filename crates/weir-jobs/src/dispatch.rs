//! Chooses the queue that serves a FETCH, and from which end.
//!
//! The order is: a queue with guaranteed slots left; otherwise the first queue of the request. If
//! that one has a share, the queues of the request that have shares alternate by weight. Queues at
//! their `concurrency` are skipped. The [`Dispatcher`] does no I/O and reads no clock: the caller
//! describes the queues, and the dispatcher only remembers which queue is next.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allocation::{Allocation, QueueAllocation};
use crate::model::QueueName;

/// With `fresh_lane`, one fetch in this many serves the oldest job, so that a backlog drains even
/// while new jobs arrive. Fetches are counted, not the workers' time: old jobs that run longer than
/// new ones get a larger part of it.
pub const BACKLOG_TURN_EVERY: u32 = 5;

/// A queue that has jobs and is not paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its index in the queues of the request.
    pub place: usize,
    /// The number of its jobs that are reserved.
    pub running: u32,
    /// How long its oldest job has waited.
    pub oldest_wait: Duration,
}

/// The end of a queue from which a job is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    Oldest,
    Newest,
}

/// The chosen queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its index in the queues of the request.
    pub place: usize,
    pub end: QueueEnd,
}

/// Remembers which queue is next. It has at most one entry per queue of the allocation: those that
/// have a share or `fresh_lane`.
#[derive(Clone, Debug, Default)]
pub struct Dispatcher {
    turns: BTreeMap<QueueName, QueueCredit>,
}

/// The dispatch state of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueCredit {
    /// Credit for smooth weighted round robin: each round adds the queue's share, and serving the
    /// queue subtracts the sum of all shares.
    credit: i64,
    /// Fetches served since the oldest job was last served in the fresh lane.
    fresh_served: u32,
}

impl Dispatcher {
    /// Chooses among `candidates`, which are in the order of `queues` (those of the request).
    /// Returns `None` if no candidate may be served.
    pub fn choose(
        &mut self,
        allocation: &Allocation,
        queues: &[QueueName],
        candidates: impl Iterator<Item = Candidate> + Clone,
    ) -> Option<Choice> {
        if allocation.queues.is_empty() {
            let first = candidates.into_iter().next()?;
            return Some(Choice { place: first.place, end: QueueEnd::Oldest });
        }
        let rules = |candidate: &Candidate| allocation.queues.get(queues[candidate.place].as_str());
        let open = candidates.filter(|candidate| is_open(rules(candidate), candidate.running));
        let chosen = match first_choice(open.clone(), rules)? {
            First::Strict(candidate) => candidate,
            First::Shared => self.by_share(queues, open, rules)?,
        };
        let end = self.end(&queues[chosen.place], rules(&chosen), chosen.oldest_wait);
        Some(Choice { place: chosen.place, end })
    }

    /// Drops the state of queues that are not in a new allocation.
    pub fn retain(&mut self, allocation: &Allocation) {
        self.turns.retain(|name, _| allocation.queues.contains_key(name));
    }

    /// Chooses by smooth weighted round robin among the open candidates that have a share.
    fn by_share<'a>(
        &mut self,
        queues: &[QueueName],
        open: impl Iterator<Item = Candidate>,
        rules: impl Fn(&Candidate) -> Option<&'a QueueAllocation>,
    ) -> Option<Candidate> {
        let mut round = 0;
        let mut best: Option<(i64, Candidate)> = None;
        for candidate in open {
            let Some(share) = rules(&candidate).and_then(share) else {
                continue;
            };
            let turns = self.turns(&queues[candidate.place]);
            turns.credit += share;
            round += share;
            if best.is_none_or(|(credit, _)| turns.credit > credit) {
                best = Some((turns.credit, candidate));
            }
        }
        let (_, chosen) = best?;
        self.turns(&queues[chosen.place]).credit -= round;
        Some(chosen)
    }

    fn end(
        &mut self,
        name: &QueueName,
        rules: Option<&QueueAllocation>,
        wait: Duration,
    ) -> QueueEnd {
        let is_late = |rules: &QueueAllocation| {
            rules.fresh_lane && rules.target_latency.is_some_and(|target| wait > target)
        };
        if !rules.is_some_and(is_late) {
            return QueueEnd::Oldest;
        }
        let turns = self.turns(name);
        turns.fresh_served = (turns.fresh_served + 1) % BACKLOG_TURN_EVERY;
        if turns.fresh_served == 0 { QueueEnd::Oldest } else { QueueEnd::Newest }
    }

    fn turns(&mut self, name: &QueueName) -> &mut QueueCredit {
        self.turns.entry(name.clone()).or_default()
    }
}

/// Returns whether a queue with these rules may run one more job.
#[must_use]
pub fn is_open(rules: Option<&QueueAllocation>, running: u32) -> bool {
    rules.and_then(|rules| rules.concurrency).is_none_or(|most| running < most)
}

/// The result of strict order.
enum First {
    /// This queue is served.
    Strict(Candidate),
    /// The first queue has a share, so the choice is by weight.
    Shared,
}

fn first_choice<'a>(
    open: impl Iterator<Item = Candidate> + Clone,
    rules: impl Fn(&Candidate) -> Option<&'a QueueAllocation>,
) -> Option<First> {
    let guaranteed = |candidate: &Candidate| {
        rules(candidate).is_some_and(|rules| candidate.running < rules.guaranteed_slots)
    };
    if let Some(candidate) = open.clone().find(guaranteed) {
        return Some(First::Strict(candidate));
    }
    let first = open.into_iter().next()?;
    let shares = rules(&first).and_then(share).is_some();
    Some(if shares { First::Shared } else { First::Strict(first) })
}

/// Returns the share. A share of 0 counts as none: the queue is served in strict order.
fn share(rules: &QueueAllocation) -> Option<i64> {
    rules.share.filter(|share| *share > 0).map(i64::from)
}
