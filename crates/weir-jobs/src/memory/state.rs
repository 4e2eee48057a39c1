//! The state of the memory store: jobs, their queues, sets and reservations, and the totals.
//!
//! Every live job is in exactly one place: the `lane` of its queue, one of the three sets, or the
//! reservations. Only [`MemoryState::leave`] and [`MemoryState::enter`] change its place.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use weir_base::clock::Timestamp;

use super::lanes::MemoryLanes;
use crate::allocation::{Allocation, DispatchPolicy};
use crate::batches::JobEnd;
use crate::dispatch::{DispatchCharge, Dispatcher};
use crate::features::{FeatureTable, JobFeatures};
use crate::job_types::TypeRun;
use crate::lanes::LaneId;
use crate::metrics::{JobsMetrics, QueueMetrics};
use crate::model::{NewJob, QueueName, SetName, Wid};
use crate::resources::{ResourceSet, ResourceTable, ResourceUse};
use crate::settings::JobServerLimits;
use crate::start_rate::QueueRate;
use crate::store::{InTimeStarts, LostWorkers, QueueArrivals};
use crate::tracks::{Track, TrackState};

/// Identifies a job for its lifetime. Older jobs have lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobId(u64);

impl JobId {
    pub(super) const BEFORE_ALL: Self = Self(0);
    pub(super) const AFTER_ALL: Self = Self(u64::MAX);
}

/// A live job.
#[derive(Debug)]
pub(super) struct MemoryJob {
    pub(super) jid: Box<str>,
    pub(super) jobtype: Box<str>,
    pub(super) queue: QueueName,
    pub(super) reserve_for_seconds: u32,
    pub(super) retry: i32,
    pub(super) backtrace: u32,
    pub(super) json: Vec<u8>,
    pub(super) base_bytes: usize,
    /// Microseconds: when it was enqueued (unique in the store), is due, or died.
    pub(super) order: u64,
    pub(super) rest: MemoryJobState,
    /// If it waits or is reserved, and its queue has `fair_by`.
    pub(super) lane: Option<LaneId>,
}

/// Where a job is.
#[derive(Clone, Debug)]
pub(super) enum MemoryJobState {
    Waiting,
    In(SetName),
    Reserved(MemoryReservation),
}

/// A worker's reservation of a job.
#[derive(Clone, Debug)]
pub(super) struct MemoryReservation {
    /// A number that is never reused.
    pub(super) ticket: u64,
    pub(super) wid: Option<Wid>,
    pub(super) since: Timestamp,
    pub(super) expires_at: Timestamp,
    /// Of dispatch, until the end of the job.
    pub(super) charge: Option<DispatchCharge>,
    /// Of the statistics by type.
    pub(super) run: Rc<TypeRun>,
    /// The shared resources that the job uses.
    pub(super) uses: ResourceSet,
}

/// One queue.
#[derive(Debug)]
pub(super) struct MemoryQueue {
    /// Its waiting jobs, sorted by order.
    pub(super) lane: BTreeMap<u64, JobId>,
    /// The lanes of its tenants, if it has `fair_by`.
    pub(super) fair: Option<MemoryLanes<JobId>>,
    pub(super) paused: bool,
    /// How often its jobs start.
    pub(super) rate: QueueRate,
    /// Removed by an operator while jobs of it were reserved or in sets.
    pub(super) hidden: bool,
    /// Bytes of its jobs that wait.
    pub(super) bytes: u64,
    /// Number of its reserved jobs.
    pub(super) reserved: u32,
    /// Number of its live jobs in any state.
    pub(super) jobs: u64,
    pub(super) totals: MemoryTotals,
    pub(super) metrics: QueueMetrics,
}

