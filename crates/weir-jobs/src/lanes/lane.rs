//! One lane: the jobs of a tenant, or of several that share it.

use weir_base::token_bucket::TokenBucket;

/// The limit of a tenant without one.
pub(super) const UNLIMITED: u32 = u32::MAX;

/// Jobs that wait because of a limit, by the kind of the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockedJobs {
    /// As many jobs are in progress as may be.
    pub concurrency: u64,
    /// The next one may not start yet.
    pub rate: u64,
    /// Resources that they share with others have no room.
    pub resource: u64,
}

impl BlockedJobs {
    /// Returns the sum.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.concurrency + self.rate + self.resource
    }
}

impl std::ops::AddAssign for BlockedJobs {
    fn add_assign(&mut self, other: Self) {
        self.concurrency += other.concurrency;
        self.rate += other.rate;
        self.resource += other.resource;
    }
}

impl std::ops::SubAssign for BlockedJobs {
    fn sub_assign(&mut self, other: Self) {
        self.concurrency -= other.concurrency;
        self.rate -= other.rate;
        self.resource -= other.resource;
    }
}

/// The identity of a tenant: a hash of its name, so that long names cost no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(u64);

impl TenantKey {
    /// All jobs without a tenant together are one.
    pub const NONE: Self = Self(0);

    /// Returns the key of a tenant. The seed is one that clients do not know, so that none can choose a
    /// name that shares the lane of another tenant.
    #[must_use]
    pub fn of(name: Option<&str>, seed: u64) -> Self {
        name.map_or(Self::NONE, |name| {
            Self(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed))
        })
    }

    pub(super) const fn hash(self) -> u64 {
        self.0
    }
}

/// The number of a lane. It is reused after the lane is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub(crate) u32);

impl LaneId {
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who has the jobs of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneOwner {
    Tenant(TenantKey),
    /// The tenants whose keys have this remainder.
    Shared(u16),
}

/// The list or heap that a lane is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LanePosition {
    /// No job waits and some are in progress, or so many are that no other one may start.
    Nowhere,
    /// A slot of the wheel.
    Wheel(u16),
    /// A level of lanes with jobs in progress.
    Level,
    /// Its next job may not start yet: its rate is used up.
    Sleeping,
    /// Its next job waits for a shared resource; by class.
    Blocked(u16),
    /// No job waits or is in progress.
    Idle,
    /// The same, and jobs have started so recently that it counts for the rate.
    Refilling,
}

/// One lane, in a cache line of its own: lanes are used in random order.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    pub(super) owner: LaneOwner,
    /// Time that its jobs took, divided by its weight, in microseconds; never far from that of others.
    pub(super) served_us: u64,
    pub(super) waiting: u32,
    pub(super) running: u32,
    /// With so many jobs in progress, no other one starts.
    pub(super) running_max: u32,
    /// The starts that are left of its rate, if it has one.
    pub(super) bucket: TokenBucket,
    /// Neighbours in the slot of the wheel, or in the list of idle lanes.
    pub(super) previous: LaneId,
    pub(super) next: LaneId,
    /// Its place in the heap of its level, or of lanes that wait for a time.
    pub(super) heap_place: u32,
    pub(super) weight: u16,
    pub(super) position: LanePosition,
}

/// Virtual time is compared in steps of about a millisecond: shorter differences do not matter to any
/// tenant.
const STEP_BITS: u32 = 10;

/// Returns the microseconds of a time in steps.
pub(super) const fn micros_of(steps: u64) -> u64 {
    steps << STEP_BITS
}

impl Lane {
    /// Returns its time in steps.
    pub(super) const fn served_steps(&self) -> u64 {
        self.served_us >> STEP_BITS
    }

    /// Raises its time to that of the lanes that were served last: a tenant that had no jobs saves
    /// nothing up.
    pub(super) fn raise_to(&mut self, steps: u64) {
        self.served_us = self.served_us.max(micros_of(steps));
    }

    /// Returns whether it has as many jobs in progress as it may.
    pub(super) const fn is_full(&self) -> bool {
        self.running >= self.running_max
    }

    /// Returns whether jobs wait because as many are in progress as may be.
    pub(super) const fn holds_back(&self) -> bool {
        self.waiting > 0 && self.is_full()
    }

    /// Returns the number of its jobs that wait because of a limit of its tenant. It must be where it belongs.
    pub(super) fn blocked(&self) -> BlockedJobs {
        let waiting = u64::from(self.waiting);
        match self.position {
            _ if self.is_full() => BlockedJobs { concurrency: waiting, ..BlockedJobs::default() },
            LanePosition::Sleeping => BlockedJobs { rate: waiting, ..BlockedJobs::default() },
            _ => BlockedJobs::default(),
        }
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.waiting > 0 || self.running > 0
    }
}

/// A list of lanes that are linked by `previous` and `next`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneList {
    first: LaneId,
    last: LaneId,
}

impl LaneList {
    pub(super) const EMPTY: Self = Self { first: LaneId::NONE, last: LaneId::NONE };

    pub(super) fn first(self) -> Option<LaneId> {
        (self.first != LaneId::NONE).then_some(self.first)
    }

    pub(super) fn push(&mut self, lanes: &mut [Lane], id: LaneId) {
        let last = std::mem::replace(&mut self.last, id);
        match lanes.get_mut(last.index()) {
            Some(last) => last.next = id,
            None => self.first = id,
        }
        let lane = &mut lanes[id.index()];
        (lane.previous, lane.next) = (last, LaneId::NONE);
    }

    pub(super) fn remove(&mut self, lanes: &mut [Lane], id: LaneId) {
        let Lane { previous, next, .. } = lanes[id.index()];
        match lanes.get_mut(previous.index()) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match lanes.get_mut(next.index()) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
    }
}

/// The lanes whose next jobs wait for the same resources.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockedLanes {
    pub(super) lanes: LaneList,
    /// Jobs that wait in them.
    pub(super) waiting: u64,
}

impl BlockedLanes {
    pub(super) const EMPTY: Self = Self { lanes: LaneList::EMPTY, waiting: 0 };
}
