//! Read-only operations: counts, one job, reservations, and scans of a queue or set. A scan only
//! collects positions here; [`super::scan`] reads the records, possibly on another thread.

use std::ops::Bound::{Excluded, Included, Unbounded};

use weir_base::clock::Timestamp;
use weir_log::{Disk, RecordError, RecordPosition};

use super::arena::{ArenaEntry, EntryState, JobIndex};
use super::body::StoredBody;
use super::core::{Engine, Unreadable};
use super::queues::EngineQueue;
use crate::features::ExportedFeatures;
use crate::job_class::job_class;
use crate::job_text;
use crate::lanes::BlockedJobs;
use crate::model::{EntryKey, JobLocation, QueueName, SetName};
use crate::store::{
    Counts, JobState, QueueCounts, Reserved, ScanRequest, StoreError, StoredJob, TenantDepth,
};

/// A job that a scan has to examine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkStop {
    pub(crate) job: JobIndex,
    pub(crate) position: RecordPosition,
    pub(crate) order: u64,
    pub(crate) rest: EntryState,
    pub(crate) queue: u16,
    pub(crate) features: ExportedFeatures,
}

impl<D: Disk> Engine<D> {
    /// Returns the counts, without `fetches_waiting`, which the caller sets.
    pub(crate) fn counts(&mut self, now: Timestamp) -> Counts {
        self.wake_all(now);
        let visible = self.state.queues.iter().filter(|(_, queue)| !queue.hidden);
        let queues = visible.map(|(_, queue)| QueueCounts {
            name: queue.name.clone(),
            depth: queue.lane.len() as u64,
            oldest: queue.lane.first().map(|job| self.order_time(job)),
            paused: queue.paused,
            reserved: u64::from(queue.reserved),
            pushed_total: queue.pushed_total,
            processed_total: queue.processed_total,
            failed_total: queue.failed_total,
            lanes: queue.fair.as_ref().map(|fair| fair.counts()).unwrap_or_default(),
            arrivals: Some(queue.arrivals),
            blocked: self.blocked(queue, now),
            blocked_by_resource: Vec::new(),
            in_time: Some(queue.in_time),
        });
        let mut counts = Counts {
            queues: queues.collect(),
            scheduled: self.state.set(SetName::Scheduled).len() as u64,
            retries: self.state.set(SetName::Retries).len() as u64,
            dead: self.state.set(SetName::Dead).len() as u64,
            reserved: self.state.reserved.len() as u64,
            processed_total: self.state.totals.processed,
            failed_total: self.state.totals.failed,
            pushed_total: self.state.totals.pushed,
            unique_locks: self.state.features.locks() as u64,
            tracked: self.state.features.tracks.len() as u64,
            batches: self.state.features.batches.len() as u64,
            batches_waiting: self.state.features.batches.waiting() as u64,
            batch_bytes: self.state.features.batches.definition_bytes() as u64,
            limits_lowered_until: self.limits_lowered_until(),
            ..Counts::default()
        };
        self.add_resources(&mut counts, now);
        counts
    }

    /// Returns how many jobs of a queue wait because of a limit of the queue or of tenants.
    fn blocked(&self, queue: &EngineQueue, now: Timestamp) -> BlockedJobs {
        let most = self.allocation.of(&queue.name).concurrency;
        let all = queue.lane.len() as u64;
        if most.is_some_and(|most| queue.reserved >= most) {
            return BlockedJobs { concurrency: all, ..BlockedJobs::default() };
        }
        if queue.rate.blocked_until(now).is_some() {
            return BlockedJobs { rate: all, ..BlockedJobs::default() };
        }
        queue.fair.as_ref().map(|fair| fair.blocked()).unwrap_or_default()
    }

    /// Returns how many jobs wait in a queue.
    pub(crate) fn depth(&self, queue: &str) -> u64 {
        let number = self.state.queues.number(queue);
        number.map_or(0, |number| self.state.queues.get(number).lane.len() as u64)
    }