impl MemoryQueue {
    /// Marks a queue as removed while it still has jobs.
    pub(super) fn hide(&mut self) {
        self.hidden = true;
        self.paused = false;
        self.totals = MemoryTotals::default();
    }
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryTotals {
    pub(super) pushed: u64,
    /// Jobs that finished, including failed ones.
    pub(super) processed: u64,
    pub(super) failed: u64,
    pub(super) arrivals: QueueArrivals,
    pub(super) in_time: InTimeStarts,
}

/// All jobs, their queues, sets and reservations, and the totals.
#[derive(Debug)]
pub(super) struct MemoryState {
    pub(super) jobs: BTreeMap<JobId, MemoryJob>,
    pub(super) queues: BTreeMap<QueueName, MemoryQueue>,
    sets: [BTreeSet<(u64, JobId)>; 3],
    /// Reserved jobs, sorted by the expiry of their reservations.
    pub(super) expiry: BTreeSet<(Timestamp, JobId)>,
    /// Queues that fetches wait for, by when the next job of each may start by its rate or that of a tenant.
    pub(super) sleeping: BTreeSet<(Timestamp, QueueName)>,
    /// The shared resources, and the queues that wait for them.
    pub(super) resources: ResourceTable<QueueName>,
    /// Jobs in progress of each shared resource.
    pub(super) used: ResourceUse,
    pub(super) by_jid: BTreeMap<Box<str>, BTreeSet<JobId>>,
    pub(super) totals: MemoryTotals,
    pub(super) features: FeatureTable<JobId>,
    /// Size of all jobs' texts, in bytes.
    pub(super) bytes: usize,
    next_id: u64,
    /// Greater than every order assigned so far.
    next_order: u64,
    pub(super) allocation: Allocation,
    pub(super) dispatcher: Dispatcher,
    pub(super) limits: JobServerLimits,
    pub(super) metrics: JobsMetrics,
    pub(super) random: fastrand::Rng,
    /// Of the last reservation.
    pub(super) last_ticket: u64,
    pub(super) lost_workers: LostWorkers,
}

impl MemoryState {
    pub(super) fn new(
        allocation: Allocation,
        limits: JobServerLimits,
        metrics: JobsMetrics,
    ) -> Self {
        let mut new = Self {
            jobs: BTreeMap::new(),
            queues: BTreeMap::new(),
            sets: Default::default(),
            expiry: BTreeSet::new(),
            sleeping: BTreeSet::new(),
            resources: ResourceTable::default(),
            used: ResourceUse::default(),
            by_jid: BTreeMap::new(),
            totals: MemoryTotals::default(),
            features: FeatureTable::default(),
            bytes: 0,
            next_id: 0,
            next_order: 1,
            allocation,
            dispatcher: Dispatcher::default(),
            limits,
            metrics,
            random: fastrand::Rng::new(),
            last_ticket: 0,
            lost_workers: LostWorkers::default(),
        };
        new.apply_resources();
        new
    }

    /// Deletes all jobs and queues, but continues the sequences of orders and tickets.
    pub(super) fn flush(&mut self) {
        let fresh = Self::new(self.allocation.clone(), self.limits.clone(), self.metrics.clone());
        let old = std::mem::replace(self, fresh);
        self.next_order = old.next_order;
        self.resources = old.resources;
        self.resources.forget_jobs();
        self.last_ticket = old.last_ticket;
        self.lost_workers = old.lost_workers;
        self.features.cron = old.features.cron;
        self.dispatcher = old.dispatcher;
        self.dispatcher.forget_running();
    }

    pub(super) fn set(&self, set: SetName) -> &BTreeSet<(u64, JobId)> {
        &self.sets[set as usize]
    }

    /// Returns a live job.
    pub(super) fn job(&self, id: JobId) -> &MemoryJob {
        self.jobs.get(&id).expect("an id in a place names a live job")
    }

    /// Returns an existing queue.
    pub(super) fn queue(&mut self, name: &QueueName) -> &mut MemoryQueue {
        self.queues.get_mut(name).expect("a live job's queue is there")
    }

    /// Returns an order after that of every job in any queue.
    pub(super) fn next_order(&mut self, now: Timestamp) -> u64 {
        let order = now.as_micros().max(self.next_order);
        self.next_order = order + 1;
        order
    }

    /// Adds a job to its queue, which must exist, or to a set.
    pub(super) fn insert(
        &mut self,
        new: &NewJob<'_>,
        queue: QueueName,
        set: Option<(SetName, Timestamp)>,
        features: JobFeatures,
        now: Timestamp,
    ) {
        let id = JobId(self.next_id);
        self.next_id += 1;
        let (rest, order) = match set {
            None => (MemoryJobState::Waiting, self.next_order(now)),
            Some((set, at)) => (MemoryJobState::In(set), at.as_micros()),
        };
        let job = MemoryJob {
            jid: Box::from(new.jid),
            jobtype: Box::from(new.jobtype),
            queue: queue.clone(),
            reserve_for_seconds: new.reserve_for_seconds,
            retry: new.retry,
            backtrace: new.backtrace,
            json: new.json.to_vec(),
            base_bytes: new.base_bytes,
            order,
            rest: rest.clone(),
            lane: None,
        };
        self.bytes += job.json.len();
        self.by_jid.entry(job.jid.clone()).or_default().insert(id);
        self.jobs.insert(id, job);
        self.features.set(id, features);
        self.totals.pushed += 1;
        let queue = self.queue(&queue);
        queue.jobs += 1;
        queue.totals.pushed += 1;
        if set.is_none() {
            self.note_arrival(id, false, now);
        }
        self.enter(id, rest, order);
        self.note_track(id, TrackState::Enqueued, now);
    }

    /// Counts a job that starts to wait.
    pub(super) fn note_arrival(&mut self, id: JobId, is_retry: bool, now: Timestamp) {
        let queue = self.job(id).queue.clone();
        self.queue(&queue).totals.arrivals.count(is_retry);
        if self.allocation.policy == DispatchPolicy::Targets {
            self.dispatcher.arrived(&queue, now);
        }
    }

