//! Chooses the queue that serves a FETCH, and from which end.
//!
//! Strict and weighted: a queue with guaranteed slots left; otherwise the first queue of the request.
//! If that one has a share, the queues of the request that have shares alternate by weight. By
//! targets: see [`targets`]. Queues at their `concurrency` are skipped. The [`Dispatcher`] does no I/O
//! and reads no clock: the caller describes the queues, and reports arrivals and ends of jobs.

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
use demand::Demand;
use fresh_lane::FreshLane;
pub use fresh_lane::{BACKLOG_PART, QueueEnd};
use mean_time::TIME_UNKNOWN;
use targets::TargetCandidate;

/// Queues whose state is remembered; for one more, all are forgotten. There can't be more at once.
const STATES_MAX: usize = 1 << 16;

/// Workers' time, relative to its weight, that a queue gets at most in advance of others because it had
/// no backlog before.
const CREDIT_MAX_SECONDS: f64 = 60.0;

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
    backlog: Option<Duration>,
}

/// Remembers which queue is next, and by targets what each needs.
#[derive(Clone, Debug, Default)]
pub struct Dispatcher {
    states: BTreeMap<QueueName, QueueState>,
    /// A queue that had no backlog for a while begins here with its `spent`.
    clock: f64,
}

/// The dispatch state of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueState {
    /// Credit for smooth weighted round robin: each round adds the queue's share, and serving the
    /// queue subtracts the sum of all shares.
    credit: i64,
    lane: FreshLane,
    demand: Demand,
    /// Workers' time that it got while it was late, in seconds relative to its weight.
    spent: f64,
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
            let first = candidates.into_iter().next()?;
            return Some(Choice { place: first.place, end: QueueEnd::Oldest, charge: None });
        }
        let ruled = |candidate| RuledCandidate::new(allocation, queues, candidate);
        let open = candidates.map(ruled).filter(|it| is_open(Some(it.rules), it.candidate.running));
        if allocation.policy == DispatchPolicy::Targets {
            let chosen = self.by_targets(open, now)?;
            let backlog = chosen.is_late().then(|| self.charge_backlog(&chosen.candidate));
            return Some(self.take(&chosen.candidate, backlog, true));
        }
        let chosen = match first_choice(open.clone())? {
            First::Strict(candidate) => candidate,
            First::Shared => self.by_share(open)?,
        };
        Some(self.take(&chosen, None, false))
    }

    /// Counts a job that starts to wait in a queue. Needed by targets only.
    pub fn arrived(&mut self, queue: &QueueName, now: Timestamp) {
        self.state(queue).demand.arrived(now);
    }

    /// Corrects the charge of a job that has ended after so long.
    pub fn ended(
        &mut self,
        allocation: &Allocation,
        queue: &QueueName,
        charge: DispatchCharge,
        ran: Duration,
    ) {
        // A reload may have forgotten the queue.
        let Some(state) = self.states.get_mut(queue.as_str()) else { return };
        state.demand.service.add(ran);
        if let Some(estimate) = charge.lane {
            state.lane.finish(charge.end, estimate, ran);
        }
        if let Some(estimate) = charge.backlog {
            let seconds = ran.as_secs_f64() - estimate.as_secs_f64();
            state.spent += seconds / weight(allocation.of(queue));
        }
    }

    /// Ends the charge of a job whose reservation has expired. Nothing is known about its time, so the
    /// estimate remains.
    pub fn lapsed(&mut self, queue: &QueueName, charge: DispatchCharge) {
        if let Some(state) = self.states.get_mut(queue.as_str())
            && charge.lane.is_some()
        {
            state.lane.leave(charge.end);
        }
    }

    /// Takes back the charge of a job that was not delivered, or that waits again.
    pub fn take_back(
        &mut self,
        allocation: &Allocation,
        queue: &QueueName,
        charge: DispatchCharge,
    ) {
        let Some(state) = self.states.get_mut(queue.as_str()) else { return };
        if let Some(estimate) = charge.lane {
            state.lane.take_back(charge.end, estimate);
        }
        if let Some(estimate) = charge.backlog {
            state.spent -= estimate.as_secs_f64() / weight(allocation.of(queue));
        }
    }

    /// Forgets all jobs in progress, because all jobs were deleted.
    pub fn forget_running(&mut self) {
        for state in self.states.values_mut() {
            state.lane = FreshLane::default();
        }
    }

    /// Drops the state that a new allocation does not use.
    pub fn retain(&mut self, old: &Allocation, new: &Allocation) {
        if old.policy != new.policy {
            *self = Self::default();
        }
        if new.policy == DispatchPolicy::Strict {
            self.states.retain(|name, _| new.queues.contains_key(name));
        }
    }

    /// Chooses by smooth weighted round robin among the open candidates that have a share.
    fn by_share<'a>(
        &mut self,
        open: impl Iterator<Item = RuledCandidate<'a>>,
    ) -> Option<RuledCandidate<'a>> {
        let mut round = 0;
        let mut best: Option<(i64, RuledCandidate<'a>)> = None;
        for candidate in open {
            let Some(share) = share(candidate.rules) else {
                continue;
            };
            let state = self.state(candidate.queue);
            state.credit += share;
            round += share;
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
        open: impl Iterator<Item = RuledCandidate<'a>>,
        now: Timestamp,
    ) -> Option<TargetCandidate<RuledCandidate<'a>>> {
        targets::choose(open.map(|ruled| {
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
                spent: state.spent,
            }
        }))
    }

    /// Charges a queue that is late. Returns the estimated time of the job.
    fn charge_backlog(&mut self, chosen: &RuledCandidate<'_>) -> Duration {
        let clock = self.clock;
        let state = self.state(chosen.queue);
        let estimate = state.demand.service.known().unwrap_or(TIME_UNKNOWN);
        state.spent = state.spent.max(clock) + estimate.as_secs_f64() / weight(chosen.rules);
        self.clock = clock.max(state.spent - CREDIT_MAX_SECONDS);
        estimate
    }

    /// Chooses the end of a queue. A job with a charge is measured.
    fn take(
        &mut self,
        chosen: &RuledCandidate<'_>,
        backlog: Option<Duration>,
        is_measured: bool,
    ) -> Choice {
        let (mut end, mut lane) = (QueueEnd::Oldest, None);
        if chosen.has_fresh {
            let state = self.state(chosen.queue);
            end = state.lane.next_end();
            lane = Some(state.lane.begin(end));
        }
        let is_charged = is_measured || lane.is_some();
        let charge = is_charged.then_some(DispatchCharge { end, lane, backlog });
        Choice { place: chosen.candidate.place, end, charge }
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
}

/// Returns whether a queue with these rules may run one more job.
#[must_use]
pub fn is_open(rules: Option<&QueueAllocation>, running: u32) -> bool {
    rules.and_then(|rules| rules.concurrency).is_none_or(|most| running < most)
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
