//! Storing pushed and imported jobs.

use weir_base::clock::Timestamp;
use weir_log::{Class, Disk, RecordPosition};

use super::arena::{EntryState, JobIndex};
use super::body::StoredBody;
use super::core::{Engine, EngineError};
use super::head::{Cause, Put, RecordHead, RemovalReason, StoredPlace};
use super::moves::CLEARED_SLICE_JOBS;
use super::sizing::size_of;
use super::state::NewEntry;
use crate::batches::JobEnd;
use crate::features::{ExportedFeatures, JobFeatures};
use crate::metrics::JobServerLimit;
use crate::model::{NewJob, QueueName, SetName};
use crate::settings::JobServerLimits;
use crate::store::{Restored, StoreError};
use crate::tracks::TrackState;

/// Queue numbers have 16 bits.
const QUEUES_MAX: usize = 1 << 16;

/// A pushed or imported job with its destination.
pub(crate) trait Arrival {
    fn job(&self) -> &NewJob<'_>;

    /// Returns the set and its time, or `None` for the queue.
    fn set(&self) -> Option<(SetName, Timestamp)>;

    /// Returns what an exported job had beside its text.
    fn exported_features(&self) -> Option<&ExportedFeatures> {
        None
    }

    /// Whether the job is stored even if another one holds its unique lock.
    const IS_IMPORT: bool;
}

impl Arrival for NewJob<'_> {
    fn job(&self) -> &NewJob<'_> {
        self
    }

    fn set(&self) -> Option<(SetName, Timestamp)> {
        self.at.map(|at| (SetName::Scheduled, at))
    }

    const IS_IMPORT: bool = false;
}

impl Arrival for Restored<'_> {
    fn job(&self) -> &NewJob<'_> {
        &self.job
    }

    fn set(&self) -> Option<(SetName, Timestamp)> {
        self.set.map(|set| (set, self.at))
    }

    fn exported_features(&self) -> Option<&ExportedFeatures> {
        self.features.as_ref()
    }

    const IS_IMPORT: bool = true;
}

impl<D: Disk> Engine<D> {
    /// Stores one job. Returns its index, and its queue if the job waits there now (not in a set).
    pub(crate) fn store(
        &mut self,
        arrival: &impl Arrival,
        now: Timestamp,
    ) -> Result<(JobIndex, Option<u16>), EngineError> {
        let features = self.admit(arrival, now)?;
        self.store_admitted(arrival, features, Class::Job, now)
    }

    /// Stores one job with these features, which were admitted.
    pub(crate) fn store_admitted(
        &mut self,
        arrival: &impl Arrival,
        features: JobFeatures,
        class: Class,
        now: Timestamp,
    ) -> Result<(JobIndex, Option<u16>), EngineError> {
        let (job, set) = (arrival.job(), arrival.set());
        let queue = self.queue_for_push(job.queue)?;
        let (stored, rest, order) = match set {
            None => (StoredPlace::Queue, EntryState::Waiting, self.next_order(now)),
            Some((set, at)) => (StoredPlace::Set(set), EntryState::in_set(set), at.as_micros()),
        };
        let hash = self.state.hash(job.jid);
        let put =
            Put { cause: Cause::Pushed, stored, queue, order, hash, replaces: None, features: &[] };
        let body = StoredBody::of(job);
        let position = self.journal.put(class, &put, &features, &body, &self.state);
        let position = position.inspect_err(|error| {
            if matches!(error, weir_log::AppendError::NoSpace) {
                self.metrics.limit_hit(JobServerLimit::ReserveBytes);
            }
        })?;
        let lane = self.lane_for(queue, rest, job.json);
        let bytes = size_of(job.json.len());
        let new = NewEntry { position, order, hash, queue, rest, lane, bytes };
        let index = self.state.insert(new);
        self.state.features.set(index, features);
        self.state.totals.pushed += 1;
        self.state.queues.get_mut(queue).pushed_total += 1;
        if set.is_none() {
            self.note_arrival(queue, false, now);
        }
        self.note_track(index, job.jid, TrackState::Enqueued, now);
        Ok((index, set.is_none().then_some(queue)))
    }