    /// Returns how many jobs wait of the tenant of a job with this text.
    pub(crate) fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
        let number = self.state.queues.number(queue)?;
        self.state.queues.get(number).fair.as_ref()?.tenant_depth(json)
    }

    fn order_time(&self, job: JobIndex) -> Timestamp {
        Timestamp::from_micros(self.state.arena.get(job).order)
    }

    /// Returns up to `limit` reservations, oldest first.
    pub(crate) fn reservations(&self, limit: usize) -> Vec<Reserved> {
        let mut all: Vec<_> = self.state.reserved.iter().collect();
        all.sort_unstable_by_key(|reservation| (reservation.since, reservation.job));
        let mut buffer = Vec::new();
        let mut shown = |reservation: &super::reservations::EngineReservation| {
            let entry = self.state.arena.get(reservation.job);
            let body = self.journal.read(entry.position, &mut buffer);
            Reserved {
                jid: reservation.jid.clone(),
                jobtype: body
                    .map(|body| job_class(body.jobtype, body.json).into())
                    .unwrap_or_default(),
                queue: self.state.queues.get(entry.queue).name.clone(),
                wid: reservation.wid.clone(),
                since: reservation.since,
                expires_at: reservation.expires_at,
            }
        };
        all.into_iter().take(limit).map(&mut shown).collect()
    }

    /// Finds a job by its jid in all queues, sets and reservations.
    pub(crate) fn find_job(&self, jid: &str) -> Option<StoredJob> {
        let job = self.find(jid, |_| true)?;
        let entry = *self.state.arena.get(job);
        let mut buffer = Vec::new();
        let body = self.journal.read(entry.position, &mut buffer).ok()?;
        let mut stored = self.stored(&self.stop(job), &body);
        if entry.rest == EntryState::Reserved
            && let Some(reservation) = self.state.reserved.get(jid)
        {
            stored.at = reservation.since;
            let (wid, expires_at) = (reservation.wid.clone(), reservation.expires_at);
            stored.state = JobState::Reserved { wid, expires_at };
        }
        Some(stored)
    }

    /// Returns the next stops of a scan: up to `scan_max` plus one, which shows the caller whether
    /// more follow.
    pub(crate) fn stops(&self, request: &ScanRequest) -> Vec<WalkStop> {
        let after = request.after.as_ref();
        let max = request.scan_max.saturating_add(1);
        match &request.place {
            JobLocation::Queue(name) => {
                let Some(number) = self.state.queues.number(name.as_str()) else {
                    return Vec::new();
                };
                let (lane, arena) = (&self.state.queues.get(number).lane, &self.state.arena);
                let after = after.map(|key| key.order);
                if request.newest_first {
                    lane.before(after, arena).take(max).map(|job| self.stop(job)).collect()
                } else {
                    lane.after(after, arena).take(max).map(|job| self.stop(job)).collect()
                }
            }
            JobLocation::Set(set) => self.set_stops(*set, after, request),
        }
    }

    fn set_stops(
        &self,
        set: SetName,
        after: Option<&EntryKey>,
        request: &ScanRequest,
    ) -> Vec<WalkStop> {
        let max = request.scan_max.saturating_add(1);
        let jobs = self.state.set(set);
        let stop = |(_, job): &(u64, JobIndex)| self.stop(*job);
        // If the key's job is gone, continue with the first job of the same time, so that none is
        // skipped. Returning one twice does no harm.
        let place = JobLocation::Set(set);
        if request.newest_first {
            let until = after.map_or(Unbounded, |key| match self.entries(&place, key).min() {
                Some(job) => Excluded((key.order, job)),
                None => Included((key.order, JobIndex(u32::MAX))),
            });
            jobs.range((Unbounded, until)).rev().take(max).map(stop).collect()
        } else {
            let from = after.map_or(Unbounded, |key| match self.entries(&place, key).max() {
                Some(job) => Excluded((key.order, job)),
                None => Included((key.order, JobIndex(0))),
            });
            jobs.range((from, Unbounded)).take(max).map(stop).collect()
        }
    }

    /// Returns the order of the last job of a queue or set.
    pub(crate) fn last_order(&self, place: &JobLocation) -> Option<u64> {
        match place {
            JobLocation::Set(set) => self.state.set(*set).last().map(|(at, _)| *at),
            JobLocation::Queue(name) => {
                let queue = self.state.queues.get(self.state.queues.number(name.as_str())?);
                queue.lane.last().map(|job| self.state.arena.get(job).order)
            }
        }
    }

    /// Returns the first job of a queue or set if its order is at most `last`.
    pub(crate) fn first_up_to(&self, place: &JobLocation, last: u64) -> Option<JobIndex> {
        let (order, job) = match place {
            JobLocation::Set(set) => self.state.set(*set).first().copied()?,
            JobLocation::Queue(name) => {
                let queue = self.state.queues.get(self.state.queues.number(name.as_str())?);
                let first = queue.lane.first()?;
                (self.state.arena.get(first).order, first)
            }
        };
        (order <= last).then_some(job)
    }

    pub(crate) fn stop(&self, job: JobIndex) -> WalkStop {
        let ArenaEntry { position, order, rest, queue, .. } = *self.state.arena.get(job);
        let features = self.state.features.get(job).exported();
        WalkStop { job, position, order, rest, queue, features }
    }

    /// Returns a stop with what is needed to read it on another thread.
    pub(crate) fn named(&self, stop: WalkStop) -> (WalkStop, QueueName) {
        let name = self.state.queues.get(stop.queue).name.clone();
        (stop, name)
    }

    /// Drops a job whose record a scan could not read, unless it has moved since.
    pub(crate) fn drop_stop(
        &mut self,
        stop: &WalkStop,
        error: &RecordError,
    ) -> Result<(), StoreError> {
        let entry = self.state.arena.lookup(stop.job);
        let same = |entry: &ArenaEntry| entry.position == stop.position && entry.rest == stop.rest;
        if !entry.is_some_and(same) || self.state.is_cleared(stop.job) {
            return Ok(());
        }
        match self.drop_unreadable(stop.job, error) {
            Unreadable::Dropped => Ok(()),
            Unreadable::JustNow(error) => Err(error),
        }
    }

    /// Returns a job with all its data. For a reserved job the caller adds the reservation.
    pub(crate) fn stored(&self, stop: &WalkStop, body: &StoredBody<'_>) -> StoredJob {
        let queue = self.state.queues.get(stop.queue).name.clone();
        stored_job(stop, queue, body)
    }
}

/// Builds a job with all its data from its record.
pub(crate) fn stored_job(stop: &WalkStop, queue: QueueName, body: &StoredBody<'_>) -> StoredJob {
    StoredJob {
        key: EntryKey { order: stop.order, jid: Box::from(body.jid) },
        state: stop.rest.set().map_or(JobState::Enqueued, JobState::In),
        jobtype: Box::from(body.jobtype),
        queue,
        at: Timestamp::from_micros(stop.order),
        retry: body.retry,
        reserve_for_seconds: body.reserve_for_seconds,
        failure: job_text::failure(body.json, body.base_bytes),
        json: body.json.to_vec(),
        features: stop.features,
    }
}
