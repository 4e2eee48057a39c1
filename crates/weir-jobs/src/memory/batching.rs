//! Batches: their commands, and the callbacks that are due.

use weir_base::clock::Timestamp;

use super::state::MemoryState;
use crate::batches::{BatchAges, BatchDefinition, BatchStatus, ExportedBatch};
use crate::custom::BatchId;
use crate::features::{CallbackJob, JobFeatures};
use crate::job::JobBatch;
use crate::model::{QueueName, SetName};
use crate::store::StoreError;

impl MemoryState {
    fn batch_ages(&self) -> BatchAges {
        BatchAges::of(&self.limits)
    }

    /// Creates a batch.
    pub(super) fn batch_new(
        &mut self,
        definition: &BatchDefinition,
        now: Timestamp,
    ) -> Result<BatchId, StoreError> {
        if let Some(parent) = definition.parent.filter(|id| !self.features.batches.contains(*id)) {
            return Err(StoreError::NoSuchBatch(parent));
        }
        let id = BatchId(self.random.u64(1..));
        let (definition, ages) = (definition.for_batch(id), self.batch_ages());
        self.features.batches.check_room(&definition, &self.limits, &self.metrics)?;
        self.features.batches.create(id, definition, ages, now);
        Ok(id)
    }

    /// Adds a batch of an export. Returns false if there is a batch with its id.
    pub(super) fn import_batch(
        &mut self,
        batch: ExportedBatch,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let ages = self.batch_ages();
        if !self.features.batches.contains(batch.id) {
            self.features.batches.check_room(&batch.definition, &self.limits, &self.metrics)?;
        }
        Ok(self.features.batches.import(batch, ages, now))
    }

    /// Prepares a batch for more jobs.
    pub(super) fn batch_open(&mut self, id: BatchId, now: Timestamp) -> Result<(), StoreError> {
        let ages = self.batch_ages();
        match self.features.batches.open(id, ages, now) {
            true => Ok(()),
            false => Err(StoreError::NoSuchBatch(id)),
        }
    }

    /// Commits a batch.
    pub(super) fn batch_commit(&mut self, id: BatchId, now: Timestamp) -> Result<(), StoreError> {
        let ages = self.batch_ages();
        match self.features.batches.commit(id, ages, now) {
            true => Ok(()),
            false => Err(StoreError::NoSuchBatch(id)),
        }
    }

    pub(super) fn batch_status(&self, id: BatchId) -> Result<BatchStatus, StoreError> {
        self.features.batches.status(id).ok_or(StoreError::NoSuchBatch(id))
    }

    /// Stores the callbacks that are due, and forgets expired batches. Returns the callbacks' queues.
    pub(super) fn run_batches(&mut self, now: Timestamp) -> Vec<QueueName> {
        let ages = self.batch_ages();
        // A batch that got more jobs since then has not expired.
        self.features.batches.retire(ages, now);
        while let Some(id) = self.features.batches.expired(now) {
            self.features.batches.remove(id);
        }
        let mut queues = Vec::new();
        while let Some((batch, kind, json)) = self.features.batches.next_due(None) {
            if let Some(queue) = self.store_callback(CallbackJob { batch, kind }, &json, now) {
                queues.push(queue);
            }
            self.features.batches.callback_stored(batch, kind);
        }
        self.features.batches.retire(ages, now);
        queues
    }

    /// Stores a callback. Returns its queue if it waits there now.
    fn store_callback(
        &mut self,
        callback: CallbackJob,
        json: &[u8],
        now: Timestamp,
    ) -> Option<QueueName> {
        let mut batch = JobBatch::new();
        // It was checked when the batch was created.
        let job = batch.parse_one(json, now, &self.limits).ok()?;
        let features = JobFeatures::of(&job.custom, job.at, now);
        let features = self.features.admit_import(features, now).of_callback(callback);
        let name = self.make_queues([job.queue].into_iter()).ok()?.remove(0);
        let set = job.at.map(|at| (SetName::Scheduled, at));
        self.insert(&job, name.clone(), set, features, now);
        set.is_none().then_some(name)
    }
}
