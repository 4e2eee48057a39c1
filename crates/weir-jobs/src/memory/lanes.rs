//! The lanes of one queue with `fair_by`, and the jobs in them.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::allocation::{FairRules, QueueAllocation};
use crate::lanes::{BlockedJobs, LaneCounts, LaneId, Lanes, LimitedLane, Room, TenantKey};
use crate::resources::{BlockedEnds, ResourceSet, TypeClass, TypeClasses};
use crate::store::TenantDepth;

#[derive(Debug)]
pub(super) struct MemoryLanes<J> {
    pub(super) rules: FairRules,
    pub(super) concurrency: Option<u32>,
    /// The newest jobs may be served first.
    is_fresh: bool,
    lanes: Lanes,
    blocked_ends: BlockedEnds,
    /// Jobs that wait, by lane and order.
    jobs: BTreeMap<(LaneId, u64), J>,
}

impl<J: Copy> MemoryLanes<J> {
    /// Returns the lanes of a queue with these rules.
    pub(super) fn new(fair: &FairRules, queue: &QueueAllocation) -> Self {
        let mut new = Self {
            rules: fair.clone(),
            concurrency: None,
            is_fresh: false,
            lanes: Lanes::new(fair.tenants_max),
            blocked_ends: BlockedEnds::default(),
            jobs: BTreeMap::new(),
        };
        new.apply(fair, queue);
        new
    }

    /// Applies rules that need no other lanes. The next fetch looks at those with jobs again.
    pub(super) fn apply(&mut self, rules: &FairRules, queue: &QueueAllocation) {
        (self.rules, self.concurrency) = (rules.clone(), queue.concurrency);
        self.is_fresh = queue.has_fresh_lane();
        self.unblock_where(|_, _| true);
        let weights = rules.weights.iter();
        self.lanes.set_weights(weights.map(|(name, weight)| (key(Some(name)), *weight)));
        let of = rules.limits.of.iter().map(|(name, limits)| (key(Some(name)), *limits));
        self.lanes.set_limits(rules.limits.each, of);
    }

    /// Returns whether the lanes of these rules are the same.
    pub(super) fn has_lanes_of(&self, rules: &FairRules) -> bool {
        self.rules.by == rules.by
            && self.rules.tenants_max == rules.tenants_max
            && self.rules.limits.limit_the_same(&rules.limits)
    }

    fn tenant(&self, json: &[u8]) -> TenantKey {
        key(self.rules.by.find(json).as_deref())
    }

    /// Returns the tenants with the most jobs that a limit holds back, each with its next job.
    pub(super) fn limited(&self, max: usize) -> Vec<(LimitedLane, J)> {
        let next = |lane: LaneId| self.jobs.range((lane, 0)..=(lane, u64::MAX)).next();
        let limited = self.lanes.limited(max).into_iter();
        limited.filter_map(|lane| Some((lane, *next(lane.id)?.1))).collect()
    }

    /// Returns how many jobs wait of the tenant of a job with this text.
    pub(super) fn tenant_depth(&self, json: &[u8]) -> TenantDepth {
        let name = self.tenant_name(json);
        let (lane, waiting) = self.lanes.waiting_of(key(name.as_deref()));
        let LaneCounts { tenants, shared, .. } = self.lanes.counts();
        TenantDepth { lane, name, waiting, lanes: tenants + shared }
    }

    /// Returns the name of the tenant of a job.
    pub(super) fn tenant_name(&self, json: &[u8]) -> Option<String> {
        Some(self.rules.by.find(json)?.into_owned())
    }

    pub(super) fn counts(&self) -> LaneCounts {
        self.lanes.counts()
    }

    pub(super) const fn blocked(&self) -> BlockedJobs {
        self.lanes.blocked()
    }

    /// Wakes the tenants whose next job may start by `now`.
    pub(super) fn wake(&mut self, now: Timestamp) {
        self.lanes.wake(now);
    }

