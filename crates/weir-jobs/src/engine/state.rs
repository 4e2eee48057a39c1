//! The engine's state in memory, and the changes that keep its parts consistent. It uses neither
//! the log nor a clock, so normal operation and recovery make the same changes.

use std::collections::BTreeSet;

use weir_base::clock::Timestamp;
use weir_log::RecordPosition;

use super::arena::{Arena, ArenaEntry, EntryState, JobIndex};
use super::cleared::Cleared;
use super::fair_queue::{LaneChoice, RunningLane, ServingOrder};
use super::head::StoredPlace;
use super::index::{JidIndex, hash_of};
use super::job_sizes::JobSizes;
use super::kept_key::{KeptKey, KeptRecords};
use super::lane_jobs::LaneLinks;
use super::queues::Queues;
use super::reservations::Reservations;
use super::segments::LiveCounts;
use super::snapshot::{EngineSnapshot, EngineTotals};
use crate::batches::JobEnd;
use crate::features::FeatureTable;
use crate::lanes::Room;
use crate::metrics::JobsMetrics;
use crate::model::SetName;
use crate::resources::{ResourceSet, ResourceTable};

/// A set of jobs, ordered by time.
pub(crate) type TimeSet = BTreeSet<(u64, JobIndex)>;

/// All jobs, their queues, sets and reservations, and the totals.
#[derive(Debug)]
pub(crate) struct EngineState {
    pub(crate) arena: Arena,
    pub(crate) index: JidIndex,
    pub(crate) queues: Queues,
    sets: [TimeSet; 3],
    pub(crate) reserved: Reservations,
    /// Jobs of cleared queues and sets that still occupy memory.
    pub(crate) cleared: Cleared,
    pub(crate) segments: LiveCounts,
    /// Number of live jobs that are not in the index; see [`ArenaEntry::indexed`].
    pub(crate) unindexed: usize,
    /// Whether some records in the log have other hashes than their jobs in memory.
    pub(crate) rehashed: bool,
    /// Whether the store was closed before it was opened, or is new.
    pub(crate) was_closed: bool,
    /// Until when a store that was closed presumed that other jobs ran.
    pub(crate) presumed_until: Option<Timestamp>,
    /// Reservations in the log that were not restored: no limit counts their jobs, which wait again.
    pub(crate) released: Vec<KeptKey>,
    /// Whether recovery counted jobs of batches as lost that no snapshot counts.
    pub(crate) has_counted_lost: bool,
    pub(crate) totals: EngineTotals,
    /// The features of the jobs that have any.
    pub(crate) features: FeatureTable<JobIndex>,
    pub(crate) kept: KeptRecords,
    /// The lanes of the jobs in queues that have any: with `fair_by`, or if job types use shared resources.
    pub(crate) links: LaneLinks,
    /// The sizes of the jobs in queues with `bytes_max`.
    pub(crate) sizes: JobSizes,
    /// Queues that fetches wait for, and when the next job of each may start by its rate or that of a tenant.
    pub(crate) sleeping: BTreeSet<(Timestamp, u16)>,
    /// The shared resources, and the queues that wait for them.
    pub(crate) resources: ResourceTable<u16>,
    /// The seed of the jid hashes.
    pub(crate) seed: u64,
    /// Greater than every order assigned so far.
    pub(crate) next_order: u64,
}

/// A job as recorded in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry {
    pub(crate) position: RecordPosition,
    pub(crate) order: u64,
    pub(crate) hash: u32,
    pub(crate) queue: u16,
    pub(crate) rest: EntryState,
    /// If it waits in a queue with `fair_by`.
    pub(crate) lane: LaneChoice,
    /// Of its text; 0: not known.
    pub(crate) bytes: u32,
}

impl StoredPlace {
    /// Returns the state of a job whose newest record has this place.
    pub(crate) const fn rest(self) -> EntryState {
        match self {
            Self::Queue => EntryState::Waiting,
            Self::Set(set) => EntryState::in_set(set),
        }
    }
}

impl EntryState {
    pub(crate) const fn in_set(set: SetName) -> Self {
        match set {
            SetName::Scheduled => Self::Scheduled,
            SetName::Retries => Self::Retries,
            SetName::Dead => Self::Dead,
        }
    }

    pub(crate) const fn set(self) -> Option<SetName> {
        match self {
            Self::Scheduled => Some(SetName::Scheduled),
            Self::Retries => Some(SetName::Retries),
            Self::Dead => Some(SetName::Dead),
            Self::Waiting | Self::Reserved => None,
        }
    }
}

