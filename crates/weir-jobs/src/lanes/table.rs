//! All lanes of a queue, with their number limited: tenants beyond it share lanes.

use std::collections::HashMap;
use std::time::Duration;

use hashbrown::HashTable;

use super::lane::{Lane, LaneId, LaneList, LaneOwner, LanePosition, TenantKey, micros_of};
use super::levels::Levels;
use super::room::Room;

/// Lanes for the tenants that have none of their own. Enough that few of them share one with a tenant
/// that has many jobs.
const SHARED_LANES: u16 = 1_024;

/// A tenant is at most so much time behind the one that is next, whatever it has used before.
const DEBT_MAX: Duration = Duration::from_secs(3_600);

/// Idle lanes that are dropped when one more becomes idle: more than one, so that they do not pile up.
const DROPPED_PER_IDLE: usize = 2;

/// The limit of a tenant without one.
const UNLIMITED: u32 = u32::MAX;

/// The number of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Lanes of one tenant.
    pub tenants: u64,
    /// Lanes that tenants share because there are more than the limit.
    pub shared: u64,
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
    /// Jobs in progress that each tenant may have, and those that have a number of their own.
    running_max: u32,
    running_maxima: HashMap<TenantKey, u32, foldhash::fast::RandomState>,
    /// Lanes with jobs waiting that may start one. Those that may not are not here: no pick looks at them.
    pub(super) levels: Levels,
    /// Lanes without jobs whose tenants are behind in time, longest idle first.
    idle: LaneList,
    /// Sum of the weights of lanes with jobs waiting or in progress.
    weight_busy: u64,
    waiting: usize,
    /// Jobs that wait in lanes that have as many in progress as they may.
    blocked: usize,
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
            running_max: UNLIMITED,
            running_maxima: HashMap::default(),
            levels: Levels::default(),
            idle: LaneList::EMPTY,
            weight_busy: 0,
            waiting: 0,
            blocked: 0,
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

    /// Replaces the limits of jobs in progress: that of each tenant (`None`: no limit), and of those with one of their
    /// own. Tenants that share a lane have the limit of one together; those with one of their own share none. Lanes
    /// with jobs keep their tenants, so the tenants with a limit must be the same as before if any share a lane.
    pub fn set_running_max(
        &mut self,
        each: Option<u32>,
        of: impl IntoIterator<Item = (TenantKey, u32)>,
    ) {
        self.running_max = each.unwrap_or(UNLIMITED);
        self.running_maxima = of.into_iter().collect();
        let tenants: Vec<LaneId> = self.by_tenant.iter().copied().collect();
        let shared = self.shared.clone().into_iter().filter(|id| *id != LaneId::NONE);
        for id in tenants.into_iter().chain(shared) {
            let most = self.running_max_of(self.lanes[id.index()].owner);
            if self.lanes[id.index()].is_busy() {
                self.change(id, |lane| lane.running_max = most);
            } else {
                self.lanes[id.index()].running_max = most;
            }
        }
    }

    fn running_max_of(&self, owner: LaneOwner) -> u32 {
        match owner {
            LaneOwner::Tenant(tenant) => {
                self.running_maxima.get(&tenant).copied().unwrap_or(self.running_max)
            }
            LaneOwner::Shared(_) => self.running_max,
        }
    }

    /// Returns whether a lane has a limit of jobs in progress.
    #[must_use]
    pub fn is_limited(&self, id: LaneId) -> bool {
        self.lanes[id.index()].running_max < UNLIMITED
    }

    /// Returns the number of jobs that wait because their tenants have as many in progress as they may.
    #[must_use]
    pub const fn blocked(&self) -> usize {
        self.blocked
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
        LaneCounts { tenants: self.by_tenant.len() as u64, shared: self.shared_count as u64 }
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
            lane.waiting += 1;
            self.blocked += usize::from(lane.is_full());
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
            lane.waiting -= 1;
            self.blocked -= usize::from(lane.is_full());
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

    /// Starts a waiting job of a lane.
    pub fn start(&mut self, id: LaneId) {
        self.waiting -= 1;
        self.change(id, |lane| {
            lane.waiting -= 1;
            lane.running += 1;
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
    fn change(&mut self, id: LaneId, change: impl FnOnce(&mut Lane)) {
        let was_busy = self.lanes[id.index()].is_busy();
        self.levels.remove(&mut self.lanes, id);
        let lane = &mut self.lanes[id.index()];
        self.blocked -= lane.blocked();
        change(lane);
        self.blocked += lane.blocked();
        let (weight, is_busy) = (u64::from(lane.weight), lane.is_busy());
        let may_start = lane.waiting > 0 && !lane.is_full();
        match (was_busy, is_busy) {
            (false, true) => {
                self.weight_busy += weight;
                self.leave_idle(id);
            }
            (true, false) => self.weight_busy -= weight,
            _ => {}
        }
        if may_start {
            self.levels.insert(&mut self.lanes, id);
        } else if !is_busy {
            self.begin_idle(id);
        }
    }

    fn weight(&self, tenant: TenantKey) -> u16 {
        self.weights.get(&tenant).copied().unwrap_or(1).max(1)
    }

    fn set_weight(&mut self, id: LaneId, weight: u16) {
        self.levels.remove(&mut self.lanes, id);
        let lane = &mut self.lanes[id.index()];
        let old = std::mem::replace(&mut lane.weight, weight);
        let (is_busy, may_start) = (lane.is_busy(), lane.waiting > 0 && !lane.is_full());
        if is_busy {
            self.weight_busy = self.weight_busy - u64::from(old) + u64::from(weight);
        }
        if may_start {
            self.levels.insert(&mut self.lanes, id);
        }
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
        let has_own_limit = self.running_maxima.contains_key(&tenant);
        // Its earlier jobs may wait there, and come first; or run there, and count for its limit.
        if let Some(id) = self.shared_lane(remainder).filter(|_| !has_own_limit)
            && (self.lanes[id.index()].waiting > 0
                || self.lanes[id.index()].running_max < UNLIMITED)
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
            running_max: self.running_max_of(owner),
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

    /// A lane without jobs is dropped, unless its tenant is behind: it would begin anew with no debt.
    fn begin_idle(&mut self, id: LaneId) {
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

    fn leave_idle(&mut self, id: LaneId) {
        if self.lanes[id.index()].position == LanePosition::Idle {
            self.lanes[id.index()].position = LanePosition::Nowhere;
            self.idle.remove(&mut self.lanes, id);
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
