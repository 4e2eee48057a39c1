//! Chooses the queue that serves a FETCH, and from which end.
//!
//! Strict and weighted: a queue with guaranteed slots left; otherwise the first queue of the request.
//! If that one has a share, the queues of the request that have shares alternate by weight. By
//! targets: see [`targets`]. Queues at their `concurrency` are skipped, and those whose tenants must leave
//! workers to others ([`crate::lanes`]). The [`Dispatcher`] does no I/O
//! and reads no clock: the caller describes the queues, and reports arrivals and ends of jobs.

mod arrival_slots;
mod backlog_share;
mod demand;
mod fresh_lane;
mod mean_time;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::allocation::{Allocation, DispatchPolicy, QueueAllocation};
use crate::model::QueueName;
use backlog_share::{BacklogCharge, BacklogShare};
use demand::Demand;
use fresh_lane::FreshLane;
pub use fresh_lane::{BACKLOG_PART, QueueEnd};
use mean_time::TIME_UNKNOWN;
use targets::TargetCandidate;

/// Queues whose state is remembered; for one more, all are forgotten. There can't be more at once.
const STATES_MAX: usize = 1 << 16;

/// A queue that has jobs and is not paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its index in the queues of the request.
    pub place: usize,
    /// The number of its jobs that are reserved.
    pub running: u32,
    /// How long its oldest job has waited.
    pub oldest_wait: Duration,
    /// How long its newest job has waited; zero if that is not known.
    pub newest_wait: Duration,
    /// None of its tenants may take a worker now.
    pub is_held_back: bool,
}

/// The chosen queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Its index in the queues of the request.
    pub place: usize,
    pub end: QueueEnd,
    /// To be returned with the end of the job: [`Dispatcher::ended`], [`Dispatcher::lapsed`] or
    /// [`Dispatcher::take_back`]. `None`: dispatch does not measure the job.
    pub charge: Option<DispatchCharge>,
}

/// The workers' time that was charged when a job was taken: an estimate, which the end of the job
/// corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchCharge {
    end: QueueEnd,
    /// To the fresh lane of its queue.
    lane: Option<Duration>,
    /// To its queue as a backlog.
    backlog: Option<BacklogCharge>,
}

/// Remembers which queue is next, and by targets what each needs.
#[derive(Clone, Debug, Default)]
pub struct Dispatcher {
    states: BTreeMap<QueueName, QueueState>,
    /// The workers' time of the last late queue that was in time again: where the next one begins if no other is late.
    clock: f64,
    /// The largest sum of shares in one round, since the weights changed.
    round_max: i64,
}

/// The dispatch state of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueState {
    /// Credit for smooth weighted round robin: each round adds the queue's share, and serving the
    /// queue subtracts the sum of all shares.
    credit: i64,
    lane: FreshLane,
    demand: Demand,
    backlog: BacklogShare,
}

/// An open candidate with its rules.
#[derive(Clone, Copy)]
struct RuledCandidate<'a> {
    candidate: Candidate,
    queue: &'a QueueName,
    rules: &'a QueueAllocation,
    /// Whether the fresh lane serves the queue: it is late, and has jobs that are not.
    has_fresh: bool,
}

impl Dispatcher {
    /// Chooses among `candidates`, which are in the order of `queues` (those of the request).
    /// Returns `None` if no candidate may be served.
    pub fn choose(
        &mut self,
        allocation: &Allocation,
        queues: &[QueueName],
        candidates: impl Iterator<Item = Candidate> + Clone,
        now: Timestamp,
    ) -> Option<Choice> {
        if allocation.is_plain() {
            let first = candidates.into_iter().find(|candidate| !candidate.is_held_back)?;
            return Some(Choice { place: first.place, end: QueueEnd::Oldest, charge: None });
        }
        let ruled = candidates.map(|candidate| RuledCandidate::new(allocation, queues, candidate));
        if allocation.policy == DispatchPolicy::Targets {
            return self.by_targets(queues, ruled, now);
        }
        let open = ruled.filter(RuledCandidate::is_open);
        let chosen = match first_choice(open.clone())? {
            First::Strict(candidate) => candidate,
            First::Shared => self.by_share(open)?,
        };
        let (end, lane) = self.begin(&chosen);
        let charge = lane.map(|lane| DispatchCharge { end, lane: Some(lane), backlog: None });
        Some(Choice { place: chosen.candidate.place, end, charge })
    }

    /// Counts a job that starts to wait in a queue. Needed by targets only.
    pub fn arrived(&mut self, queue: &QueueName, now: Timestamp) {
        self.state(queue).demand.arrived(now);
    }

