//! The lanes of a queue with `fair_by`, and the jobs in them.
//!
//! A lane is chosen by the job's text, which is read from the log if the job was there before the lanes
//! (after a start, or when `fair_by` changes): [`super::fairness`] does so in the background, oldest job
//! first. Until it is done, newer jobs are in no lane, so that the jobs of a tenant stay in order.

use std::collections::HashMap;

use weir_base::clock::Timestamp;

use super::arena::{Arena, JobIndex};
use super::lane_jobs::{LaneJobs, LaneLinks};
use crate::allocation::{FairRules, TenantLimits, unrecorded_max};
use crate::key_path::KeyPath;
use crate::lanes::{BlockedJobs, LaneCounts, LaneId, Lanes, Room, TenantKey};
use crate::metrics::{JobServerLimit, JobsMetrics};

/// A job in progress of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningLane {
    lane: LaneId,
    /// See [`FairQueue::generation`].
    generation: u32,
}

/// To which lane a job goes that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneChoice {
    Tenant(TenantKey),
    /// That from which it was taken.
    Same(RunningLane),
}

impl LaneChoice {
    /// For a job that does not wait, or in a queue without lanes.
    pub(crate) const NONE: Self = Self::Tenant(TenantKey::NONE);
}

/// A queue whose jobs are being added to its lanes.
#[derive(Debug)]
pub(crate) struct Relaning {
    pub(crate) queue: u16,
    /// Of the lanes. The queue may have got others since.
    pub(crate) generation: u32,
    /// Jobs in progress that are not counted yet: their jids and the tickets of their reservations.
    pub(crate) running: Vec<(Box<str>, u64)>,
}

impl Relaning {
    #[cfg(test)]
    pub(crate) const fn is_of(&self, queue: u16, generation: u32) -> bool {
        self.queue == queue && self.generation == generation
    }
}

/// The lanes of one queue.
#[derive(Debug)]
pub(crate) struct FairQueue {
    by: KeyPath,
    tenants_max: usize,
    limits: TenantLimits,
    pub(crate) headroom: u32,
    /// Of the queue, if it has a limit.
    pub(crate) concurrency: Option<u32>,
    /// Of the hashes of tenants.
    seed: u64,
    /// A number that no other lanes of this process have.
    pub(crate) generation: u32,
    lanes: Lanes,
    jobs: LaneJobs,
    /// Jobs that wait with an order up to this are in lanes. `None`: all are.
    pub(crate) laned_up_to: Option<u64>,
    metrics: JobsMetrics,
}

impl FairQueue {
    /// Returns the lanes of a queue whose jobs are still to be added to them.
    pub(crate) fn new(rules: &FairRules, generation: u32, seed: u64, metrics: JobsMetrics) -> Self {
        let mut queue = Self {
            by: rules.by.clone(),
            tenants_max: rules.tenants_max,
            limits: rules.limits.clone(),
            headroom: 0,
            concurrency: None,
            seed,
            generation,
            lanes: Lanes::new(rules.tenants_max),
            jobs: LaneJobs::default(),
            laned_up_to: Some(0),
            metrics,
        };
        queue.apply(rules, None);
        queue
    }

    /// Returns whether the lanes of these rules are the same.
    pub(crate) fn has_lanes_of(&self, rules: &FairRules) -> bool {
        self.by == rules.by
            && self.tenants_max == rules.tenants_max
            && self.limits.limit_the_same(&rules.limits)
    }

    /// Applies the rules that need no other lanes.
    pub(crate) fn apply(&mut self, rules: &FairRules, concurrency: Option<u32>) {
        self.headroom = rules.headroom;
        self.concurrency = concurrency;
        let seed = self.seed;
        let weights = rules.weights.iter();
        let weights = weights.map(|(name, weight)| (TenantKey::of(Some(name), seed), *weight));
        self.lanes.set_weights(weights.collect::<HashMap<_, _>>());
        self.limits = rules.limits.clone();
        let of = rules.limits.of.iter();
        let of = of.map(|(name, limits)| (TenantKey::of(Some(name), seed), *limits));
        self.lanes.set_limits(rules.limits.each, of);
    }

    /// Returns the tenant of a job.
    pub(crate) fn tenant(&self, json: &[u8]) -> TenantKey {
        TenantKey::of(self.by.find(json).as_deref(), self.seed)
    }

    pub(crate) fn counts(&self) -> LaneCounts {
        self.lanes.counts()
    }

    /// Returns the number of jobs that wait because of a limit of their tenants.
    pub(crate) const fn blocked(&self) -> BlockedJobs {
        self.lanes.blocked()
    }

