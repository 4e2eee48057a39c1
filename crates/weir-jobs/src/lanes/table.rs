//! All lanes of a queue, with their number limited: tenants beyond it share lanes.

use std::collections::HashMap;
use std::time::Duration;

use hashbrown::HashTable;
use weir_base::clock::Timestamp;
use weir_base::token_bucket::TokenBucket;

use super::heap::LaneHeap;
use super::lane::{
    BlockedJobs, BlockedLanes, Lane, LaneId, LaneList, LaneOwner, LanePosition, TenantKey,
    UNLIMITED, micros_of,
};
use super::levels::Levels;
use super::limits::{LaneLimits, LimitTable};
use super::room::Room;

/// Lanes for the tenants that have none of their own. Enough that few of them share one with a tenant
/// that has many jobs.
const SHARED_LANES: u16 = 1_024;

/// A tenant is at most so much time behind the one that is next, whatever it has used before.
const DEBT_MAX: Duration = Duration::from_secs(3_600);

/// Idle lanes that are dropped when one more becomes idle: more than one, so that they do not pile up.
const DROPPED_PER_IDLE: usize = 2;

/// The number of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Lanes of one tenant.
    pub tenants: u64,
    /// Lanes that tenants share because there are more than the limit.
    pub shared: u64,
    /// Lanes with jobs that wait for their rate.
    pub sleeping: u64,
    /// Lanes with jobs that wait because as many are in progress as may be.
    pub full: u64,
}

/// The lanes of one queue.
#[derive(Clone, Debug)]
pub struct Lanes {
    pub(super) lanes: Vec<Lane>,
    pub(super) vacant: Vec<LaneId>,
    by_tenant: HashTable<LaneId>,
    /// By remainder; made when the first one is needed.
    shared: Vec<LaneId>,
    shared_count: usize,
    tenants_max: usize,
    weights: HashMap<TenantKey, u16, foldhash::fast::RandomState>,
    pub(super) limits: LimitTable,
    /// Lanes with jobs waiting that may start one. Those that may not are not here: no pick looks at them.
    pub(super) levels: Levels,
    /// Lanes with jobs waiting whose next one may not start yet, by that time in microseconds.
    pub(super) sleeping: LaneHeap,
    /// Lanes without jobs that have started some recently, by the time in microseconds at which these no longer count for
    /// their rate.
    pub(super) refilling: LaneHeap,
    /// Lanes whose next job waits for a shared resource, by class.
    pub(super) by_class: Vec<BlockedLanes>,
    /// The time up to which lanes were woken.
    pub(super) awake_at: Timestamp,
    /// Lanes without jobs whose tenants are behind in time, longest idle first.
    idle: LaneList,
    /// Sum of the weights of lanes with jobs waiting or in progress.
    weight_busy: u64,
    waiting: usize,
    blocked: BlockedJobs,
    /// Lanes with jobs waiting that are full.
    full: u64,
}

impl Lanes {
    /// Returns an empty table for up to `tenants_max` (>= 1) lanes of one tenant each.
    #[must_use]
    pub fn new(tenants_max: usize) -> Self {
        Self {
            lanes: Vec::new(),
            vacant: Vec::new(),
            by_tenant: HashTable::new(),
            shared: Vec::new(),
            shared_count: 0,
            tenants_max,
            weights: HashMap::default(),
            limits: LimitTable::default(),
            levels: Levels::default(),
            sleeping: LaneHeap::default(),
            refilling: LaneHeap::default(),
            by_class: Vec::new(),
            awake_at: Timestamp::default(),
            idle: LaneList::EMPTY,
            weight_busy: 0,
            waiting: 0,
            blocked: BlockedJobs::default(),
            full: 0,
        }
    }

    /// Replaces the weights. A tenant without one has the weight 1.
    pub fn set_weights(&mut self, weights: impl IntoIterator<Item = (TenantKey, u16)>) {
        let old = std::mem::replace(&mut self.weights, weights.into_iter().collect());
        let new: Vec<TenantKey> = self.weights.keys().copied().collect();
        for tenant in new.into_iter().chain(old.into_keys()) {
            if let Some(id) = self.lane_of(tenant) {
                let weight = self.weight(tenant);
                self.set_weight(id, weight);
            }
        }
    }

