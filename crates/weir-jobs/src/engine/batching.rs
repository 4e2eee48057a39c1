//! Batches: their commands, their records, and the callbacks that are due.
//!
//! A callback is stored with one record, whose head names the batch. A restart that finds this
//! record knows that the callback was stored, also if the batch's own record was lost with the end
//! of the log. So each callback is stored exactly once.

use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_log::{Class, Disk};

use super::batch_record::{self, key_of};
use super::core::{Engine, EngineError};
use crate::batches::{BatchAges, BatchDefinition, ExportedBatch};
use crate::custom::BatchId;
use crate::features::{CallbackJob, JobFeatures};
use crate::job::JobBatch;
use crate::store::StoreError;

/// Delay before callbacks that could not be stored are tried again.
const RETRY: Duration = Duration::from_secs(1);

impl<D: Disk> Engine<D> {
    /// Creates a batch.
    pub(crate) fn batch_new(
        &mut self,
        definition: &BatchDefinition,
        now: Timestamp,
    ) -> Result<BatchId, EngineError> {
        if let Some(parent) = definition.parent {
            self.check_batch(parent)?;
        }
        let id = self.new_batch_id();
        let definition = definition.for_batch(id);
        let (batches, limits) = (&mut self.state.features.batches, &self.settings.limits);
        batches.check_room(&definition, limits, &self.metrics)?;
        batches.create(id, definition, BatchAges::of(limits), now);
        if let Err(error) = self.write_batches() {
            self.state.features.batches.remove(id);
            return Err(error);
        }
        Ok(id)
    }

    /// Adds a batch of an export. Returns false if there is a batch with its id.
    pub(crate) fn import_batch(
        &mut self,
        batch: &ExportedBatch,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let (batches, limits) = (&mut self.state.features.batches, &self.settings.limits);
        if !batches.contains(batch.id) {
            batches.check_room(&batch.definition, limits, &self.metrics)?;
        }
        if !batches.import(batch.clone(), BatchAges::of(limits), now) {
            return Ok(false);
        }
        if let Err(error) = self.write_batches() {
            self.state.features.batches.remove(batch.id);
            return Err(error);
        }
        Ok(true)
    }

    fn check_batch(&self, id: BatchId) -> Result<(), StoreError> {
        match self.state.features.batches.contains(id) {
            true => Ok(()),
            false => Err(StoreError::NoSuchBatch(id)),
        }
    }

    fn new_batch_id(&mut self) -> BatchId {
        loop {
            let id = BatchId(self.random.u64(1..));
            if !self.state.features.batches.contains(id) {
                return id;
            }
        }
    }

    /// Prepares a batch for more jobs.
    pub(crate) fn batch_open(&mut self, id: BatchId, now: Timestamp) -> Result<(), EngineError> {
        let ages = BatchAges::of(&self.settings.limits);
        if !self.state.features.batches.open(id, ages, now) {
            return Err(StoreError::NoSuchBatch(id).into());
        }
        self.write_batches()
    }

    /// Commits a batch, and stores its callbacks that are due.
    pub(crate) fn batch_commit(&mut self, id: BatchId, now: Timestamp) -> Result<(), EngineError> {
        let ages = BatchAges::of(&self.settings.limits);
        if !self.state.features.batches.commit(id, ages, now) {
            return Err(StoreError::NoSuchBatch(id).into());
        }
        self.write_batches()?;
        self.run_batches(now);
        Ok(())
    }

    /// Stores the callbacks that are due and writes the batches that changed, as far as there is space.
    /// The timer does the rest.
    pub(crate) fn run_batches(&mut self, now: Timestamp) {
        let batches = &self.state.features.batches;
        let has_work = batches.has_due() || batches.changed().is_some() || batches.has_retiring();
        // After a failure, the timer tries again.
        if !has_work || self.callbacks_wait_until > now {
            return;
        }
        if self.try_run_batches(now).is_err() {
            self.callbacks_wait_until = now + RETRY;
        }
    }

    /// Like [`Engine::run_batches`], for the timer, which waits for the sync thread.
    pub(crate) fn run_batches_due(&mut self, now: Timestamp) -> Result<(), EngineError> {
        if self.callbacks_wait_until > now {
            self.expire_batches(now);
            return Ok(());
        }
        match self.try_run_batches(now) {
            Err(EngineError::Store(error)) => {
                tracing::warn!(%error, "callbacks of batches wait");
                self.callbacks_wait_until = now + RETRY;
                Ok(())
            }
            result => result,
        }
    }

    /// Returns when batches need the timer.
    pub(crate) fn next_batch_time(&self) -> Option<Timestamp> {
        let batches = &self.state.features.batches;
        let waits = batches.has_due()
            || batches.changed().is_some()
            || batches.has_retiring()
            || self.state.features.cron.changed().is_some();
        let now = waits.then_some(self.callbacks_wait_until);
        now.into_iter().chain(batches.next_expiry()).min()
    }

    fn try_run_batches(&mut self, now: Timestamp) -> Result<(), EngineError> {
        self.expire_batches(now);
        let (mut failed, mut after) = (None, None);
        while let Some((id, kind, json)) = self.state.features.batches.next_due(after) {
            match self.store_callback(CallbackJob { batch: id, kind }, &json, now) {
                Ok(()) => self.state.features.batches.callback_stored(id, kind),
                // Callbacks of other batches do not wait for it.
                Err(EngineError::Store(error)) if error.is_of_one_job() => {
                    tracing::warn!(%error, batch = %id, "a callback waits");
                    (failed, after) = (Some(error), Some(id));
                }
                Err(error) => return Err(error),
            }
        }
        let ages = BatchAges::of(&self.settings.limits);
        self.state.features.batches.retire(ages, now);
        self.write_crons()?;
        self.write_batches()?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn store_callback(
        &mut self,
        callback: CallbackJob,
        json: &[u8],
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let mut batch = JobBatch::new();
        let limits = self.settings.limits.clone();
        // It was checked when the batch was created: a limit was lowered since, and may be raised again.
        let job = batch
            .parse_one(json, now, &limits)
            .map_err(|error| StoreError::Limit(error.to_string()))?;
        let features = JobFeatures::of(&job.custom, job.at, now);
        let features = self.admit_import(features, now).of_callback(callback);
        let (_, queue) = self.store_admitted(&job, features, Class::Essential, now)?;
        self.woken.extend(queue);
        Ok(())
    }

    fn write_batches(&mut self) -> Result<(), EngineError> {
        while let Some(id) = self.state.features.batches.changed() {
            let mut body = Vec::new();
            if let Some((definition, progress)) = self.state.features.batches.record(id) {
                batch_record::write(definition, progress, &mut body);
                self.keep(key_of(id), &body)?;
            }
            self.state.features.batches.written(id);
        }
        Ok(())
    }

    /// Forgets the batches that have expired. A restart that still finds a record of one finds it
    /// expired as well.
    fn expire_batches(&mut self, now: Timestamp) {
        while let Some(id) = self.state.features.batches.expired(now) {
            if let Some(status) = self.state.features.batches.status(id)
                && status.pending > 0
            {
                tracing::warn!(batch = %id, pending = status.pending, "a batch expired before its end");
            }
            self.state.features.batches.remove(id);
            self.forget_kept(key_of(id));
        }
    }
}
