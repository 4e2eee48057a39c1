//! The lanes of a queue with `fair_by`, and the jobs in them.
//!
//! If job types use shared resources, every other queue has lanes as well: one for each class of types. They are served
//! in the order of their jobs, without those whose resources have no room.
//!
//! A lane is chosen by the job's text, which is read from the log if the job was there before the lanes
//! (after a start, or when `fair_by` changes): [`super::fairness`] does so in the background, oldest job
//! first. Until it is done, newer jobs are in no lane, so that the jobs of a tenant stay in order.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::clock::Timestamp;

use super::arena::{Arena, JobIndex};
use super::lane_jobs::{LaneJobs, LaneLinks};
use crate::allocation::{FairRules, TenantLimits, unrecorded_max};
use crate::key_path::KeyPath;
use crate::lanes::{BlockedJobs, LaneCounts, LaneId, Lanes, LimitedLane, Room, TenantKey};
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::resources::{BlockedEnds, ResourceSet, TypeClass, TypeClasses};
use crate::store::TenantDepth;

/// A job in progress of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningLane {
    lane: LaneId,
    /// See [`FairQueue::generation`].
    generation: u32,
    class: TypeClass,
}

/// To which lane a job goes that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneChoice {
    Tenant(TenantKey, TypeClass),
    /// That from which it was taken.
    Same(RunningLane),
}

impl LaneChoice {
    /// For a job that does not wait, or in a queue without lanes.
    pub(crate) const NONE: Self = Self::Tenant(TenantKey::NONE, TypeClass::NONE);
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

/// What makes the lanes of a queue: one for each tenant, or for each class of job types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneRules<'a> {
    /// `None`: a lane for each class.
    pub(crate) fair: Option<&'a FairRules>,
    pub(crate) classes: &'a Arc<TypeClasses>,
    /// Of the queue, if it has a limit.
    pub(crate) concurrency: Option<u32>,
    /// The newest jobs may be served first.
    pub(crate) is_fresh: bool,
}

/// Which job of a queue is next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingOrder {
    pub(crate) room: Room,
    /// The newest job, if its order is at least this.
    pub(crate) newest_from: Option<u64>,
    /// Resources of which no job may start.
    pub(crate) blocked: ResourceSet,
}

/// Lanes that one fetch finds blocked before other work continues.
const BLOCKED_PER_FETCH: usize = if cfg!(test) { 2 } else { 1_024 };

/// The lanes of one queue.
#[derive(Debug)]
pub(crate) struct FairQueue {
    /// `None`: a lane for each class.
    by: Option<KeyPath>,
    classes: Arc<TypeClasses>,
    /// The newest jobs are served first, if they are in time. Of a tenant whose job at one end must wait for a resource, the
    /// one at the other end is served.
    is_fresh: bool,
    blocked_ends: BlockedEnds,
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
    pub(crate) fn new(
        rules: LaneRules<'_>,
        generation: u32,
        seed: u64,
        metrics: JobsMetrics,
    ) -> Self {
        let tenants_max = tenants_max(rules.fair);
        let mut queue = Self {
            by: rules.fair.map(|fair| fair.by.clone()),
            classes: Arc::clone(rules.classes),
            is_fresh: false,
            blocked_ends: BlockedEnds::default(),
            tenants_max,
            limits: rules.fair.map(|fair| fair.limits.clone()).unwrap_or_default(),
            headroom: 0,
            concurrency: None,
            seed,
            generation,
            lanes: Lanes::new(tenants_max),
            jobs: LaneJobs::default(),
            laned_up_to: Some(0),
            metrics,
        };
        queue.apply(rules);
        queue
    }

    /// Returns whether the lanes of these rules are the same.
    pub(crate) fn has_lanes_of(&self, rules: LaneRules<'_>) -> bool {
        let limits_the_same = |fair: &FairRules| self.limits.limit_the_same(&fair.limits);
        self.by.as_ref() == rules.fair.map(|fair| &fair.by)
            && self.tenants_max == tenants_max(rules.fair)
            && rules.fair.is_none_or(limits_the_same)
            && self.classes.has_classes_of(rules.classes)
    }

    /// Applies the rules that need no other lanes.
    pub(crate) fn apply(&mut self, rules: LaneRules<'_>) {
        let LaneRules { fair, classes, concurrency, is_fresh } = rules;
        self.classes = Arc::clone(classes);
        if is_fresh != self.is_fresh {
            self.is_fresh = is_fresh;
            // They wait for another job now.
            for number in self.blocked_numbers(|_| true) {
                self.lanes.unblock_some(number, usize::MAX);
            }
        }
        self.concurrency = concurrency;
        let Some(rules) = fair else { return };
        self.headroom = rules.headroom;
        let seed = self.seed;
        let weights = rules.weights.iter();
        let weights = weights.map(|(name, weight)| (TenantKey::of(Some(name), seed), *weight));
        self.lanes.set_weights(weights.collect::<HashMap<_, _>>());
        self.limits = rules.limits.clone();
        let of = rules.limits.of.iter();
        let of = of.map(|(name, limits)| (TenantKey::of(Some(name), seed), *limits));
        self.lanes.set_limits(rules.limits.each, of);
    }

