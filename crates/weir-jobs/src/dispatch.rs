//! Which queue serves a FETCH, and from which end.
//!
//! In order: a queue whose guarantee is open; else the first queue of the request; where that one
//! has a share, the queues of the request that have shares take turns by weight. Queues at their
//! concurrency are passed over. No allocation, no clock: the caller describes the queues, and the
//! [`Dispatcher`] keeps which queue is next.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::allocation::{Allocation, QueueAllocation};
use crate::model::QueueName;

/// In the fresh lane one fetch in so many serves the old end, so that a backlog drains even while
/// new work keeps coming. Fetches are counted, not the workers' time: old jobs that take longer than new
/// ones get more of it.
pub const BACKLOG_TURN_EVERY: u32 = 5;

/// A queue that has work and is not paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its place among the queues of the request.
    pub place: usize,
    /// Its jobs that workers hold.
    pub running: u32,
    /// How long its oldest job has waited.
    pub oldest_wait: Duration,
}

/// Which end of a queue is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEnd {
    Oldest,
    Newest,
}

/// The queue that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the queues of the request.
    pub place: usize,
    pub end: QueueEnd,
}

/// Which queue is next. It has an entry per queue that has a share or a fresh lane, so it is as
/// large as the allocation at most.
#[derive(Clone, Debug, Default)]
pub struct Dispatcher {
    turns: BTreeMap<QueueName, QueueCredit>,
}

/// A queue's place in the turns.
#[derive(Clone, Copy, Debug, Default)]
struct QueueCredit {
    /// Smooth weighted round robin: each round adds the share, being served costs the round.
    credit: i64,
    /// Fetches served in the fresh lane.
    fresh_served: u32,
}

impl Dispatcher {
    /// Chooses among `candidates`, which are in the order of `queues` (the request's).
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

    /// A new allocation: queues that are not in it are dropped.
    pub fn retain(&mut self, allocation: &Allocation) {
        self.turns.retain(|name, _| allocation.queues.contains_key(name));
    }

    /// Smooth weighted round robin among the open candidates that have a share.
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

/// Whether a queue with these rules may have one more of its jobs run.
#[must_use]
pub fn is_open(rules: Option<&QueueAllocation>, running: u32) -> bool {
    rules.and_then(|rules| rules.concurrency).is_none_or(|most| running < most)
}

/// What strict order says.
enum First {
    /// This queue serves.
    Strict(Candidate),
    /// The first queue shares with others.
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

/// A share of 0 is no share: the queue is served in its order like one without.
fn share(rules: &QueueAllocation) -> Option<i64> {
    rules.share.filter(|share| *share > 0).map(i64::from)
}