    /// Replaces the limits: those of each tenant, and of tenants with limits of their own. Tenants that share a lane
    /// have the limits of one together; those with limits of their own share none. Lanes with jobs keep their tenants,
    /// so the tenants with a limit must be the same as before if any share a lane. Jobs in progress and starts count.
    pub fn set_limits(
        &mut self,
        each: LaneLimits,
        of: impl IntoIterator<Item = (TenantKey, LaneLimits)>,
    ) {
        self.limits = LimitTable::new(each, of);
        let tenants: Vec<LaneId> = self.by_tenant.iter().copied().collect();
        let shared = self.shared.clone().into_iter().filter(|id| *id != LaneId::NONE);
        for id in tenants.into_iter().chain(shared) {
            let owner = self.lanes[id.index()].owner;
            let (most, rate) = (self.limits.running_max(owner), self.limits.rate(owner));
            let awake_at = self.awake_at;
            let apply = |lane: &mut Lane| {
                lane.running_max = most;
                lane.limit_debt(rate, awake_at);
            };
            if self.lanes[id.index()].is_busy() {
                self.change(id, apply);
            } else {
                apply(&mut self.lanes[id.index()]);
                self.refill_anew(id);
            }
        }
    }

    /// Returns whether a lane has a limit of jobs in progress.
    #[must_use]
    pub fn is_limited(&self, id: LaneId) -> bool {
        self.lanes[id.index()].running_max < UNLIMITED
    }

    /// Returns the number of jobs of a lane that are in progress, and how many may be.
    #[must_use]
    pub fn running_of(&self, id: LaneId) -> (u32, u32) {
        let lane = &self.lanes[id.index()];
        (lane.running, lane.running_max)
    }

    /// Returns the number of jobs that wait because of a limit of their tenants, as of the last [`Lanes::wake`].
    #[must_use]
    pub const fn blocked(&self) -> BlockedJobs {
        self.blocked
    }

    /// Returns how many jobs wait in the lane of a tenant, with a number that is the same for all tenants that share it.
    #[must_use]
    pub fn waiting_of(&self, tenant: TenantKey) -> (u64, u64) {
        if let Some(id) = self.lane_of(tenant) {
            return (tenant.hash(), self.waiting_in(id));
        }
        let remainder = shared_remainder(tenant);
        match self.shared_lane(remainder).filter(|_| !self.limits.has_own(tenant)) {
            Some(id) => (remainder.into(), self.waiting_in(id)),
            None => (tenant.hash(), 0),
        }
    }

    /// Returns the number of jobs that wait in a lane.
    #[must_use]
    pub fn waiting_in(&self, id: LaneId) -> u64 {
        u64::from(self.lanes[id.index()].waiting)
    }