    /// Returns the lane of a job.
    pub(crate) fn choice(&self, json: &[u8]) -> LaneChoice {
        let class = self.classes.of_job(json);
        let tenant = match &self.by {
            Some(by) => TenantKey::of(by.find(json).as_deref(), self.seed),
            None => class_key(class, self.seed),
        };
        LaneChoice::Tenant(tenant, class)
    }

    /// Returns the number of lanes of tenants.
    pub(crate) fn counts(&self) -> LaneCounts {
        if self.by.is_some() { self.lanes.counts() } else { LaneCounts::default() }
    }

    /// Returns the resources of jobs that wait for some of `blocked`, and the number of these jobs. Tenants whose next
    /// jobs no fetch has found blocked yet are left out.
    pub(crate) fn waiting_for(
        &self,
        blocked: ResourceSet,
        links: &LaneLinks,
    ) -> Vec<(ResourceSet, u64)> {
        let waiting: Vec<_> = if self.by.is_some() {
            let uses = |number| self.classes.uses(self.blocked_ends.oldest(number));
            self.lanes.blocked_classes().map(|(number, jobs)| (uses(number), jobs)).collect()
        } else {
            let of_lane = |lane| {
                let class = self.jobs.first(lane).map(|job| links.class(job));
                (self.classes.uses(class.unwrap_or_default()), self.lanes.waiting_in(lane))
            };
            self.jobs.lanes().map(of_lane).collect()
        };
        waiting.into_iter().filter(|(uses, _)| !uses.is_open(blocked)).collect()
    }

    /// Returns the resources whose room would let a job start: those of [`FairQueue::waiting_for`], and of the newest jobs
    /// of tenants if these may be next.
    pub(crate) fn awaited(&self, blocked: ResourceSet, links: &LaneLinks) -> Vec<ResourceSet> {
        let mut awaited: Vec<_> =
            self.waiting_for(blocked, links).into_iter().map(|(uses, _)| uses).collect();
        if self.is_fresh && self.by.is_some() {
            let numbers = self.lanes.blocked_classes().map(|(number, _)| number);
            let newest = numbers.map(|number| self.classes.uses(self.blocked_ends.newest(number)));
            awaited.extend(newest.filter(|uses| !uses.is_open(blocked)));
        }
        awaited
    }

    /// Lets the next fetch look at a tenant whose next job may start now. With a headroom, at more of them, because it
    /// may not serve every tenant.
    pub(crate) fn unblock(&mut self, blocked: ResourceSet) {
        let max = if self.headroom > 0 { BLOCKED_PER_FETCH } else { 1 };
        let is_open = |number| self.blocked_ends.is_open(number, &self.classes, blocked);
        for number in self.blocked_numbers(is_open) {
            self.lanes.unblock_some(number, max);
        }
    }

    /// Returns the tenants with the most jobs that a limit holds back, each with its next job.
    pub(crate) fn limited(&self, max: usize) -> Vec<(LimitedLane, JobIndex)> {
        if self.by.is_none() {
            return Vec::new();
        }
        let limited = self.lanes.limited(max).into_iter();
        limited.filter_map(|lane| Some((lane, self.jobs.first(lane.id)?))).collect()
    }

    /// Returns how many jobs wait of the tenant of a job with this text.
    pub(crate) fn tenant_depth(&self, json: &[u8]) -> Option<TenantDepth> {
        let name = self.by.as_ref()?.find(json).map(std::borrow::Cow::into_owned);
        let (lane, waiting) = self.lanes.waiting_of(TenantKey::of(name.as_deref(), self.seed));
        let LaneCounts { tenants, shared, .. } = self.lanes.counts();
        Some(TenantDepth { lane, name, waiting, lanes: tenants + shared })
    }

    /// Returns the name of the tenant of a job.
    pub(crate) fn tenant_name(&self, json: &[u8]) -> Option<String> {
        Some(self.by.as_ref()?.find(json)?.into_owned())
    }

