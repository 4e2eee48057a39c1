//! Moving jobs on behalf of operators and timers: requeue, kill, discard, clear, flush. Also
//! pausing, resuming and removing queues.

use weir_base::clock::Timestamp;
use weir_log::{Class, Disk, RecordPosition};

use super::arena::{ArenaEntry, EntryState, JobIndex};
use super::body::StoredBody;
use super::core::{Engine, EngineError};
use super::head::{Cause, Put, RecordHead, RemovalReason, StoredPlace, write_positions};
use super::journal::read_body_ahead;
use super::sizing::size_of;
use super::state::EngineState;
use crate::features::JobFeatures;
use crate::job_text;
use crate::metrics::JobServerLimit;
use crate::model::{EntryKey, JobLocation, QueueName, SetName, WorkerKills};
use crate::rules;
use crate::store::{Action, QueueAction};
use crate::tracks::TrackState;

/// Number of cleared jobs that are forgotten before other work continues: some 0.3 ms. Small in the
/// simulation, so that power cuts happen in between.
pub(crate) const CLEARED_SLICE_JOBS: usize = if cfg!(test) { 2 } else { 1024 };

impl<D: Disk> Engine<D> {
    /// Applies `action` to a waiting job. Returns its queue if it waits there now.
    pub(crate) fn act(
        &mut self,
        job: JobIndex,
        action: Action,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        match action {
            Action::Requeue => {
                let features = self.state.features.get(job).unlocked();
                self.requeue(job, features, now)
            }
            Action::Kill => self.kill(job, now).map(|()| None),
            Action::Discard => self.discard(job).map(|()| None),
            Action::Reschedule(at) => self.reschedule(job, at).map(|()| None),
        }
    }

    /// Moves a job that is due to the end of its queue. Returns the queue, or `None` if the job could
    /// not be read.
    pub(crate) fn requeue_due(
        &mut self,
        job: JobIndex,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        self.requeue(job, self.state.features.get(job), now)
    }

    fn requeue(
        &mut self,
        job: JobIndex,
        features: JobFeatures,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        let order = self.next_order(now);
        let is_retry = self.state.arena.get(job).rest == EntryState::Retries;
        let text = |body: &StoredBody<'_>| job_text::enqueued(body.json, body.base_bytes, now);
        if !self.rewrite(job, StoredPlace::Queue, order, features, now, text)? {
            return Ok(None);
        }
        let queue = self.state.arena.get(job).queue;
        self.note_arrival(queue, is_retry, now);
        Ok(Some(queue))
    }

    /// Changes when a scheduled job or a retry is due. Its unique lock stays.
    fn reschedule(&mut self, job: JobIndex, at: Timestamp) -> Result<(), EngineError> {
        let ArenaEntry { position, rest, .. } = *self.state.arena.get(job);
        let Some(set @ (SetName::Scheduled | SetName::Retries)) = rest.set() else { return Ok(()) };
        let mut buffer = Vec::new();
        let body = match self.journal.read(position, &mut buffer) {
            Ok(body) => body,
            Err(error) => return self.drop_unreadable(job, &error).or_stop().map(|_| ()),
        };
        let at = rules::spread(at, body.jid);
        let (json, base_bytes) = job_text::due_at(body.json, body.base_bytes, at);
        let body = StoredBody { json: &json, base_bytes, ..body };
        let features = self.state.features.get(job);
        let stored = StoredPlace::Set(set);
        self.rewrite_record(job, &body, Cause::Moved, stored, at.as_micros(), features)
    }

    /// Moves a job to the dead set.
    pub(crate) fn kill(&mut self, job: JobIndex, now: Timestamp) -> Result<(), EngineError> {
        let dead = StoredPlace::Set(SetName::Dead);
        let features = self.state.features.get(job).unlocked().died();
        self.rewrite(job, dead, now.as_micros(), features, now, |body| body.json.to_vec())?;
        self.trim_dead()
    }