    /// Notes a new state of a job, if it is tracked.
    pub(super) fn note_track(&mut self, id: JobId, state: TrackState, now: Timestamp) {
        if self.features.get(id).tracked {
            let jid = self.job(id).jid.clone();
            self.features.note_track(&jid, state, &self.limits, &self.metrics, now);
        }
    }

    /// Replaces what is known of a tracked job.
    pub(super) fn import_track(&mut self, jid: &str, track: Track) {
        self.features.import_track(jid, track, &self.limits, &self.metrics);
    }

    /// Moves a job to another queue, set or reservation.
    pub(super) fn rest(&mut self, id: JobId, rest: MemoryJobState, order: u64) {
        self.leave(id);
        self.enter(id, rest, order);
    }

    /// Moves a job to the end of another queue, which exists.
    pub(super) fn rest_in(&mut self, id: JobId, queue: &QueueName, base_bytes: usize, order: u64) {
        self.leave(id);
        let job = self.jobs.get_mut(&id).expect("an id in a place names a live job");
        job.base_bytes = base_bytes;
        let left = std::mem::replace(&mut job.queue, queue.clone());
        self.queue(queue).jobs += 1;
        self.enter(id, MemoryJobState::Waiting, order);
        self.leave_queue(&left);
    }

    /// Counts a job less of a queue, and removes a removed queue with its last job.
    fn leave_queue(&mut self, name: &QueueName) {
        let queue = self.queue(name);
        queue.jobs -= 1;
        if queue.hidden && queue.jobs == 0 {
            self.queues.remove(name);
        }
    }

    /// Replaces a job's text.
    pub(super) fn rewrite(&mut self, id: JobId, json: Vec<u8>) {
        let job = self.jobs.get_mut(&id).expect("an id in a place names a live job");
        self.bytes = self.bytes - job.json.len() + json.len();
        if matches!(job.rest, MemoryJobState::Waiting) {
            let queue = self.queues.get_mut(&job.queue).expect("a live job's queue is there");
            queue.bytes = queue.bytes - job.json.len() as u64 + json.len() as u64;
        }
        job.json = json;
    }

    /// Sets the length of a job's text without its tail.
    pub(super) fn set_base_bytes(&mut self, id: JobId, base_bytes: usize) {
        let job = self.jobs.get_mut(&id).expect("an id in a place names a live job");
        job.base_bytes = base_bytes;
    }

    /// Removes a job from its place and from memory, and a removed queue with its last job.
    pub(super) fn forget(&mut self, id: JobId) {
        self.leave(id);
        self.features.end(id, JobEnd::Lost);
        let job = self.jobs.remove(&id).expect("an id in a place names a live job");
        self.bytes -= job.json.len();
        let twins = self.by_jid.get_mut(&job.jid).expect("a live job's jid is indexed");
        twins.remove(&id);
        if twins.is_empty() {
            self.by_jid.remove(&job.jid);
        }
        self.leave_queue(&job.queue);
    }

    fn enter(&mut self, id: JobId, rest: MemoryJobState, order: u64) {
        let job = self.jobs.get_mut(&id).expect("an id in a place names a live job");
        job.order = order;
        job.rest = rest.clone();
        let queue = self.queues.get_mut(&job.queue).expect("a live job's queue is there");
        match rest {
            MemoryJobState::Waiting => {
                queue.hidden = false;
                queue.lane.insert(order, id);
                queue.bytes += job.json.len() as u64;
                job.lane = queue.fair.as_mut().map(|fair| fair.add(id, order, &job.json));
            }
            MemoryJobState::In(set) => {
                self.sets[set as usize].insert((order, id));
            }
            MemoryJobState::Reserved(reservation) => {
                queue.reserved += 1;
                self.used.add(reservation.uses);
                job.lane = queue.fair.as_mut().map(|fair| fair.start(&job.json));
                self.expiry.insert((reservation.expires_at, id));
            }
        }
    }

    fn leave(&mut self, id: JobId) {
        let job = self.jobs.get_mut(&id).expect("an id in a place names a live job");
        let queue = self.queues.get_mut(&job.queue).expect("a live job's queue is there");
        let lane = queue.fair.as_mut().zip(job.lane.take());
        match &job.rest {
            MemoryJobState::Waiting => {
                queue.lane.remove(&job.order);
                queue.bytes -= job.json.len() as u64;
                if let Some((fair, lane)) = lane {
                    fair.remove(lane, job.order);
                }
            }
            MemoryJobState::In(set) => {
                self.sets[*set as usize].remove(&(job.order, id));
            }
            MemoryJobState::Reserved(reservation) => {
                queue.reserved -= 1;
                self.used.remove(reservation.uses);
                if let Some((fair, lane)) = lane {
                    fair.end(lane, None);
                }
                self.expiry.remove(&(reservation.expires_at, id));
            }
        }
    }
}
