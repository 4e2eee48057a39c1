//! What the server does for a job beside storing it: it drops the job when it expires, holds the
//! job's unique lock, tracks its progress and counts it in its batch. Both stores use this; the
//! embedded store writes [`JobFeatures`] into the heads of its records.
//!
//! Jobs without features cost nothing here: they have no entry.

use std::collections::HashMap;
use std::hash::Hash;

use weir_base::clock::Timestamp;

use crate::batches::{Batches, CallbackKind, JobEnd};
use crate::cron::CronTable;
use crate::custom::{BatchId, CustomMembers, UniqueKey, UniqueUntil};
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::model::WorkerKills;
use crate::settings::JobServerLimits;
use crate::store::error::StoreError;
use crate::tracks::{Track, TrackState, Tracks};
use crate::unique::UniqueLocks;

/// The features of one live job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFeatures {
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) lock: Option<JobLock>,
    /// Whether TRACK knows the job.
    pub(crate) tracked: bool,
    pub(crate) batch: Option<BatchMember>,
    pub(crate) callback: Option<CallbackJob>,
    pub(crate) cron: Option<CronRun>,
    /// How often it has killed its worker.
    pub(crate) kills: Option<WorkerKills>,
}

/// A job's membership in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchMember {
    pub(crate) batch: BatchId,
    /// Whether the job has failed once.
    pub(crate) has_failed: bool,
}

/// The time of a cron job for which a job was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CronRun {
    /// A hash of the cron job's name.
    pub(crate) key: u64,
    pub(crate) at: Timestamp,
}

/// The callback of a batch that a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallbackJob {
    pub batch: BatchId,
    pub kind: CallbackKind,
}

/// What the server does for a job, as far as its text does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportedFeatures {
    /// When its unique lock ends. `None`: it holds none.
    pub lock_until: Option<Timestamp>,
    /// It counts as failed in its batch.
    pub has_failed: bool,
    /// The callback of a batch that it is.
    pub callback: Option<CallbackJob>,
}

/// The unique lock that a job holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobLock {
    pub(crate) key: UniqueKey,
    pub(crate) until: Timestamp,
    /// Whether the fetch of the job frees the lock.
    pub(crate) ends_at_start: bool,
}

impl JobFeatures {
    /// Returns the features of a job that is pushed `now` and due `at`.
    pub(crate) fn of(custom: &CustomMembers, at: Option<Timestamp>, now: Timestamp) -> Self {
        let lock = custom.unique.map(|rule| JobLock {
            key: rule.key,
            until: at.unwrap_or(now) + rule.lasts,
            ends_at_start: rule.until == UniqueUntil::Start,
        });
        let batch = custom.batch.map(|batch| BatchMember { batch, has_failed: false });
        let (expires_at, tracked) = (custom.expires_at, custom.tracked);
        Self { expires_at, lock, tracked, batch, callback: None, cron: None, kills: None }
    }

    /// Returns whether the job holds a unique lock while it runs.
    pub(crate) fn runs_locked(&self) -> bool {
        self.lock.is_some_and(|lock| !lock.ends_at_start)
    }

    /// Returns the features of an exported job, whose `custom` is that of these features.
    pub(crate) fn imported(self, exported: &ExportedFeatures) -> Self {
        let ExportedFeatures { lock_until, has_failed, callback } = *exported;
        let lock = self.lock.zip(lock_until).map(|(lock, until)| JobLock { until, ..lock });
        let batch = self.batch.map(|member| BatchMember { has_failed, ..member });
        Self { lock, batch, callback, ..self }
    }