    /// Corrects the charge of a job that has ended after so long.
    pub fn ended(&mut self, queue: &QueueName, charge: DispatchCharge, ran: Duration) {
        // A reload may have forgotten the queue.
        let Some(state) = self.states.get_mut(queue.as_str()) else { return };
        state.demand.service.add(ran);
        if let Some(estimate) = charge.lane {
            state.lane.finish(charge.end, estimate, ran);
        }
        if let Some(backlog) = charge.backlog {
            state.backlog.end(backlog, ran);
        }
    }

    /// Corrects the charge of a job that was reserved for so long and has not reported its end. How long it ran is not
    /// known, so it does not count for the mean.
    pub fn lapsed(&mut self, queue: &QueueName, charge: DispatchCharge, reserved: Duration) {
        let Some(state) = self.states.get_mut(queue.as_str()) else { return };
        if charge.lane.is_some() {
            state.lane.leave(charge.end);
        }
        if let Some(backlog) = charge.backlog {
            state.backlog.end(backlog, reserved);
        }
    }

    /// Takes back the charge of a job that was not delivered, or that waits again.
    pub fn take_back(&mut self, queue: &QueueName, charge: DispatchCharge) {
        let Some(state) = self.states.get_mut(queue.as_str()) else { return };
        if let Some(estimate) = charge.lane {
            state.lane.take_back(charge.end, estimate);
        }
        if let Some(backlog) = charge.backlog {
            state.backlog.take_back(backlog);
        }
    }

    /// Forgets all jobs in progress, because all jobs were deleted.
    pub fn forget_running(&mut self) {
        for state in self.states.values_mut() {
            state.lane = FreshLane::default();
            state.backlog.forget_running();
        }
    }

    /// Drops the state that a new allocation does not use.
    pub fn retain(&mut self, old: &Allocation, new: &Allocation) {
        if old.policy != new.policy {
            *self = Self::default();
        }
        // What queues owe each other was in proportion to the old weights.
        self.round_max = 0;
        if new.policy == DispatchPolicy::Strict {
            self.states.retain(|name, _| new.queues.contains_key(name));
        }
    }

    /// Chooses by smooth weighted round robin among the open candidates that have a share.
    fn by_share<'a>(
        &mut self,
        open: impl Iterator<Item = RuledCandidate<'a>> + Clone,
    ) -> Option<RuledCandidate<'a>> {
        let round: i64 = open.clone().filter_map(|candidate| share(candidate.rules)).sum();
        self.round_max = self.round_max.max(round);
        let most = self.round_max;
        let mut best: Option<(i64, RuledCandidate<'a>)> = None;
        for candidate in open {
            let Some(share) = share(candidate.rules) else {
                continue;
            };
            let state = self.state(candidate.queue);
            state.credit = state.credit.clamp(-most, most) + share;
            if best.as_ref().is_none_or(|(credit, _)| state.credit > *credit) {
                best = Some((state.credit, candidate));
            }
        }
        let (_, chosen) = best?;
        self.state(chosen.queue).credit -= round;
        Some(chosen)
    }

    fn by_targets<'a>(
        &mut self,
        queues: &[QueueName],
        candidates: impl Iterator<Item = RuledCandidate<'a>> + Clone,
        now: Timestamp,
    ) -> Option<Choice> {
        self.note_late(queues, candidates.clone(), now);
        // This worker, and those of the queues that have jobs: the others don't compete.
        let running = candidates.clone().map(|it| it.candidate.running);
        let workers = running.fold(1, u32::saturating_add);
        let open = candidates.filter(RuledCandidate::is_open);
        let target_candidates = open.map(|ruled| self.target_candidate(ruled, now));
        let TargetCandidate { candidate: chosen, .. } =
            targets::choose(target_candidates, workers)?;
        let (end, lane) = self.begin(&chosen);
        let is_of_backlog = chosen.is_late() || (lane.is_some() && end == QueueEnd::Oldest);
        let backlog = is_of_backlog.then(|| self.charge_backlog(&chosen, now));
        let charge = Some(DispatchCharge { end, lane, backlog });
        Some(Choice { place: chosen.candidate.place, end, charge })
    }

    /// Notes which queues of the request are late. The candidates are in the order of the queues.
    fn note_late<'a>(
        &mut self,
        queues: &[QueueName],
        candidates: impl Iterator<Item = RuledCandidate<'a>> + Clone,
        now: Timestamp,
    ) {
        let states = &self.states;
        let spent = candidates.clone().filter(RuledCandidate::is_late).filter_map(|it| {
            let backlog = &states.get(it.queue.as_str())?.backlog;
            backlog.is_late.then(|| (it.is_open(), backlog.spent(now)))
        });
        // A queue at its concurrency gets less than its share: the others are not measured by it.
        let open = spent.clone().filter(|(is_open, _)| *is_open).map(|(_, spent)| spent);
        let least =
            open.reduce(f64::min).or_else(|| spent.map(|(_, spent)| spent).reduce(f64::min));
        let begin = least.unwrap_or(self.clock);
        let mut late = candidates.filter(RuledCandidate::is_late).peekable();
        for (place, queue) in queues.iter().enumerate() {
            if let Some(ruled) = late.next_if(|it| it.candidate.place == place) {
                let (backlog, weight) = (&mut self.state(queue).backlog, weight(ruled.rules));
                match backlog.is_late {
                    true if ruled.is_open() => backlog.limit(begin, weight),
                    true => backlog.keep_up(begin, weight, now),
                    false => backlog.enter(begin, weight, now),
                }
            } else if let Some(state) = self.states.get_mut(queue.as_str())
                && state.backlog.is_late
            {
                state.backlog.leave(now);
                if least.is_none() {
                    self.clock = self.clock.max(state.backlog.spent(now));
                }
            }
        }
    }

    fn target_candidate<'a>(
        &mut self,
        ruled: RuledCandidate<'a>,
        now: Timestamp,
    ) -> TargetCandidate<RuledCandidate<'a>> {
        let RuledCandidate { candidate, queue, rules, has_fresh } = ruled;
        let state = self.state(queue);
        let needed = state.demand.workers(now).max(rules.guaranteed_slots);
        // Jobs of the backlog must not keep new ones waiting.
        let (running, wait) = match has_fresh {
            true => (state.lane.running, candidate.newest_wait),
            false => (candidate.running, candidate.oldest_wait),
        };
        TargetCandidate {
            candidate: ruled,
            wait,
            target: rules.target_latency,
            has_fresh,
            running,
            needed: rules.concurrency.map_or(needed, |most| needed.min(most)),
            spent: state.backlog.spent(now),
        }
    }

    /// Charges a job of a backlog.
    fn charge_backlog(&mut self, chosen: &RuledCandidate<'_>, now: Timestamp) -> BacklogCharge {
        let state = self.state(chosen.queue);
        let estimate = state.demand.service.known().unwrap_or(TIME_UNKNOWN);
        state.backlog.charge(estimate, weight(chosen.rules), now)
    }

    /// Chooses the end of a queue. Returns what its fresh lane is charged.
    fn begin(&mut self, chosen: &RuledCandidate<'_>) -> (QueueEnd, Option<Duration>) {
        if !chosen.has_fresh {
            return (QueueEnd::Oldest, None);
        }
        let lane = &mut self.state(chosen.queue).lane;
        let end = lane.next_end();
        (end, Some(lane.begin(end)))
    }

    fn state(&mut self, queue: &QueueName) -> &mut QueueState {
        if self.states.len() >= STATES_MAX && !self.states.contains_key(queue) {
            self.states.clear();
        }
        self.states.entry(queue.clone()).or_default()
    }
}