    /// Returns the features of a job that may be stored.
    fn admit<A: Arrival>(
        &mut self,
        arrival: &A,
        now: Timestamp,
    ) -> Result<JobFeatures, StoreError> {
        let custom = &arrival.job().custom;
        if custom.is_empty() && arrival.exported_features().is_none() {
            return Ok(JobFeatures::default());
        }
        let due = arrival.set().filter(|(set, _)| *set == SetName::Scheduled).map(|(_, at)| at);
        let features = JobFeatures::of(custom, due, now);
        let features = match arrival.exported_features() {
            Some(exported) => features.imported(exported),
            None => features,
        };
        if A::IS_IMPORT {
            return Ok(self.admit_import(features, now));
        }
        self.admit_features(&features, now)?;
        Ok(features)
    }

    /// Returns an error if a pushed job with these features must not be stored.
    pub(crate) fn admit_features(
        &mut self,
        features: &JobFeatures,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.free_lock_of_cleared(features);
        let limits = &self.settings.limits;
        if features.lock.is_some() && self.state.features.locks() >= limits.unique_locks_max {
            // Without space for it, the limit is checked with the locks of cleared jobs.
            let _ = self.forget_cleared(CLEARED_SLICE_JOBS);
        }
        let (table, limits) = (&mut self.state.features, &self.settings.limits);
        table.admit(features, now, limits, &self.metrics)
    }

    /// Returns whether another job holds the unique lock of a pushed job.
    pub(crate) fn is_locked(&mut self, job: &NewJob<'_>, now: Timestamp) -> bool {
        if job.custom.is_empty() {
            return false;
        }
        let features = JobFeatures::of(&job.custom, job.at, now);
        self.free_lock_of_cleared(&features);
        self.state.features.is_locked(&features, now)
    }

    /// Returns the features of a job that is stored in any case.
    pub(crate) fn admit_import(&mut self, features: JobFeatures, now: Timestamp) -> JobFeatures {
        self.free_lock_of_cleared(&features);
        self.state.features.admit_import(features, now)
    }

    /// Frees the lock of these features if it is that of a job of a cleared queue or set that is not
    /// forgotten yet.
    fn free_lock_of_cleared(&mut self, features: &JobFeatures) {
        let holder = self.state.features.lock_holder(features);
        if let Some(holder) = holder.filter(|job| self.state.is_cleared(*job)) {
            self.state.features.unlock(holder);
        }
    }

    /// Removes a job of a batch that could not be stored completely, unless it was reserved or
    /// removed since. The totals keep counting it, because a decreasing counter would look like a
    /// reset.
    pub(crate) fn take_back(&mut self, job: JobIndex, position: RecordPosition) {
        let entry = self.state.arena.lookup(job).filter(|entry| entry.position == position);
        if entry.is_none_or(|entry| entry.rest == EntryState::Reserved)
            || self.state.is_cleared(job)
        {
            return;
        }
        let head = RecordHead::Remove { gone: RemovalReason::Deleted, position, batch: None };
        if let Err(error) = self.journal.note(&head, &self.state) {
            tracing::error!(%error, "part of a refused batch stays in the log");
        }
        self.state.features.end(job, JobEnd::Withdrawn);
        self.forget(job);
    }

    /// Returns the number of a queue. Creates a new queue, and makes a removed one visible again.
    pub(crate) fn queue_for_push(&mut self, name: &str) -> Result<u16, EngineError> {
        if let Some(number) = self.state.queues.number(name) {
            self.state.queues.get_mut(number).hidden = false;
            return Ok(number);
        }
        let number = self.number_for_new_queue()?;
        let unlimited =
            JobServerLimits { queue_name_bytes_max: usize::MAX, ..JobServerLimits::default() };
        let name = QueueName::parse(name, &unlimited)
            .map_err(|error| StoreError::Limit(error.to_string()))?;
        let head = RecordHead::QueueDefined { queue: number, name: name.as_str() };
        self.journal.note(&head, &self.state)?;
        self.state.queues.define(number, name);
        Ok(number)
    }

    /// Returns a free queue number. The settings file can't allow more queues than there are
    /// numbers, but settings built in code can.
    fn number_for_new_queue(&mut self) -> Result<u16, EngineError> {
        let max = self.settings.limits.queues_max;
        let is_allowed = self.state.queues.len() < max;
        if let Some(number) = self.state.queues.free_number().filter(|_| is_allowed) {
            return Ok(number);
        }
        self.metrics.limit_hit(JobServerLimit::QueuesMax);
        let max = max.min(QUEUES_MAX);
        let text = format!("too many queues: at most {max} (jobs.limits.advanced.queues_max)");
        Err(StoreError::Limit(text).into())
    }
}