    /// Deletes a job.
    pub(crate) fn discard(&mut self, job: JobIndex) -> Result<(), EngineError> {
        self.journal.note(&self.removal(job, RemovalReason::Deleted), &self.state)?;
        self.forget(job);
        Ok(())
    }

    /// Rewrites a job's record for another queue or set. Returns false if it could not be read.
    fn rewrite(
        &mut self,
        job: JobIndex,
        stored: StoredPlace,
        order: u64,
        features: JobFeatures,
        now: Timestamp,
        text: impl FnOnce(&StoredBody<'_>) -> Vec<u8>,
    ) -> Result<bool, EngineError> {
        let position = self.state.arena.get(job).position;
        let mut buffer = Vec::new();
        let body = match self.journal.read(position, &mut buffer) {
            Ok(body) => body,
            Err(error) => return self.drop_unreadable(job, &error).or_stop().map(|()| false),
        };
        let json = text(&body);
        let body = StoredBody { json: &json, ..body };
        self.rewrite_record(job, &body, Cause::Moved, stored, order, features)?;
        let is_dead = stored == StoredPlace::Set(SetName::Dead);
        let state = if is_dead { TrackState::Dead } else { TrackState::Enqueued };
        self.note_track(job, body.jid, state, now);
        Ok(true)
    }

    /// Moves a waiting job to the end of another queue. Returns the queue, or `None` if the job could not
    /// be read, or if its text can't name the queue.
    pub(crate) fn move_to(
        &mut self,
        job: JobIndex,
        name: &QueueName,
        paused: bool,
        now: Timestamp,
    ) -> Result<Option<u16>, EngineError> {
        let queue = self.queue_for_push(name.as_str())?;
        if paused && !self.state.queues.get(queue).paused {
            self.act_on_queue(name.as_str(), QueueAction::Pause)?;
        }
        let ArenaEntry { position, queue: left, .. } = *self.state.arena.get(job);
        let mut buffer = Vec::new();
        let body = match self.journal.read(position, &mut buffer) {
            Ok(body) => body,
            Err(error) => return self.drop_unreadable(job, &error).or_stop().map(|()| None),
        };
        let moved = job_text::in_queue(body.json, body.base_bytes, name.as_str());
        let Some((json, base_bytes)) = moved else { return Ok(None) };
        let json = job_text::enqueued(&json, base_bytes, now);
        let body = StoredBody { json: &json, base_bytes, ..body };
        let features = self.state.features.get(job).unlocked();
        let order = self.next_order(now);
        let target = RecordTarget { queue, stored: StoredPlace::Queue, order };
        self.rewrite_record_in(job, &body, Cause::Moved, target, features)?;
        self.note_arrival(queue, false, now);
        self.note_track(job, body.jid, TrackState::Enqueued, now);
        self.forget_removed(left);
        Ok(Some(queue))
    }

    /// Writes `body` as a job's new record with these features, and moves the job accordingly.
    pub(crate) fn rewrite_record(
        &mut self,
        job: JobIndex,
        body: &StoredBody<'_>,
        cause: Cause,
        stored: StoredPlace,
        order: u64,
        features: JobFeatures,
    ) -> Result<(), EngineError> {
        let target = RecordTarget { queue: self.state.arena.get(job).queue, stored, order };
        self.rewrite_record_in(job, body, cause, target, features)
    }

    fn rewrite_record_in(
        &mut self,
        job: JobIndex,
        body: &StoredBody<'_>,
        cause: Cause,
        target: RecordTarget,
        features: JobFeatures,
    ) -> Result<(), EngineError> {
        let RecordTarget { queue, stored, order } = target;
        let ArenaEntry { position: old, hash, .. } = *self.state.arena.get(job);
        let put = Put { cause, stored, queue, order, hash, replaces: Some(old), features: &[] };
        let position = self.journal.put(Class::Essential, &put, &features, body, &self.state)?;
        self.state.features.set(job, features);
        let lane = self.lane_for(queue, stored.rest(), body.json);
        let bytes = Some(size_of(body.json.len()));
        self.state.rest_in(job, queue, stored.rest(), order, lane, bytes);
        self.state.relocate(job, position);
        self.note_release(old.segment);
        Ok(())
    }

    /// Writes that a reserved job has killed its worker so often. Without space for that, or if the record can't be
    /// read, it is known until a restart.
    pub(crate) fn note_kills(
        &mut self,
        job: JobIndex,
        kills: Option<WorkerKills>,
    ) -> Result<(), EngineError> {
        let features = self.state.features.get(job);
        if features.kills == kills {
            return Ok(());
        }
        let features = JobFeatures { kills, ..features };
        let ArenaEntry { position: old, queue, hash, order, .. } = *self.state.arena.get(job);
        let mut buffer = Vec::new();
        if let Ok(body) = self.journal.read(old, &mut buffer) {
            let (cause, stored, replaces) = (Cause::Copied, StoredPlace::Queue, Some(old));
            let put = Put { cause, stored, queue, order, hash, replaces, features: &[] };
            let written = self.journal.put(Class::Essential, &put, &features, &body, &self.state);
            match written.map_err(EngineError::from) {
                Ok(position) => {
                    self.state.relocate(job, position);
                    self.note_release(old.segment);
                }
                Err(EngineError::Behind) => return Err(EngineError::Behind),
                Err(error) => {
                    tracing::warn!(%error, "a killed worker is not noted in the log");
                }
            }
        }
        self.state.features.set(job, features);
        Ok(())
    }

    /// Copies a job's record unchanged to the end of the log. Returns false if it could not be
    /// read.
    pub(crate) fn copy(&mut self, job: JobIndex) -> Result<bool, EngineError> {
        let ArenaEntry { position, queue, hash, order, rest, .. } = *self.state.arena.get(job);
        let body = match read_body_ahead(&mut self.ahead, position) {
            Ok(body) => body,
            Err(error) if rest == EntryState::Reserved && !error.is_passing() => {
                // The worker has the job; once it is finished, its record is no longer needed.
                tracing::error!(%error, "the record of a reserved job can't be read");
                self.note_damage(position, &error);
                return Ok(false);
            }
            Err(error) => return self.drop_unreadable(job, &error).or_stop().map(|()| false),
        };
        let stored = rest.set().map_or(StoredPlace::Queue, StoredPlace::Set);
        let replaces = Some(position);
        let put = Put { cause: Cause::Copied, stored, queue, order, hash, replaces, features: &[] };
        let features = self.state.features.get(job);
        let position = self.journal.put(Class::Essential, &put, &features, &body, &self.state)?;
        self.state.relocate(job, position);
        Ok(true)
    }

    /// Deletes the oldest dead jobs until the dead set is within its limit.
    pub(crate) fn trim_dead(&mut self) -> Result<(), EngineError> {
        while self.state.set(SetName::Dead).len() > self.settings.limits.dead_jobs_max {
            let Some((_, oldest)) = self.state.set(SetName::Dead).first().copied() else {
                break;
            };
            self.metrics.limit_hit(JobServerLimit::DeadJobsMax);
            self.discard(oldest)?;
        }
        Ok(())
    }

    /// Returns the job that `key` identifies in `place`.
    pub(crate) fn entry(&self, place: &JobLocation, key: &EntryKey) -> Option<JobIndex> {
        self.entries(place, key).next()
    }

    /// Returns the jobs that `key` identifies: several only if a producer used a jid twice in one
    /// batch.
    pub(crate) fn entries<'a>(
        &'a self,
        place: &JobLocation,
        key: &'a EntryKey,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let wanted = self.rest_of(place);
        self.find_all(&key.jid, move |entry| {
            entry.order == key.order && wanted.is_some_and(|wanted| wanted.is(entry))
        })
    }