impl EngineState {
    pub(crate) fn new(seed: u64, metrics: JobsMetrics) -> Self {
        Self {
            arena: Arena::default(),
            index: JidIndex::new(),
            queues: Queues::new(metrics),
            sets: [TimeSet::new(), TimeSet::new(), TimeSet::new()],
            reserved: Reservations::default(),
            cleared: Cleared::default(),
            segments: LiveCounts::default(),
            unindexed: 0,
            rehashed: false,
            was_closed: true,
            presumed_until: None,
            released: Vec::new(),
            has_counted_lost: false,
            totals: EngineTotals::default(),
            features: FeatureTable::default(),
            kept: KeptRecords::default(),
            links: LaneLinks::default(),
            sizes: JobSizes::default(),
            sleeping: BTreeSet::new(),
            resources: ResourceTable::default(),
            seed,
            next_order: 1,
        }
    }

    pub(crate) fn set(&self, set: SetName) -> &TimeSet {
        &self.sets[set as usize]
    }

    /// Returns the hash under which `jid` is indexed.
    pub(crate) fn hash(&self, jid: &str) -> u32 {
        hash_of(jid, self.seed)
    }

    /// Adds a job to its queue or set, and to the index.
    pub(crate) fn insert(&mut self, new: NewEntry) -> JobIndex {
        let job = self.insert_unindexed(new);
        self.index(new.hash, job);
        job
    }

    /// Adds many jobs to the index, sorted by hash: filling one part of the table after another
    /// uses the CPU's caches better.
    pub(crate) fn index_all(&mut self, jobs: &mut Vec<(u32, JobIndex)>) {
        jobs.sort_unstable();
        for (hash, job) in jobs.drain(..) {
            self.index(hash, job);
        }
    }

    fn index(&mut self, hash: u32, job: JobIndex) {
        if self.index.insert(hash, job, &self.arena) {
            self.arena.get_mut(job).indexed = true;
            self.unindexed -= 1;
        }
    }

    /// Adds a job without indexing it; [`EngineState::index_all`] does that later.
    pub(crate) fn insert_unindexed(&mut self, new: NewEntry) -> JobIndex {
        let NewEntry { position, order, hash, queue, rest, lane, bytes } = new;
        let entry = ArenaEntry { position, order, hash, queue, rest, indexed: false };
        let job = self.arena.insert(entry);
        self.unindexed += 1;
        self.segments.add(position.segment);
        self.queues.get_mut(queue).jobs += 1;
        self.set_size(job, queue, bytes);
        self.place(job, lane);
        job
    }

    /// Removes a job from its queue or set and from memory. A reservation must have been removed
    /// before.
    pub(crate) fn remove(&mut self, job: JobIndex) -> ArenaEntry {
        self.unplace(job);
        self.remove_unplaced(job)
    }

    /// Removes a job from memory that has already left its queue or set.
    pub(crate) fn remove_unplaced(&mut self, job: JobIndex) -> ArenaEntry {
        self.features.end(job, JobEnd::Lost);
        let entry = *self.arena.get(job);
        if entry.indexed {
            self.index.remove(entry.hash, job);
        } else {
            self.unindexed -= 1;
        }
        self.arena.remove(job);
        self.links.clear(job);
        self.sizes.set(job, 0);
        self.segments.release(entry.position.segment);
        self.queues.get_mut(entry.queue).jobs -= 1;
        entry
    }

    /// Moves a job to a queue or to a set. `lane`: if it waits in a queue with `fair_by`. `bytes`: of its new text; `None`:
    /// it has the same.
    pub(crate) fn rest_in(
        &mut self,
        job: JobIndex,
        queue: u16,
        rest: EntryState,
        order: u64,
        lane: LaneChoice,
        bytes: Option<u32>,
    ) {
        self.unplace(job);
        let entry = self.arena.get_mut(job);
        let old = std::mem::replace(&mut entry.queue, queue);
        entry.rest = rest;
        entry.order = order;
        self.queues.get_mut(old).jobs -= 1;
        self.queues.get_mut(queue).jobs += 1;
        // A size that is not counted now must be unknown when the queue begins to count.
        let bytes = bytes.unwrap_or_else(|| self.sizes.get(job));
        self.set_size(job, queue, bytes);
        self.place(job, lane);
    }

    /// Sets the size of a job that is in no place, if its queue counts bytes.
    fn set_size(&mut self, job: JobIndex, queue: u16, bytes: u32) {
        let is_counted = self.queues.get(queue).bytes.is_some();
        self.sizes.set(job, if is_counted { bytes } else { 0 });
    }

    /// Counts the bytes of a job that waits, and was not counted.
    pub(crate) fn count_bytes(&mut self, job: JobIndex, bytes: u32) {
        let queue = self.queues.get_mut(self.arena.get(job).queue);
        if let Some(sum) = &mut queue.bytes {
            *sum += u64::from(bytes);
            self.sizes.set(job, bytes);
        }
    }

    /// No longer counts the bytes of a queue. Jobs that are reserved or in a set keep theirs until they move.
    pub(crate) fn forget_sizes(&mut self, queue: u16) {
        let queue = self.queues.get_mut(queue);
        queue.bytes = None;
        for job in queue.lane.after(None, &self.arena) {
            self.sizes.set(job, 0);
        }
    }