    /// Returns the numbers of [`BlockedEnds`] that keep lanes blocked.
    fn blocked_numbers(&self, is_meant: impl Fn(u16) -> bool) -> Vec<u16> {
        let numbers = self.lanes.blocked_classes().map(|(number, _)| number);
        numbers.filter(|number| is_meant(*number)).collect()
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
    pub(crate) fn can_serve(&self, room: Room, blocked: ResourceSet, links: &LaneLinks) -> bool {
        match self.by {
            Some(_) => self.lanes.can_serve(room),
            None => self.open_lanes(blocked, links).next().is_some(),
        }
    }

    /// Returns the lanes of classes with jobs that may start.
    fn open_lanes(&self, blocked: ResourceSet, links: &LaneLinks) -> impl Iterator<Item = LaneId> {
        self.jobs.lanes().filter(move |lane| {
            self.jobs.first(*lane).is_some_and(|job| self.is_open(job, blocked, links))
        })
    }

    fn is_open(&self, job: JobIndex, blocked: ResourceSet, links: &LaneLinks) -> bool {
        self.classes.uses(links.class(job)).is_open(blocked)
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
        let (lane, class) = match choice {
            LaneChoice::Same(running) if self.is_current(running) => {
                self.lanes.add_to(running.lane);
                (running.lane, running.class)
            }
            LaneChoice::Same(_) => (self.lanes.add(TenantKey::NONE), TypeClass::NONE),
            LaneChoice::Tenant(tenant, class) => (self.lanes.add(tenant), class),
        };
        if self.lanes.is_shared(lane) {
            self.metrics.limit_hit(JobServerLimit::TenantsMax);
        }
        let before = self.next_of(lane);
        self.jobs.insert(lane, job, class, links, arena);
        self.note_change(lane, before);
    }

    /// Removes a job that waits.
    pub(crate) fn remove(&mut self, job: JobIndex, order: u64, links: &mut LaneLinks) {
        if self.is_laned(order) {
            let lane = LaneJobs::lane(job, links);
            let before = self.next_of(lane);
            self.jobs.remove(job, links);
            self.lanes.remove(lane);
            self.note_change(lane, before);
        }
    }

    /// Returns the jobs of a lane that may be its next.
    fn next_of(&self, lane: LaneId) -> (Option<JobIndex>, Option<JobIndex>) {
        (self.jobs.first(lane), self.jobs.last(lane).filter(|_| self.is_fresh))
    }

    /// Unblocks a lane that has another next job.
    fn note_change(&mut self, lane: LaneId, before: (Option<JobIndex>, Option<JobIndex>)) {
        if self.lanes.is_blocked(lane) && self.next_of(lane) != before {
            self.lanes.unblock(lane);
        }
    }

    /// Removes all jobs that wait.
    pub(crate) fn clear(&mut self) {
        self.lanes.remove_all();
        self.jobs.clear();
    }

    /// Starts the next job: the oldest of the least served lane, or its newest. Returns `None` if none may start, or if
    /// many lanes were found blocked.
    pub(crate) fn take(
        &mut self,
        order: ServingOrder,
        now: Timestamp,
        links: &mut LaneLinks,
        arena: &Arena,
    ) -> Option<(JobIndex, RunningLane)> {
        let (lane, job) = match self.by {
            Some(_) => self.next_of_tenants(order, links, arena)?,
            None => self.next_of_classes(order, links, arena)?,
        };
        let class = links.class(job);
        self.jobs.remove(job, links);
        self.lanes.start(lane, now);
        Some((job, RunningLane { lane, generation: self.generation, class }))
    }

    /// Returns the next job of the least served tenant. Those whose next job may not start are blocked.
    fn next_of_tenants(
        &mut self,
        order: ServingOrder,
        links: &LaneLinks,
        arena: &Arena,
    ) -> Option<(LaneId, JobIndex)> {
        let ServingOrder { room, newest_from, blocked } = order;
        let is_new = |job: &JobIndex| newest_from.is_some_and(|from| arena.get(*job).order >= from);
        for _ in 0..BLOCKED_PER_FETCH {
            let lane = self.lanes.pick(room)?;
            let oldest = self.jobs.first(lane)?;
            let newest = self.jobs.last(lane).filter(|_| self.is_fresh).unwrap_or(oldest);
            let next = if is_new(&newest) { [newest, oldest] } else { [oldest, newest] };
            if let Some(job) = next.into_iter().find(|job| self.is_open(*job, blocked, links)) {
                return Some((lane, job));
            }
            let number = self.blocked_ends.number(links.class(oldest), links.class(newest));
            self.lanes.block(lane, number);
        }
        None
    }

    /// Returns the oldest job of the classes that may start, or the newest.
    fn next_of_classes(
        &self,
        order: ServingOrder,
        links: &LaneLinks,
        arena: &Arena,
    ) -> Option<(LaneId, JobIndex)> {
        let ServingOrder { newest_from, blocked, .. } = order;
        let with_order = |(lane, job): (LaneId, JobIndex)| (arena.get(job).order, (lane, job));
        let open = || self.open_lanes(blocked, links);
        let newest = newest_from.and_then(|from| {
            let lasts = open().filter_map(|lane| Some((lane, self.jobs.last(lane)?)));
            lasts.map(with_order).filter(|(order, _)| *order >= from).max_by_key(|it| it.0)
        });
        let oldest = || {
            let firsts = open().filter_map(|lane| Some((lane, self.jobs.first(lane)?)));
            firsts.map(with_order).min_by_key(|it| it.0)
        };
        newest.or_else(oldest).map(|(_, next)| next)
    }

    /// Counts a job that was in progress before there were lanes.
    pub(crate) fn add_running(&mut self, choice: LaneChoice) -> Option<RunningLane> {
        let LaneChoice::Tenant(tenant, class) = choice else { return None };
        let lane = self.lanes.add_running(tenant);
        Some(RunningLane { lane, generation: self.generation, class })
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

/// Classes are few: each has a lane of its own.
fn tenants_max(fair: Option<&FairRules>) -> usize {
    fair.map_or(usize::MAX, |fair| fair.tenants_max)
}

fn class_key(class: TypeClass, seed: u64) -> TenantKey {
    TenantKey::of(Some(&class.0.to_string()), seed)
}