    pub(crate) fn rest_of(&self, place: &JobLocation) -> Option<ExpectedEntry> {
        Some(match place {
            JobLocation::Set(set) => ExpectedEntry { rest: EntryState::in_set(*set), queue: None },
            JobLocation::Queue(name) => ExpectedEntry {
                rest: EntryState::Waiting,
                queue: Some(self.state.queues.number(name.as_str())?),
            },
        })
    }

    /// Clears a set. Returns the number of jobs deleted.
    pub(crate) fn clear_set(&mut self, set: SetName) -> Result<u64, EngineError> {
        self.journal.note(&RecordHead::SetCleared { set }, &self.state)?;
        let count = self.state.clear_set(set) as u64;
        self.begin_forgetting();
        Ok(count)
    }

    /// Pauses, resumes, clears or removes a queue. Returns the number of jobs deleted.
    pub(crate) fn act_on_queue(
        &mut self,
        name: &str,
        action: QueueAction,
    ) -> Result<u64, EngineError> {
        let Some(queue) = self.state.queues.number(name) else {
            return Ok(0);
        };
        match action {
            QueueAction::Pause => {
                self.journal.note(&RecordHead::QueuePaused { queue }, &self.state)?;
                self.state.queues.get_mut(queue).paused = true;
                Ok(0)
            }
            QueueAction::Resume => {
                self.journal.note(&RecordHead::QueueResumed { queue }, &self.state)?;
                self.state.queues.get_mut(queue).paused = false;
                Ok(0)
            }
            QueueAction::Clear | QueueAction::Remove => {
                let count = match action {
                    QueueAction::Clear => self.clear_queue(queue)?,
                    _ => self.remove_queue(queue)?,
                };
                self.begin_forgetting();
                Ok(count)
            }
        }
    }