    /// Returns when the next job of a tenant may start that waits for its rate.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.lanes.next_wake()
    }

    /// Counts a start in a lane with a job in progress.
    pub(super) fn count_start(&mut self, lane: LaneId, now: Timestamp) {
        self.lanes.count_start(lane, now);
    }

    /// Adds a job that waits. Returns its lane.
    pub(super) fn add(&mut self, id: J, order: u64, json: &[u8]) -> LaneId {
        let lane = self.lanes.add(self.tenant(json));
        self.jobs.insert((lane, order), id);
        self.note_change(lane);
        lane
    }

    /// Removes a job that waits.
    pub(super) fn remove(&mut self, lane: LaneId, order: u64) {
        self.jobs.remove(&(lane, order));
        self.lanes.remove(lane);
        self.note_change(lane);
    }

    /// A lane may have another next job now.
    fn note_change(&mut self, lane: LaneId) {
        if self.lanes.is_blocked(lane) {
            self.lanes.unblock(lane);
        }
    }

    /// Counts a job in progress. Returns its lane.
    pub(super) fn start(&mut self, json: &[u8]) -> LaneId {
        self.lanes.add_running(self.tenant(json))
    }

    /// Ends a job in progress. `took`: `None` charges nothing.
    pub(super) fn end(&mut self, lane: LaneId, took: Option<Duration>) {
        match took {
            Some(took) => self.lanes.end(lane, took),
            None => self.lanes.take_back(lane),
        }
    }

    /// Returns the next job: the oldest of the least served lane; or its newest, if its order is at least
    /// `newest_from`. Lanes whose next job is of a class that may not start are blocked.
    pub(super) fn next(
        &mut self,
        room: Room,
        newest_from: Option<u64>,
        class_of: impl Fn(J) -> TypeClass,
        is_open: impl Fn(TypeClass) -> bool,
    ) -> Option<J> {
        loop {
            let lane = self.lanes.pick(room)?;
            let mut jobs = self.jobs.range((lane, 0)..=(lane, u64::MAX));
            let (oldest, newest) = (jobs.next()?, jobs.next_back());
            let newest = newest.filter(|_| self.is_fresh).unwrap_or(oldest);
            let is_new = newest_from.is_some_and(|from| newest.0.1 >= from);
            let next = if is_new { [newest, oldest] } else { [oldest, newest] };
            if let Some((_, job)) = next.into_iter().find(|(_, job)| is_open(class_of(**job))) {
                return Some(*job);
            }
            let number = self.blocked_ends.number(class_of(*oldest.1), class_of(*newest.1));
            self.lanes.block(lane, number);
        }
    }

    /// Lets the next fetch look at all tenants whose next job may start.
    pub(super) fn unblock(&mut self, classes: &TypeClasses, blocked: ResourceSet) {
        self.unblock_where(|ends, number| ends.is_open(number, classes, blocked));
    }

    fn unblock_where(&mut self, is_meant: impl Fn(&BlockedEnds, u16) -> bool) {
        let numbers = self.lanes.blocked_classes().map(|(number, _)| number);
        let numbers = numbers.filter(|number| is_meant(&self.blocked_ends, *number));
        for number in numbers.collect::<Vec<_>>() {
            self.lanes.unblock_some(number, usize::MAX);
        }
    }

    /// Returns the classes of jobs that wait for resources, as far as fetches have found them, and the number of these jobs.
    pub(super) fn blocked_classes(&self) -> impl Iterator<Item = (TypeClass, u64)> {
        let blocked = self.lanes.blocked_classes();
        blocked.map(|(number, jobs)| (self.blocked_ends.oldest(number), jobs))
    }

    /// Returns the classes of the newest jobs of tenants that wait.
    pub(super) fn blocked_newest(&self) -> impl Iterator<Item = TypeClass> {
        self.lanes.blocked_classes().map(|(number, _)| self.blocked_ends.newest(number))
    }

    pub(super) fn can_serve(&self, room: Room) -> bool {
        self.lanes.can_serve(room)
    }
}

fn key(name: Option<&str>) -> TenantKey {
    TenantKey::of(name, 0)
}