    /// Returns what an export contains beside the job's text.
    pub(crate) fn exported(&self) -> ExportedFeatures {
        ExportedFeatures {
            lock_until: self.lock.map(|lock| lock.until),
            has_failed: self.batch.is_some_and(|member| member.has_failed),
            callback: self.callback,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a fetch drops the job.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// Returns the features without the unique lock, for a job that an operator moves.
    pub(crate) fn unlocked(self) -> Self {
        Self { lock: None, ..self }
    }

    /// Returns the features of a job that has failed.
    pub(crate) fn failed(self) -> Self {
        let batch = self.batch.map(|member| BatchMember { has_failed: true, ..member });
        Self { batch, ..self }
    }

    /// Returns the features of a job that is dead. If an operator requeues it, the workers that it kills count anew.
    pub(crate) fn died(self) -> Self {
        Self { kills: None, ..self.failed() }
    }

    /// Returns the features of a callback's job, which belongs to no batch.
    pub(crate) fn of_callback(self, callback: CallbackJob) -> Self {
        Self { callback: Some(callback), batch: None, ..self }
    }

    /// Returns the features of a job that a worker has fetched.
    pub(crate) fn started(self) -> Self {
        let lock = self.lock.filter(|lock| !lock.ends_at_start);
        Self { lock, ..self }
    }
}

/// The features of all live jobs that have any. `J` identifies a live job.
#[derive(Clone, Debug)]
pub(crate) struct FeatureTable<J> {
    jobs: HashMap<J, JobFeatures, foldhash::fast::RandomState>,
    locks: UniqueLocks<J>,
    /// The progress of tracked jobs, some of which have ended.
    pub(crate) tracks: Tracks,
    pub(crate) batches: Batches,
    pub(crate) cron: CronTable,
}

impl<J> Default for FeatureTable<J> {
    fn default() -> Self {
        Self {
            jobs: HashMap::default(),
            locks: UniqueLocks::default(),
            tracks: Tracks::default(),
            batches: Batches::default(),
            cron: CronTable::default(),
        }
    }
}

impl<J: Copy + Eq + Hash> FeatureTable<J> {
    /// Returns the number of unique locks, some of which may have run out.
    pub(crate) fn locks(&self) -> usize {
        self.locks.len()
    }

    /// Returns the features of a job: none if it has no entry.
    pub(crate) fn get(&self, job: J) -> JobFeatures {
        if self.jobs.is_empty() {
            return JobFeatures::default();
        }
        self.jobs.get(&job).copied().unwrap_or_default()
    }

    /// Returns the job that holds the unique lock of these features.
    pub(crate) fn lock_holder(&self, features: &JobFeatures) -> Option<J> {
        self.locks.holder(features.lock?.key)
    }

    /// Returns whether another job holds the unique lock of these features.
    pub(crate) fn is_locked(&self, features: &JobFeatures, now: Timestamp) -> bool {
        features.lock.is_some_and(|lock| self.locks.is_held(lock.key, now))
    }

    /// Returns an error if a pushed job with these features must not be stored.
    pub(crate) fn admit(
        &mut self,
        features: &JobFeatures,
        now: Timestamp,
        limits: &JobServerLimits,
        metrics: &JobsMetrics,
    ) -> Result<(), StoreError> {
        if let Some(member) = features.batch
            && !self.batches.contains(member.batch)
        {
            return Err(StoreError::NoSuchBatch(member.batch));
        }
        let Some(lock) = features.lock else { return Ok(()) };
        if self.locks.is_held(lock.key, now) {
            metrics.not_unique();
            return Err(StoreError::NotUnique);
        }
        let max = limits.unique_locks_max;
        for job in self.locks.make_room(max, now) {
            self.note_unlocked(job);
        }
        if self.locks.len() >= max {
            metrics.limit_hit(JobServerLimit::UniqueLocksMax);
            return Err(StoreError::too_many_unique_jobs(max));
        }
        Ok(())
    }

    /// Returns the features of a job that is stored in any case: without the lock that another job
    /// holds, and without a batch that does not exist.
    pub(crate) fn admit_import(&self, features: JobFeatures, now: Timestamp) -> JobFeatures {
        let batch = features.batch.filter(|member| self.batches.contains(member.batch));
        let callback = features.callback.filter(|callback| self.batches.contains(callback.batch));
        let features = JobFeatures { batch, callback, ..features };
        match features.lock {
            Some(lock) if self.locks.is_held(lock.key, now) => features.unlocked(),
            _ => features,
        }
    }

    /// Adds or changes the features of a live job: takes or frees its lock, and counts it in its batch.
    pub(crate) fn set(&mut self, job: J, features: JobFeatures) {
        let before = self.get(job);
        if before == features {
            return;
        }
        match (before.batch, features.batch) {
            (None, Some(member)) => {
                self.batches.job_pushed(member.batch);
                // Only an imported job.
                if member.has_failed {
                    self.batches.job_failed(member.batch);
                }
            }
            (Some(before), Some(member)) if !before.has_failed && member.has_failed => {
                self.batches.job_failed(member.batch);
            }
            _ => {}
        }
        self.replace(job, before, features);
    }

    /// Adds the features of a job that a restart found.
    pub(crate) fn restore(&mut self, job: J, features: JobFeatures) {
        if let Some(member) = features.batch {
            self.batches.job_restored(member.batch, member.has_failed);
        }
        self.replace(job, JobFeatures::default(), features);
    }

    fn replace(&mut self, job: J, before: JobFeatures, features: JobFeatures) {
        if before.lock != features.lock {
            if let Some(lock) = before.lock {
                self.locks.free(lock.key, job);
            }
            if let Some(lock) = features.lock
                && let Some(holder) = self.locks.take(lock.key, job, lock.until)
            {
                self.note_unlocked(holder);
            }
        }
        if features.is_empty() {
            self.jobs.remove(&job);
        } else {
            self.jobs.insert(job, features);
        }
    }

    /// Frees the lock of a job.
    pub(crate) fn unlock(&mut self, job: J) {
        self.set(job, self.get(job).unlocked());
    }

    /// Notes that a job has lost its lock to time, so that no later record of it claims the lock.
    fn note_unlocked(&mut self, job: J) {
        let features = self.get(job).unlocked();
        if features.is_empty() {
            self.jobs.remove(&job);
        } else {
            self.jobs.insert(job, features);
        }
    }

    /// Adds an imported track. Returns the jid of a job that is no longer tracked, because there are
    /// too many.
    pub(crate) fn import_track(
        &mut self,
        jid: &str,
        track: Track,
        limits: &JobServerLimits,
        metrics: &JobsMetrics,
    ) -> Option<Box<str>> {
        let removed = self.tracks.import(jid, track, limits.tracks_max);
        if removed.is_some() {
            metrics.limit_hit(JobServerLimit::TracksMax);
        }
        removed
    }

    /// Notes a new state of a tracked job. Returns the jid of a job that is no longer tracked, because
    /// there are too many.
    pub(crate) fn note_track(
        &mut self,
        jid: &str,
        state: TrackState,
        limits: &JobServerLimits,
        metrics: &JobsMetrics,
        now: Timestamp,
    ) -> Option<Box<str>> {
        let removed = self.tracks.note(jid, state, limits.tracks_max, now);
        if removed.is_some() {
            metrics.limit_hit(JobServerLimit::TracksMax);
        }
        removed
    }

    /// Removes the features of a job that has ended, frees its lock, and counts its end in its batch.
    pub(crate) fn end(&mut self, job: J, end: JobEnd) {
        let features = self.get(job);
        if features.is_empty() {
            return;
        }
        self.replace(job, features, JobFeatures::default());
        if let Some(BatchMember { batch, has_failed }) = features.batch {
            self.batches.job_ended(batch, has_failed, end);
        }
        if let Some(CallbackJob { batch, kind }) = features.callback
            && end == JobEnd::Succeeded
        {
            self.batches.callback_succeeded(batch, kind);
        }
    }
}

#[cfg(test)]
impl<J: Copy + Eq + Hash + std::fmt::Debug> FeatureTable<J> {
    /// Checks that all entries are of live jobs, and that jobs and locks name each other.
    pub(crate) fn assert_consistent(&self, is_live: impl Fn(J) -> bool) {
        let locked = self.jobs.iter().filter_map(|(job, features)| Some((*job, features.lock?)));
        let mut count = 0;
        for (job, lock) in locked {
            assert_eq!(self.locks.holder(lock.key), Some(job), "{lock:?}");
            count += 1;
        }
        assert_eq!(self.locks.len(), count, "locks without a job");
        for (job, features) in &self.jobs {
            assert!(is_live(*job) && !features.is_empty(), "{job:?}: {features:?}");
        }
    }
}
