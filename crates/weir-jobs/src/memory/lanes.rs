//! The lanes of one queue with `fair_by`, and the jobs in them.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::allocation::FairRules;
use crate::lanes::{BlockedJobs, LaneCounts, LaneId, Lanes, LimitedLane, Room, TenantKey};
use crate::resources::{ResourceSet, TypeClass, TypeClasses};
use crate::store::TenantDepth;

#[derive(Debug)]
pub(super) struct MemoryLanes<J> {
    pub(super) rules: FairRules,
    pub(super) concurrency: Option<u32>,
    lanes: Lanes,
    /// Jobs that wait, by lane and order.
    jobs: BTreeMap<(LaneId, u64), J>,
}

impl<J: Copy> MemoryLanes<J> {
    pub(super) fn new(rules: &FairRules, concurrency: Option<u32>) -> Self {
        let lanes = Lanes::new(rules.tenants_max);
        let mut new = Self { rules: rules.clone(), concurrency, lanes, jobs: BTreeMap::new() };
        new.apply(rules, concurrency);
        new
    }

    /// Applies rules that need no other lanes. The next fetch looks at those with jobs again.
    pub(super) fn apply(&mut self, rules: &FairRules, concurrency: Option<u32>) {
        (self.rules, self.concurrency) = (rules.clone(), concurrency);
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
            let is_new = |((_, order), _): &(&(LaneId, u64), &J)| {
                newest_from.is_some_and(|from| *order >= from)
            };
            let mut next = newest.filter(is_new).into_iter().chain([oldest]);
            if let Some((_, job)) = next.find(|(_, job)| is_open(class_of(**job))) {
                return Some(*job);
            }
            let class = class_of(*oldest.1);
            self.lanes.block(lane, class.0);
        }
    }

    /// Lets the next fetch look at all tenants whose next job may start.
    pub(super) fn unblock(&mut self, classes: &TypeClasses, blocked: ResourceSet) {
        let open =
            self.blocked_classes().filter(|(class, _)| classes.uses(*class).is_open(blocked));
        for (class, _) in open.collect::<Vec<_>>() {
            self.lanes.unblock_some(class.0, usize::MAX);
        }
    }

    /// Returns the classes of jobs that wait for resources, as far as fetches have found them, and the number of these jobs.
    pub(super) fn blocked_classes(&self) -> impl Iterator<Item = (TypeClass, u64)> {
        self.lanes.blocked_classes().map(|(class, jobs)| (TypeClass(class), jobs))
    }

    pub(super) fn can_serve(&self, room: Room) -> bool {
        self.lanes.can_serve(room)
    }
}

fn key(name: Option<&str>) -> TenantKey {
    TenantKey::of(name, 0)
}