    /// Updates the position of a job's record.
    pub(crate) fn relocate(&mut self, job: JobIndex, position: RecordPosition) {
        let entry = self.arena.get_mut(job);
        let old = std::mem::replace(&mut entry.position, position);
        self.segments.release(old.segment);
        self.segments.add(position.segment);
    }

    /// Removes the next job of a queue and marks it as reserved: the oldest, or the newest if
    /// `newest_from` has the order from which jobs are in time. In a queue with `fair_by`, that of the
    /// next lane; not one that uses a resource of `blocked`. The caller adds the reservation.
    pub(crate) fn take(
        &mut self,
        queue: u16,
        newest_from: Option<u64>,
        room: Room,
        blocked: ResourceSet,
        now: Timestamp,
    ) -> Option<(JobIndex, Option<RunningLane>)> {
        let Self { queues, arena, links, sizes, .. } = self;
        let queue = queues.get_mut(queue);
        let (job, lane) = match &mut queue.fair {
            Some(fair) => {
                let order = ServingOrder { room, newest_from, blocked };
                let (job, lane) = fair.take(order, now, links, arena)?;
                queue.lane.remove(job, arena);
                (job, Some(lane))
            }
            None if newest_from.is_some() => (queue.lane.pop_last()?, None),
            None => (queue.lane.pop_first()?, None),
        };
        if let Some(bytes) = &mut queue.bytes {
            *bytes = bytes.saturating_sub(sizes.get(job).into());
        }
        queue.rate.start(now);
        queue.reserved += 1;
        arena.get_mut(job).rest = EntryState::Reserved;
        Some((job, lane))
    }

    /// Returns the state that must survive the removal of its records.
    pub(crate) fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot {
            seed: self.seed,
            next_order: self.next_order,
            totals: self.totals,
            queues: self.queues.facts(),
            batches: self.features.batches.totals().collect(),
            is_clearing: !self.cleared.is_empty(),
        }
    }

    /// Removes all waiting jobs of a queue at once; [`EngineState::cleared`] holds them until they
    /// are forgotten, which also frees their locks and counts them in their batches. Returns their
    /// number.
    pub(crate) fn clear_lane(&mut self, queue: u16) -> usize {
        let queue = self.queues.get_mut(queue);
        let lane = std::mem::take(&mut queue.lane);
        queue.bytes = queue.bytes.map(|_| 0);
        if let Some(fair) = &mut queue.fair {
            fair.clear();
        }
        let jobs = lane.len();
        self.cleared.add_lane(lane);
        jobs
    }

    /// Like [`EngineState::clear_lane`], for a set.
    pub(crate) fn clear_set(&mut self, set: SetName) -> usize {
        let jobs = std::mem::take(&mut self.sets[set as usize]);
        let count = jobs.len();
        self.cleared.add_set(jobs);
        count
    }

    /// Returns whether a job was removed with its queue or set and only occupies memory.
    pub(crate) fn is_cleared(&self, job: JobIndex) -> bool {
        !self.cleared.is_empty() && !self.is_in_place(job)
    }

    fn is_in_place(&self, job: JobIndex) -> bool {
        let entry = self.arena.get(job);
        match entry.rest.set() {
            Some(set) => self.set(set).contains(&(entry.order, job)),
            None if entry.rest == EntryState::Waiting => {
                self.queues.get(entry.queue).lane.contains(job, &self.arena)
            }
            None => true,
        }
    }

    fn place(&mut self, job: JobIndex, lane: LaneChoice) {
        let entry = *self.arena.get(job);
        match entry.rest.set() {
            Some(set) => {
                self.sets[set as usize].insert((entry.order, job));
            }
            None if entry.rest == EntryState::Waiting => {
                let queue = self.queues.get_mut(entry.queue);
                queue.lane.insert(job, &self.arena);
                queue.hidden = false;
                if let Some(bytes) = &mut queue.bytes {
                    *bytes += u64::from(self.sizes.get(job));
                }
                if let Some(fair) = &mut queue.fair {
                    fair.add(job, lane, &mut self.links, &self.arena);
                }
            }
            None => self.queues.get_mut(entry.queue).reserved += 1,
        }
    }

    fn unplace(&mut self, job: JobIndex) {
        let entry = *self.arena.get(job);
        match entry.rest.set() {
            Some(set) => {
                self.sets[set as usize].remove(&(entry.order, job));
            }
            None if entry.rest == EntryState::Waiting => {
                let queue = self.queues.get_mut(entry.queue);
                queue.lane.remove(job, &self.arena);
                if let Some(bytes) = &mut queue.bytes {
                    *bytes = bytes.saturating_sub(self.sizes.get(job).into());
                }
                if let Some(fair) = &mut queue.fair {
                    fair.remove(job, entry.order, &mut self.links);
                }
            }
            None => self.queues.get_mut(entry.queue).reserved -= 1,
        }
    }
}