    /// Returns the number of jobs waiting in all lanes.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of jobs in progress in all lanes.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.lanes.iter().map(|lane| lane.running as usize).sum()
    }

    /// Returns whether several tenants share a lane.
    #[must_use]
    pub fn is_shared(&self, id: LaneId) -> bool {
        matches!(self.lanes[id.index()].owner, LaneOwner::Shared(_))
    }

    /// Returns the number of lanes.
    #[must_use]
    pub fn counts(&self) -> LaneCounts {
        LaneCounts {
            tenants: self.by_tenant.len() as u64,
            shared: self.shared_count as u64,
            sleeping: self.sleeping.len() as u64,
            full: self.full,
        }
    }

    /// Adds a waiting job of a tenant. Returns its lane.
    pub fn add(&mut self, tenant: TenantKey) -> LaneId {
        let id = self.lane_for(tenant);
        self.add_to(id);
        id
    }

    /// Adds a waiting job to a lane that has jobs.
    pub fn add_to(&mut self, id: LaneId) {
        self.waiting += 1;
        let lane = &mut self.lanes[id.index()];
        if lane.waiting > 0 {
            // It does not lose its place among equals.
            self.blocked -= lane.blocked();
            lane.waiting += 1;
            self.blocked += lane.blocked();
            self.note_waiting_blocked(id, 1);
        } else {
            self.change(id, |lane| lane.waiting += 1);
        }
    }

    /// Adds a job in progress of a tenant. Returns its lane.
    pub fn add_running(&mut self, tenant: TenantKey) -> LaneId {
        let id = self.lane_for(tenant);
        self.change(id, |lane| lane.running += 1);
        id
    }

    /// Removes a waiting job that does not start.
    pub fn remove(&mut self, id: LaneId) {
        self.waiting -= 1;
        let lane = &mut self.lanes[id.index()];
        if lane.waiting > 1 {
            self.blocked -= lane.blocked();
            lane.waiting -= 1;
            self.blocked += lane.blocked();
            self.note_waiting_blocked(id, -1);
        } else {
            self.change(id, |lane| lane.waiting -= 1);
        }
    }

    /// Removes all waiting jobs.
    pub fn remove_all(&mut self) {
        for index in 0..self.lanes.len() {
            let id = LaneId(u32::try_from(index).unwrap_or(u32::MAX));
            if self.lanes[index].waiting > 0 {
                self.change(id, |lane| lane.waiting = 0);
            }
        }
        self.waiting = 0;
    }

    /// Returns whether a lane may be served.
    #[must_use]
    pub fn can_serve(&self, room: Room) -> bool {
        self.levels.lowest().is_some_and(|level| level < room.levels_open(self.weight_busy))
    }

    /// Returns the least served lane with a waiting job, if it may be served.
    pub fn pick(&mut self, room: Room) -> Option<LaneId> {
        if !self.can_serve(room) {
            return None;
        }
        self.levels.first(&mut self.lanes)
    }

    /// Starts a waiting job of a lane that was picked. Lanes must have been woken up to `now`.
    pub fn start(&mut self, id: LaneId, now: Timestamp) {
        self.waiting -= 1;
        let now = now.max(self.awake_at);
        let rate = self.limits.rate(self.lanes[id.index()].owner);
        self.change(id, |lane| {
            lane.waiting -= 1;
            lane.running += 1;
            lane.count_start(rate, now);
        });
    }

    /// Ends a job that took so long.
    pub fn end(&mut self, id: LaneId, took: Duration) {
        let most_us = micros_of(self.levels.now()).saturating_add(micros(DEBT_MAX));
        self.change(id, |lane| {
            lane.running -= 1;
            let charge = micros(took) / u64::from(lane.weight);
            lane.served_us = lane.served_us.max((lane.served_us + charge).min(most_us));
        });
    }

    /// Ends a job in progress that was not delivered, or that waits again: nothing is charged.
    pub fn take_back(&mut self, id: LaneId) {
        self.change(id, |lane| lane.running -= 1);
    }

    /// Changes the counts of a lane, and moves it to where it belongs.
    pub(super) fn change(&mut self, id: LaneId, change: impl FnOnce(&mut Lane)) {
        let was_busy = self.lanes[id.index()].is_busy();
        self.displace(id);
        let lane = &mut self.lanes[id.index()];
        change(lane);
        let (weight, is_busy) = (u64::from(lane.weight), lane.is_busy());
        match (was_busy, is_busy) {
            (false, true) => {
                self.weight_busy += weight;
                self.leave_idle(id);
            }
            (true, false) => self.weight_busy -= weight,
            _ => {}
        }
        self.place(id);
        if !is_busy {
            self.begin_idle(id);
        }
    }

    /// Takes a lane out of the levels, wakes or unblocks it.
    pub(super) fn displace(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id.index()];
        self.blocked -= lane.blocked();
        self.full -= u64::from(lane.holds_back());
        match lane.position {
            LanePosition::Sleeping => {
                lane.position = LanePosition::Nowhere;
                self.sleeping.remove(&mut self.lanes, id);
            }
            LanePosition::Blocked(class) => self.leave_blocked(id, class),
            _ => self.levels.remove(&mut self.lanes, id),
        }
    }

    /// Adds a lane to the levels if it may start a job, or lets it sleep until it may.
    pub(super) fn place(&mut self, id: LaneId) {
        let lane = &self.lanes[id.index()];
        if lane.waiting > 0 && !lane.is_full() {
            match self.blocked_until(id) {
                Some(at) => {
                    self.lanes[id.index()].position = LanePosition::Sleeping;
                    self.sleeping.insert_at(&mut self.lanes, id, at.as_micros());
                }
                None => self.levels.insert(&mut self.lanes, id),
            }
        }
        self.blocked += self.lanes[id.index()].blocked();
        self.full += u64::from(self.lanes[id.index()].holds_back());
    }

    fn weight(&self, tenant: TenantKey) -> u16 {
        self.weights.get(&tenant).copied().unwrap_or(1).max(1)
    }

    fn set_weight(&mut self, id: LaneId, weight: u16) {
        self.displace(id);
        let lane = &mut self.lanes[id.index()];
        let old = std::mem::replace(&mut lane.weight, weight);
        if lane.is_busy() {
            self.weight_busy = self.weight_busy - u64::from(old) + u64::from(weight);
        }
        self.place(id);
    }

    fn lane_of(&self, tenant: TenantKey) -> Option<LaneId> {
        let is_it = |id: &LaneId| self.lanes[id.index()].owner == LaneOwner::Tenant(tenant);
        self.by_tenant.find(tenant.hash(), is_it).copied()
    }

    /// Returns the lane of a tenant, which is made if there is none.
    fn lane_for(&mut self, tenant: TenantKey) -> LaneId {
        if let Some(id) = self.lane_of(tenant) {
            return id;
        }
        let remainder = shared_remainder(tenant);
        let has_own_limit = self.limits.has_own(tenant);
        // Its earlier jobs may wait there, and come first; or run there or have started, and count for its limits.
        if let Some(id) = self.shared_lane(remainder).filter(|_| !has_own_limit)
            && (self.lanes[id.index()].waiting > 0
                || self.lanes[id.index()].running_max < UNLIMITED
                || self.limits.rate(self.lanes[id.index()].owner).is_some())
        {
            return id;
        }
        let has_room = self.by_tenant.len() < self.tenants_max || self.drop_longest_idle();
        if !has_room && !has_own_limit {
            return self.shared_lane_for(remainder);
        }
        let id = self.make(LaneOwner::Tenant(tenant), self.weight(tenant));
        let lanes = &self.lanes;
        let rehash = |id: &LaneId| match lanes[id.index()].owner {
            LaneOwner::Tenant(tenant) => tenant.hash(),
            LaneOwner::Shared(_) => 0,
        };
        self.by_tenant.insert_unique(tenant.hash(), id, rehash);
        id
    }

    fn shared_lane(&self, remainder: u16) -> Option<LaneId> {
        self.shared.get(usize::from(remainder)).copied().filter(|id| *id != LaneId::NONE)
    }

    fn shared_lane_for(&mut self, remainder: u16) -> LaneId {
        if let Some(id) = self.shared_lane(remainder) {
            return id;
        }
        if self.shared.is_empty() {
            self.shared = vec![LaneId::NONE; usize::from(SHARED_LANES)];
        }
        let id = self.make(LaneOwner::Shared(remainder), 1);
        self.shared[usize::from(remainder)] = id;
        self.shared_count += 1;
        id
    }

    fn make(&mut self, owner: LaneOwner, weight: u16) -> LaneId {
        let lane = Lane {
            owner,
            served_us: micros_of(self.levels.now()),
            waiting: 0,
            running: 0,
            running_max: self.limits.running_max(owner),
            bucket: TokenBucket::default(),
            previous: LaneId::NONE,
            next: LaneId::NONE,
            heap_place: 0,
            weight,
            position: LanePosition::Nowhere,
        };
        match self.vacant.pop() {
            Some(id) => {
                self.lanes[id.index()] = lane;
                id
            }
            None => {
                self.lanes.push(lane);
                LaneId(u32::try_from(self.lanes.len() - 1).expect("fewer than 2^32 lanes"))
            }
        }
    }

    /// A lane without jobs is dropped, unless its tenant is behind: it would begin anew with no debt. Or unless it
    /// counts for its rate, which would begin anew.
    pub(super) fn begin_idle(&mut self, id: LaneId) {
        if self.begin_refilling(id) {
            return;
        }
        if self.lanes[id.index()].served_steps() <= self.levels.now() {
            self.drop_lane(id);
        } else {
            self.lanes[id.index()].position = LanePosition::Idle;
            self.idle.push(&mut self.lanes, id);
        }
        for _ in 0..DROPPED_PER_IDLE {
            let Some(first) = self.idle.first() else { break };
            if self.lanes[first.index()].served_steps() > self.levels.now() {
                break;
            }
            self.drop_idle(first);
        }
    }

    pub(super) fn leave_idle(&mut self, id: LaneId) {
        let position = &mut self.lanes[id.index()].position;
        match std::mem::replace(position, LanePosition::Nowhere) {
            LanePosition::Idle => self.idle.remove(&mut self.lanes, id),
            LanePosition::Refilling => self.refilling.remove(&mut self.lanes, id),
            other => self.lanes[id.index()].position = other,
        }
    }

    /// Makes room for a lane. Returns false if all have jobs.
    fn drop_longest_idle(&mut self) -> bool {
        let Some(id) = self.idle.first() else { return false };
        self.drop_idle(id);
        self.by_tenant.len() < self.tenants_max
    }

    fn drop_idle(&mut self, id: LaneId) {
        self.idle.remove(&mut self.lanes, id);
        self.drop_lane(id);
    }

    fn drop_lane(&mut self, id: LaneId) {
        match self.lanes[id.index()].owner {
            LaneOwner::Shared(remainder) => {
                self.shared[usize::from(remainder)] = LaneId::NONE;
                self.shared_count -= 1;
            }
            LaneOwner::Tenant(tenant) => {
                let found = self.by_tenant.find_entry(tenant.hash(), |found| *found == id);
                if let Ok(found) = found {
                    found.remove();
                }
            }
        }
        self.vacant.push(id);
    }
}

fn shared_remainder(tenant: TenantKey) -> u16 {
    // Below SHARED_LANES.
    u16::try_from(tenant.hash() % u64::from(SHARED_LANES)).unwrap_or(0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