    /// Forgets the first of the jobs that were cleared, which are all of them unless there are many.
    /// The timer does the rest.
    fn begin_forgetting(&mut self) {
        let _ = self.forget_cleared(CLEARED_SLICE_JOBS);
    }

    fn clear_queue(&mut self, queue: u16) -> Result<u64, EngineError> {
        let held = self.state.reserved.iter().map(|held| self.state.arena.get(held.job));
        let held = held.filter(|entry| entry.queue == queue).map(|entry| entry.position);
        let mut body = Vec::new();
        write_positions(&mut body, &held.collect::<Vec<RecordPosition>>());
        self.journal.note_with(&RecordHead::QueueCleared { queue }, &body, &self.state)?;
        Ok(self.state.clear_lane(queue) as u64)
    }

    fn remove_queue(&mut self, queue: u16) -> Result<u64, EngineError> {
        let count = self.clear_queue(queue)?;
        self.journal.note(&RecordHead::QueueHidden { queue }, &self.state)?;
        self.state.queues.get_mut(queue).hide();
        self.forget_removed(queue);
        Ok(count)
    }

    /// Deletes all jobs and queues.
    pub(crate) fn flush(&mut self) -> Result<(), EngineError> {
        self.journal.note(&RecordHead::Flushed, &self.state)?;
        let mut fresh = EngineState::new(self.state.seed, self.metrics.clone());
        fresh.queues.restore_fair_rules(self.state.queues.fair_rules());
        let old = std::mem::replace(&mut self.state, fresh);
        self.state.next_order = old.next_order;
        self.state.reserved.continue_tickets(&old.reserved);
        self.state.resources = old.resources;
        self.state.resources.forget_jobs();
        // What was enqueued is gone; its times are over all the same.
        self.state.features.cron = old.features.cron;
        self.state.features.cron.change_all();
        self.relaning.clear();
        self.sizing.clear();
        self.dispatcher.forget_running();
        self.reclaim.start_over();
        Ok(())
    }
}

/// Where a job's new record puts it.
#[derive(Clone, Copy, Debug)]
struct RecordTarget {
    queue: u16,
    stored: StoredPlace,
    order: u64,
}

/// The state and queue that a job must have to match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedEntry {
    rest: EntryState,
    queue: Option<u16>,
}

impl ExpectedEntry {
    pub(crate) fn is(&self, entry: &ArenaEntry) -> bool {
        entry.rest == self.rest && self.queue.is_none_or(|queue| entry.queue == queue)
    }
}