impl<'a> RuledCandidate<'a> {
    fn new(allocation: &'a Allocation, queues: &'a [QueueName], candidate: Candidate) -> Self {
        let queue = &queues[candidate.place];
        let rules = allocation.of(queue);
        let is_between = |target| candidate.oldest_wait > target && candidate.newest_wait <= target;
        let has_fresh = rules.fresh_lane && rules.target_latency.is_some_and(is_between);
        Self { candidate, queue, rules, has_fresh }
    }

    /// Returns whether it may run one more job.
    fn is_open(&self) -> bool {
        let has_room = self.rules.concurrency.is_none_or(|most| self.candidate.running < most);
        has_room && !self.candidate.is_held_back
    }

    /// Returns whether it has no jobs in time, or no target.
    fn is_late(&self) -> bool {
        let wait = self.candidate.oldest_wait;
        !self.has_fresh && self.rules.target_latency.is_none_or(|target| wait > target)
    }
}

/// The result of strict order.
enum First<'a> {
    /// This queue is served.
    Strict(RuledCandidate<'a>),
    /// The first queue has a share, so the choice is by weight.
    Shared,
}

fn first_choice<'a>(open: impl Iterator<Item = RuledCandidate<'a>> + Clone) -> Option<First<'a>> {
    let is_guaranteed = |it: &RuledCandidate<'a>| it.candidate.running < it.rules.guaranteed_slots;
    if let Some(candidate) = open.clone().find(is_guaranteed) {
        return Some(First::Strict(candidate));
    }
    let first = open.into_iter().next()?;
    let shares = share(first.rules).is_some();
    Some(if shares { First::Shared } else { First::Strict(first) })
}

/// Returns the share. A share of 0 counts as none: the queue is served in strict order.
fn share(rules: &QueueAllocation) -> Option<i64> {
    rules.share.filter(|share| *share > 0).map(i64::from)
}

fn weight(rules: &QueueAllocation) -> f64 {
    rules.share.filter(|share| *share > 0).map_or(1.0, f64::from)
}