    /// Wakes the tenants whose next job may start by `now`.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        self.lanes.wake(now);
    }

    /// Returns when the next job of a tenant may start that waits for its rate.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.lanes.next_wake()
    }

    /// Takes back the start of a job that waits again in its lane, or is still in progress there.
    pub(crate) fn take_back_start(&mut self, running: RunningLane) {
        if self.is_current(running) {
            self.lanes.take_back_start(running.lane);
        }
    }

    /// Returns the number of jobs that wait in lanes.
    pub(crate) const fn waiting(&self) -> usize {
        self.lanes.waiting()
    }

    /// Returns whether a lane may be served.
    pub(crate) fn can_serve(&self, room: Room) -> bool {
        self.lanes.can_serve(room)
    }

    /// Adds a job that waits, unless its turn to be added comes later.
    pub(crate) fn add(
        &mut self,
        job: JobIndex,
        choice: LaneChoice,
        links: &mut LaneLinks,
        arena: &Arena,
    ) {
        if self.is_laned(arena.get(job).order) {
            self.add_to_lane(job, choice, links, arena);
        }
    }

    /// Adds a job that waits.
    pub(crate) fn add_to_lane(
        &mut self,
        job: JobIndex,
        choice: LaneChoice,
        links: &mut LaneLinks,
        arena: &Arena,
    ) {
        let lane = match choice {
            LaneChoice::Same(RunningLane { lane, generation }) if generation == self.generation => {
                self.lanes.add_to(lane);
                lane
            }
            LaneChoice::Same(_) => self.lanes.add(TenantKey::NONE),
            LaneChoice::Tenant(tenant) => self.lanes.add(tenant),
        };
        if self.lanes.is_shared(lane) {
            self.metrics.limit_hit(JobServerLimit::TenantsMax);
        }
        self.jobs.insert(lane, job, links, arena);
    }

    /// Removes a job that waits.
    pub(crate) fn remove(&mut self, job: JobIndex, order: u64, links: &mut LaneLinks) {
        if self.is_laned(order) {
            let lane = self.jobs.remove(job, links);
            self.lanes.remove(lane);
        }
    }

    /// Removes all jobs that wait.
    pub(crate) fn clear(&mut self) {
        self.lanes.remove_all();
        self.jobs.clear();
    }

    /// Starts the next job: the oldest of the least served lane; or its newest, if it is newer than
    /// `newest_from`.
    pub(crate) fn take(
        &mut self,
        room: Room,
        newest_from: Option<u64>,
        now: Timestamp,
        links: &mut LaneLinks,
        arena: &Arena,
    ) -> Option<(JobIndex, RunningLane)> {
        let lane = self.lanes.pick(room)?;
        let is_new = |job: &JobIndex| newest_from.is_some_and(|from| arena.get(*job).order >= from);
        let newest = self.jobs.last(lane).filter(is_new);
        let job = newest.or_else(|| self.jobs.first(lane))?;
        self.jobs.remove(job, links);
        self.lanes.start(lane, now);
        Some((job, RunningLane { lane, generation: self.generation }))
    }

    /// Counts a job that was in progress before there were lanes.
    pub(crate) fn add_running(&mut self, tenant: TenantKey) -> RunningLane {
        RunningLane { lane: self.lanes.add_running(tenant), generation: self.generation }
    }

    /// Ends a job in progress, which took so long. `None`: nothing is charged.
    pub(crate) fn end(&mut self, running: RunningLane, took: Option<std::time::Duration>) {
        if running.generation != self.generation {
            return;
        }
        match took {
            Some(took) => self.lanes.end(running.lane, took),
            None => self.lanes.take_back(running.lane),
        }
    }

    /// Checks the counts: jobs that wait and are in lanes, and those in progress of these lanes.
    #[cfg(test)]
    pub(crate) fn assert_counts(&self, waiting: usize, running: usize) {
        assert_eq!((self.lanes.waiting(), self.lanes.running()), (waiting, running));
    }

    /// Returns whether the tenants of a lane have a limit.
    pub(crate) fn is_limited(&self, running: RunningLane) -> bool {
        self.is_current(running) && self.lanes.is_limited(running.lane)
    }

    /// Returns whether so few jobs of a lane run that their reservations need no record.
    pub(crate) fn is_far_from_limit(&self, running: RunningLane) -> bool {
        if !self.is_current(running) {
            return false;
        }
        let (running, most) = self.lanes.running_of(running.lane);
        running <= unrecorded_max(most)
    }

    pub(crate) const fn is_current(&self, running: RunningLane) -> bool {
        running.generation == self.generation
    }

    fn is_laned(&self, order: u64) -> bool {
        self.laned_up_to.is_none_or(|up_to| order <= up_to)
    }
}
