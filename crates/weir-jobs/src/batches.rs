//! Batches of jobs with callbacks, as BATCH defines them. Pure: the stores count their jobs here,
//! store the callback jobs that are due, and report their ends.
//!
//! A batch is *completed* when it is committed, each of its jobs has run at least once, all its
//! children are completed, and its callback `complete`, if it has one, has succeeded. It has
//! *succeeded* when, beyond that, all jobs and children have succeeded, and so has its callback
//! `success`. A callback is due once, as soon as everything that precedes it is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::callback_text;
pub use crate::callback_text::batch_of_callback;
use crate::custom::BatchId;
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::settings::JobServerLimits;
use crate::store::error::StoreError;

/// One of the two callbacks of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallbackKind {
    /// When each job has run once, whether or not it succeeded.
    Complete,
    /// When all jobs have succeeded.
    Success,
}

impl CallbackKind {
    /// Returns the name that the protocol uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Success => "success",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Complete, Self::Success].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// How far a callback is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallbackState {
    /// The batch has no such callback.
    #[default]
    Absent,
    Pending,
    Enqueued,
    /// Its job has succeeded.
    Done,
}

impl CallbackState {
    /// Returns the value that the protocol uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent | Self::Pending => "",
            Self::Enqueued => "1",
            Self::Done => "2",
        }
    }

    const fn is_over(self) -> bool {
        matches!(self, Self::Absent | Self::Done)
    }
}

/// A batch as its client defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchDefinition {
    pub parent: Option<BatchId>,
    pub description: String,
    /// The JSON of the callback job.
    pub complete: Option<Vec<u8>>,
    pub success: Option<Vec<u8>>,
}

impl BatchDefinition {
    /// Returns the definition with the id of the batch in its callbacks.
    #[must_use]
    pub fn for_batch(&self, id: BatchId) -> Self {
        let callback = |json: &Option<Vec<u8>>| {
            let json = json.as_ref()?;
            Some(callback_text::with_batch(json, id).unwrap_or_else(|_| json.clone()))
        };
        Self {
            complete: callback(&self.complete),
            success: callback(&self.success),
            ..self.clone()
        }
    }

    /// Returns the size of its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let callbacks = [&self.complete, &self.success].into_iter().flatten();
        self.description.len() + callbacks.map(Vec::len).sum::<usize>()
    }

    /// Returns the JSON of a callback's job.
    pub(crate) fn callback(&self, kind: CallbackKind) -> Option<&[u8]> {
        match kind {
            CallbackKind::Complete => self.complete.as_deref(),
            CallbackKind::Success => self.success.as_deref(),
        }
    }
}

/// What BATCH STATUS reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchStatus {
    pub id: BatchId,
    pub parent: Option<BatchId>,
    pub description: String,
    pub created_at: Timestamp,
    /// Jobs that were pushed.
    pub total: u64,
    /// Those that have not succeeded.
    pub pending: u64,
    /// Those that failed and have not succeeded since.
    pub failed: u64,
    pub complete: CallbackState,
    pub success: CallbackState,
}

/// The part of a batch that changes with BATCH commands and callbacks, not with its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchProgress {
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) committed: bool,
    pub(crate) complete: CallbackState,
    pub(crate) success: CallbackState,
    /// The jobs that had ended when the batch was imported.
    pub(crate) imported: BatchTotals,
}

/// A batch as an export contains it. Its live jobs are exported by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedBatch {
    pub id: BatchId,
    /// Its callbacks have the id of the batch.
    pub definition: BatchDefinition,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub committed: bool,
    pub complete: CallbackState,
    pub success: CallbackState,
    /// Jobs that have succeeded.
    pub succeeded: u64,
    /// Jobs that ended without success.
    pub lost: u64,
}

impl BatchProgress {
    fn callback_mut(&mut self, kind: CallbackKind) -> &mut CallbackState {
        match kind {
            CallbackKind::Complete => &mut self.complete,
            CallbackKind::Success => &mut self.success,
        }
    }
}

/// Counts of a batch's jobs that their records alone do not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchTotals {
    /// Jobs that were pushed.
    pub(crate) pushed: u64,
    /// Jobs that ended without success: thrown away, deleted, expired.
    pub(crate) lost: u64,
}

/// How long batches are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAges {
    /// Without a commit.
    pub(crate) uncommitted: Duration,
    /// After a commit.
    pub(crate) committed: Duration,
    /// After the end of all jobs and callbacks.
    pub(crate) succeeded: Duration,
}

impl BatchAges {
    pub(crate) const fn of(limits: &JobServerLimits) -> Self {
        Self {
            uncommitted: limits.batch_commit_timeout,
            committed: limits.batch_age_max,
            succeeded: limits.batch_commit_timeout,
        }
    }
}

#[derive(Clone, Debug)]
struct Batch {
    definition: BatchDefinition,
    progress: BatchProgress,
    totals: BatchTotals,
    /// Jobs that have not ended.
    live: u64,
    /// Those of them that have failed.
    failed: u64,
    children_not_completed: u64,
    children_not_succeeded: u64,
    is_completed: bool,
    has_succeeded: bool,
}

impl Batch {
    fn new(definition: BatchDefinition, progress: BatchProgress, totals: BatchTotals) -> Self {
        Self {
            definition,
            progress,
            totals,
            live: 0,
            failed: 0,
            children_not_completed: 0,
            children_not_succeeded: 0,
            is_completed: false,
            has_succeeded: false,
        }
    }

    /// Returns how long the batch is kept from its last change.
    fn age(&self, ages: BatchAges) -> Duration {
        match (self.has_succeeded, self.progress.committed) {
            (true, _) => ages.succeeded,
            (false, true) => ages.committed,
            (false, false) => ages.uncommitted,
        }
    }

    fn export(&self, id: BatchId) -> ExportedBatch {
        let Self { definition, progress, totals, live, .. } = self;
        let lost = totals.lost + progress.imported.lost;
        ExportedBatch {
            id,
            definition: definition.clone(),
            created_at: progress.created_at,
            expires_at: progress.expires_at,
            committed: progress.committed,
            complete: progress.complete,
            success: progress.success,
            succeeded: (totals.pushed + progress.imported.pushed).saturating_sub(live + lost),
            lost,
        }
    }

    fn has_run(&self) -> bool {
        self.progress.committed && self.live == self.failed && self.children_not_completed == 0
    }

    fn completed(&self) -> bool {
        self.has_run() && self.progress.complete.is_over()
    }

    fn jobs_succeeded(&self) -> bool {
        self.completed()
            && self.live == 0
            && self.totals.lost + self.progress.imported.lost == 0
            && self.children_not_succeeded == 0
    }

    fn succeeded(&self) -> bool {
        self.jobs_succeeded() && self.progress.success.is_over()
    }

    fn due(&self) -> Option<CallbackKind> {
        if self.progress.complete == CallbackState::Pending {
            return self.has_run().then_some(CallbackKind::Complete);
        }
        let is_due = self.progress.success == CallbackState::Pending && self.jobs_succeeded();
        is_due.then_some(CallbackKind::Success)
    }
}

/// All batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    by_id: BTreeMap<BatchId, Batch>,
    by_expiry: BTreeSet<(Timestamp, BatchId)>,
    /// Batches whose jobs that are left have all failed.
    waiting: BTreeSet<BatchId>,
    /// Batches with a callback that is due.
    due: BTreeSet<BatchId>,
    /// Batches whose definition or progress changed since [`Batches::take_changed`].
    changed: BTreeSet<BatchId>,
    /// Batches that have succeeded since the last tick, or that got more jobs after that.
    retiring: Vec<BatchId>,
    /// Parents and their children, also of parents that are not imported yet.
    children: BTreeSet<(BatchId, BatchId)>,
    /// Size of the definitions' texts.
    definition_bytes: usize,
}

impl Batches {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the number of batches that wait for a retry or an operator: all jobs that are left have failed.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the size of the descriptions and callbacks of all batches.
    pub(crate) fn definition_bytes(&self) -> usize {
        self.definition_bytes
    }

    /// Returns an error if there is no room for a batch with this definition.
    pub(crate) fn check_room(
        &self,
        definition: &BatchDefinition,
        limits: &JobServerLimits,
        metrics: &JobsMetrics,
    ) -> Result<(), StoreError> {
        let (max, bytes_max) = (limits.batches_max, limits.batch_memory_bytes_max);
        if self.len() >= max {
            metrics.limit_hit(JobServerLimit::BatchesMax);
            return Err(StoreError::too_many_batches(max));
        }
        if self.definition_bytes + definition.bytes() > bytes_max {
            metrics.limit_hit(JobServerLimit::BatchMemoryBytesMax);
            return Err(StoreError::too_many_batch_bytes(bytes_max));
        }
        Ok(())
    }

    pub(crate) fn contains(&self, id: BatchId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Adds a new batch. The caller has checked that its parent exists.
    pub(crate) fn create(
        &mut self,
        id: BatchId,
        definition: BatchDefinition,
        ages: BatchAges,
        now: Timestamp,
    ) {
        let state = |callback: &Option<Vec<u8>>| match callback {
            Some(_) => CallbackState::Pending,
            None => CallbackState::Absent,
        };
        let progress = BatchProgress {
            created_at: now,
            expires_at: now + ages.uncommitted,
            committed: false,
            complete: state(&definition.complete),
            success: state(&definition.success),
            imported: BatchTotals::default(),
        };
        self.insert(id, definition, progress, BatchTotals::default());
        self.changed.insert(id);
        self.join_parent(id);
    }

    /// Adds an imported batch, which is to be committed once its jobs are imported, and connects it with
    /// its parent and its children. Returns false if there is a batch with its id.
    pub(crate) fn import(&mut self, batch: ExportedBatch, ages: BatchAges, now: Timestamp) -> bool {
        let ExportedBatch { id, definition, lost, .. } = batch;
        if self.contains(id) {
            return false;
        }
        let progress = BatchProgress {
            created_at: batch.created_at,
            expires_at: batch.expires_at.max(now + ages.uncommitted),
            committed: false,
            complete: batch.complete,
            success: batch.success,
            imported: BatchTotals { pushed: batch.succeeded.saturating_add(lost), lost },
        };
        self.insert(id, definition, progress, BatchTotals::default());
        self.changed.insert(id);
        self.join_parent(id);
        self.join_children(id);
        true
    }

    /// Connects a batch with its children that were imported before it.
    fn join_children(&mut self, id: BatchId) {
        let of_parent = (id, BatchId(u64::MIN))..=(id, BatchId(u64::MAX));
        let children: Vec<_> = self.children.range(of_parent).map(|(_, child)| *child).collect();
        children.into_iter().for_each(|child| self.join_parent(child));
    }

    /// Returns up to `limit` batches with ids above `after`, in the order of their ids.
    pub(crate) fn export(&self, after: Option<BatchId>, limit: usize) -> Vec<ExportedBatch> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let batches = self.by_id.range((from, Bound::Unbounded)).take(limit);
        batches.map(|(id, batch)| batch.export(*id)).collect()
    }

    /// Adds a stored batch. [`Batches::restored`] must follow once all batches and jobs are added.
    pub(crate) fn insert(
        &mut self,
        id: BatchId,
        definition: BatchDefinition,
        progress: BatchProgress,
        totals: BatchTotals,
    ) {
        self.by_expiry.insert((progress.expires_at, id));
        self.definition_bytes += definition.bytes();
        if let Some(parent) = definition.parent {
            self.children.insert((parent, id));
        }
        self.by_id.insert(id, Batch::new(definition, progress, totals));
    }

    /// Completes the restoration: adds jobs that were lost since the stored totals, and callbacks whose
    /// jobs were stored or have succeeded since the stored progress; connects children with their
    /// parents, and finds due callbacks.
    pub(crate) fn restored(
        &mut self,
        lost: &HashMap<BatchId, u64>,
        callbacks: &HashMap<(BatchId, CallbackKind), CallbackState>,
    ) {
        for (id, lost) in lost {
            if let Some(batch) = self.by_id.get_mut(id) {
                batch.totals.lost += lost;
            }
        }
        for ((id, kind), state) in callbacks {
            if let Some(batch) = self.by_id.get_mut(id) {
                let callback = batch.progress.callback_mut(*kind);
                if *callback != CallbackState::Done && *callback != *state {
                    *callback = *state;
                    self.changed.insert(*id);
                }
            }
        }
        let ids: Vec<BatchId> = self.by_id.keys().copied().collect();
        for id in &ids {
            self.join_parent(*id);
        }
        ids.iter().for_each(|id| self.settle(*id));
    }

    fn join_parent(&mut self, id: BatchId) {
        let Some(batch) = self.by_id.get(&id) else { return };
        let (is_completed, has_succeeded) = (batch.is_completed, batch.has_succeeded);
        let parent = batch.definition.parent;
        if let Some(parent) = parent.and_then(|parent| self.by_id.get_mut(&parent)) {
            parent.children_not_completed += u64::from(!is_completed);
            parent.children_not_succeeded += u64::from(!has_succeeded);
        }
        if let Some(parent) = parent {
            self.settle(parent);
        }
    }

    /// Extends the life of a batch that gets more jobs. Returns false if there is none.
    pub(crate) fn open(&mut self, id: BatchId, ages: BatchAges, now: Timestamp) -> bool {
        let Some(batch) = self.by_id.get(&id) else { return false };
        let age = batch.age(ages);
        self.set_expiry(id, now + age);
        true
    }

    /// Commits a batch. Returns false if there is none.
    pub(crate) fn commit(&mut self, id: BatchId, ages: BatchAges, now: Timestamp) -> bool {
        let Some(batch) = self.by_id.get_mut(&id) else { return false };
        batch.progress.committed = true;
        let age = batch.age(ages);
        self.set_expiry(id, now + age);
        self.settle(id);
        true
    }

    pub(crate) fn status(&self, id: BatchId) -> Option<BatchStatus> {
        let Batch { definition, progress, totals, live, failed, .. } = self.by_id.get(&id)?;
        Some(BatchStatus {
            id,
            parent: definition.parent,
            description: definition.description.clone(),
            created_at: progress.created_at,
            total: totals.pushed + progress.imported.pushed,
            pending: live + totals.lost + progress.imported.lost,
            failed: failed + totals.lost + progress.imported.lost,
            complete: progress.complete,
            success: progress.success,
        })
    }

    /// Returns what a record of the batch holds.
    pub(crate) fn record(&self, id: BatchId) -> Option<(&BatchDefinition, &BatchProgress)> {
        self.by_id.get(&id).map(|batch| (&batch.definition, &batch.progress))
    }

    /// Iterates over the totals of all batches, for a snapshot.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (BatchId, BatchTotals)> {
        self.by_id.iter().map(|(id, batch)| (*id, batch.totals))
    }

    // --- Its jobs -----------------------------------------------------------------------------

    /// Counts a pushed job.
    pub(crate) fn job_pushed(&mut self, id: BatchId) {
        self.change(id, |batch| {
            batch.totals.pushed += 1;
            batch.live += 1;
        });
    }

    /// Counts a stored job during restoration. It was counted when it was pushed.
    pub(crate) fn job_restored(&mut self, id: BatchId, has_failed: bool) {
        if let Some(batch) = self.by_id.get_mut(&id) {
            batch.live += 1;
            batch.failed += u64::from(has_failed);
        }
    }

    /// Counts the first failure of a job.
    pub(crate) fn job_failed(&mut self, id: BatchId) {
        self.change(id, |batch| batch.failed += 1);
    }

    /// Counts the end of a job.
    pub(crate) fn job_ended(&mut self, id: BatchId, has_failed: bool, end: JobEnd) {
        self.change(id, |batch| {
            batch.live -= 1;
            batch.failed -= u64::from(has_failed);
            match end {
                JobEnd::Succeeded => {}
                JobEnd::Lost => batch.totals.lost += 1,
                JobEnd::Withdrawn => batch.totals.pushed -= 1,
            }
        });
    }

    // --- Its callbacks ------------------------------------------------------------------------

    /// Returns the next callback that is due, with its job. `after`: leaves out the batches up to this
    /// one, whose callback could not be stored.
    pub(crate) fn next_due(
        &mut self,
        after: Option<BatchId>,
    ) -> Option<(BatchId, CallbackKind, Vec<u8>)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        while let Some(id) = self.due.range((from, Bound::Unbounded)).next().copied() {
            let batch = self.by_id.get(&id);
            let due = batch.and_then(|batch| {
                let kind = batch.due()?;
                Some((id, kind, batch.definition.callback(kind)?.to_vec()))
            });
            if due.is_some() {
                return due;
            }
            self.due.remove(&id);
        }
        None
    }

    /// Returns whether a callback may be due.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Notes that the job of a callback was stored.
    pub(crate) fn callback_stored(&mut self, id: BatchId, kind: CallbackKind) {
        self.set_callback(id, kind, CallbackState::Enqueued);
    }

    /// Notes that the job of a callback has succeeded.
    pub(crate) fn callback_succeeded(&mut self, id: BatchId, kind: CallbackKind) {
        self.set_callback(id, kind, CallbackState::Done);
    }

    fn set_callback(&mut self, id: BatchId, kind: CallbackKind, state: CallbackState) {
        let Some(batch) = self.by_id.get_mut(&id) else { return };
        let callback = batch.progress.callback_mut(kind);
        // A callback that an operator repeats stays done.
        if *callback != CallbackState::Done {
            *callback = state;
            self.changed.insert(id);
            self.settle(id);
        }
    }

    // --- Records and time ---------------------------------------------------------------------

    /// Returns the batches whose records are to be written again.
    pub(crate) fn changed(&self) -> Option<BatchId> {
        self.changed.first().copied()
    }

    /// Notes that the record of a batch was written.
    pub(crate) fn written(&mut self, id: BatchId) {
        self.changed.remove(&id);
    }

    /// Shortens the life of the batches that have succeeded, and extends it again of those that got more
    /// jobs.
    pub(crate) fn retire(&mut self, ages: BatchAges, now: Timestamp) {
        for id in std::mem::take(&mut self.retiring) {
            let age = self.by_id.get(&id).map(|batch| batch.age(ages));
            if let Some(age) = age {
                self.set_expiry(id, now + age);
            }
        }
    }

    /// Returns whether a batch has to be retired or revived.
    pub(crate) fn has_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Returns a batch that has expired.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<BatchId> {
        self.by_expiry.first().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// Returns when the next batch expires.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    /// Removes a batch. It no longer holds up its parent.
    pub(crate) fn remove(&mut self, id: BatchId) {
        let Some(batch) = self.by_id.remove(&id) else { return };
        self.definition_bytes -= batch.definition.bytes();
        self.by_expiry.remove(&(batch.progress.expires_at, id));
        self.due.remove(&id);
        self.waiting.remove(&id);
        self.changed.remove(&id);
        let Some(parent_id) = batch.definition.parent else { return };
        self.children.remove(&(parent_id, id));
        if let Some(parent) = self.by_id.get_mut(&parent_id) {
            parent.children_not_completed -= u64::from(!batch.is_completed);
            parent.children_not_succeeded -= u64::from(!batch.has_succeeded);
            self.settle(parent_id);
        }
    }

    fn set_expiry(&mut self, id: BatchId, expires_at: Timestamp) {
        let Some(batch) = self.by_id.get_mut(&id) else { return };
        let before = std::mem::replace(&mut batch.progress.expires_at, expires_at);
        self.by_expiry.remove(&(before, id));
        self.by_expiry.insert((expires_at, id));
        self.changed.insert(id);
    }

    fn change(&mut self, id: BatchId, change: impl FnOnce(&mut Batch)) {
        if let Some(batch) = self.by_id.get_mut(&id) {
            change(batch);
            self.settle(id);
        }
    }

    /// Finds out what follows from a change of a batch: for its own callbacks, and for its parents.
    fn settle(&mut self, id: BatchId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(batch) = self.by_id.get_mut(&id) else { return };
            if batch.progress.committed && batch.live > 0 && batch.live == batch.failed {
                self.waiting.insert(id);
            } else {
                self.waiting.remove(&id);
            }
            if batch.due().is_some() {
                self.due.insert(id);
            }
            let (was_completed, had_succeeded) = (batch.is_completed, batch.has_succeeded);
            let (is_completed, has_succeeded) = (batch.completed(), batch.succeeded());
            if (was_completed, had_succeeded) == (is_completed, has_succeeded) {
                return;
            }
            (batch.is_completed, batch.has_succeeded) = (is_completed, has_succeeded);
            if had_succeeded != has_succeeded {
                self.retiring.push(id);
            }
            let Some(parent_id) = batch.definition.parent else { return };
            let Some(parent) = self.by_id.get_mut(&parent_id) else { return };
            count_child(&mut parent.children_not_completed, was_completed, is_completed);
            count_child(&mut parent.children_not_succeeded, had_succeeded, has_succeeded);
            next = Some(parent_id);
        }
    }
}

/// Counts a child in `open` that is now over, or no longer over.
fn count_child(open: &mut u64, was_over: bool, is_over: bool) {
    match (was_over, is_over) {
        (false, true) => *open -= 1,
        (true, false) => *open += 1,
        _ => {}
    }
}

/// How a job of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Succeeded,
    /// It was thrown away, deleted or has expired.
    Lost,
    /// Its push was refused after all.
    Withdrawn,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AGES: BatchAges = BatchAges {
        uncommitted: Duration::from_secs(1_800),
        committed: Duration::from_secs(86_400),
        succeeded: Duration::from_secs(60),
    };
    const A: BatchId = BatchId(1);
    const B: BatchId = BatchId(2);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn create(batches: &mut Batches, id: BatchId, parent: Option<BatchId>, callbacks: &str) {
        let callback = |name: &str| callbacks.contains(name).then(|| name.as_bytes().to_vec());
        let (complete, success) = (callback("complete"), callback("success"));
        let definition = BatchDefinition { parent, description: String::new(), complete, success };
        batches.create(id, definition, AGES, at(0));
    }

    /// Stores all callbacks that are due; their kinds.
    fn fire(batches: &mut Batches) -> Vec<(BatchId, CallbackKind)> {
        let mut fired = Vec::new();
        while let Some((id, kind, job)) = batches.next_due(None) {
            assert_eq!(job, format!("{kind:?}").to_lowercase().into_bytes());
            batches.callback_stored(id, kind);
            fired.push((id, kind));
        }
        fired
    }

    #[test]
    fn complete_comes_before_success() {
        let mut batches = Batches::default();
        create(&mut batches, A, None, "complete success");
        batches.job_pushed(A);
        batches.job_ended(A, false, JobEnd::Succeeded);
        assert_eq!(fire(&mut batches), [], "it is not committed");
        assert!(batches.commit(A, AGES, at(1)));
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Complete)]);
        batches.callback_succeeded(A, CallbackKind::Complete);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Success)]);
        assert!(!batches.has_retiring());
        batches.callback_succeeded(A, CallbackKind::Success);
        assert!(batches.has_retiring());
        batches.retire(AGES, at(2));
        assert_eq!((batches.expired(at(61)), batches.expired(at(62))), (None, Some(A)));
        batches.job_pushed(A);
        batches.retire(AGES, at(3));
        assert_eq!(batches.next_expiry(), Some(at(86_403)), "it has a job again");
    }

    /// Keeps what the log keeps.
    fn restart(batches: &Batches) -> Batches {
        let mut restarted = Batches::default();
        for (id, batch) in batches.by_id.clone() {
            restarted.insert(id, batch.definition, batch.progress, batch.totals);
        }
        restarted.restored(&HashMap::new(), &HashMap::new());
        restarted
    }

    #[test]
    fn imported_batches_find_their_parents_in_any_order_and_after_a_restart() {
        let mut source = Batches::default();
        create(&mut source, A, None, "success");
        create(&mut source, B, Some(A), "success");
        let exported = source.export(None, 9);
        for order in [[0, 1], [1, 0]] {
            let mut batches = Batches::default();
            for place in order {
                assert!(batches.import(exported[place].clone(), AGES, at(1)));
                batches = restart(&batches);
            }
            assert!(!batches.import(exported[0].clone(), AGES, at(1)), "it is there");
            // Its record could not be written, so that the import is repeated.
            batches.remove(A);
            assert!(batches.import(exported[0].clone(), AGES, at(1)));
            assert_eq!(batches.by_id[&A].children_not_succeeded, 1, "{order:?}");
            batches.remove(B);
            assert_eq!(batches.by_id[&A].children_not_succeeded, 0, "{order:?}");
            assert!(batches.children.is_empty());
        }
    }

    #[test]
    fn a_callback_that_cannot_be_stored_holds_up_no_other() {
        let mut batches = Batches::default();
        for id in [A, B] {
            create(&mut batches, id, None, "complete");
            batches.commit(id, AGES, at(1));
        }
        let next = |batches: &mut Batches, after| batches.next_due(after).map(|(id, ..)| id);
        assert_eq!(next(&mut batches, None), Some(A));
        assert_eq!(next(&mut batches, Some(A)), Some(B));
        assert_eq!(next(&mut batches, Some(B)), None);
        assert_eq!(next(&mut batches, None), Some(A), "it is still due");
    }

    #[test]
    fn a_failed_job_completes_the_batch_and_its_retry_succeeds() {
        let mut batches = Batches::default();
        create(&mut batches, A, None, "complete success");
        batches.job_pushed(A);
        batches.job_pushed(A);
        batches.commit(A, AGES, at(1));
        batches.job_failed(A);
        batches.job_ended(A, false, JobEnd::Succeeded);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Complete)]);
        batches.callback_succeeded(A, CallbackKind::Complete);
        let status = batches.status(A).unwrap();
        assert_eq!((status.total, status.pending, status.failed), (2, 1, 1));
        assert_eq!(fire(&mut batches), []);
        batches.job_ended(A, true, JobEnd::Succeeded);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Success)]);
    }

    #[test]
    fn a_lost_job_never_succeeds() {
        let mut batches = Batches::default();
        create(&mut batches, A, None, "complete success");
        batches.job_pushed(A);
        batches.commit(A, AGES, at(1));
        batches.job_ended(A, false, JobEnd::Lost);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Complete)]);
        batches.callback_succeeded(A, CallbackKind::Complete);
        assert_eq!(fire(&mut batches), []);
        let status = batches.status(A).unwrap();
        assert_eq!((status.total, status.pending, status.failed), (1, 1, 1));
    }

    #[test]
    fn a_parent_waits_for_the_callbacks_of_its_children() {
        let mut batches = Batches::default();
        create(&mut batches, A, None, "success");
        create(&mut batches, B, Some(A), "success");
        batches.commit(A, AGES, at(1));
        assert_eq!(fire(&mut batches), []);
        batches.commit(B, AGES, at(1));
        assert_eq!(fire(&mut batches), [(B, CallbackKind::Success)]);
        batches.callback_succeeded(B, CallbackKind::Success);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Success)]);
    }

    #[test]
    fn an_expired_child_does_not_hold_up_its_parent() {
        let mut batches = Batches::default();
        create(&mut batches, A, None, "success");
        create(&mut batches, B, Some(A), "success");
        batches.commit(A, AGES, at(1));
        assert_eq!(batches.expired(at(1_800)), Some(B));
        batches.remove(B);
        assert_eq!(fire(&mut batches), [(A, CallbackKind::Success)]);
        assert_eq!((batches.len(), batches.next_expiry()), (1, Some(at(86_401))));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Fail(u64),
        End(u64, JobEnd),
        Commit(u64),
        Fire,
        CallbackSucceeds(u64, CallbackKind),
        Restart,
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = || 1..5_u64;
        let kind = prop_oneof![Just(CallbackKind::Complete), Just(CallbackKind::Success)];
        let end = prop_oneof![4 => Just(JobEnd::Succeeded), 1 => Just(JobEnd::Lost)];
        prop_oneof![
            id().prop_map(Step::Push),
            id().prop_map(Step::Fail),
            (id(), end).prop_map(|(id, end)| Step::End(id, end)),
            id().prop_map(Step::Commit),
            Just(Step::Fire),
            (id(), kind).prop_map(|(id, kind)| Step::CallbackSucceeds(id, kind)),
            Just(Step::Restart),
        ]
    }

    /// Adds everything again, as a restart does from the records.
    fn restarted(old: &Batches) -> Batches {
        let mut fresh = Batches::default();
        for (id, batch) in &old.by_id {
            let definition = batch.definition.clone();
            fresh.insert(*id, definition, batch.progress.clone(), batch.totals);
        }
        for (id, batch) in &old.by_id {
            (0..batch.live).for_each(|job| fresh.job_restored(*id, job < batch.failed));
        }
        fresh.restored(&HashMap::new(), &HashMap::new());
        fresh
    }

    proptest! {
        /// 1 is the parent of 2 and 3, 3 that of 4.
        #[test]
        fn each_callback_fires_at_most_once_and_in_order(
            steps in prop::collection::vec(step(), 0..120),
        ) {
            let mut batches = Batches::default();
            for (id, parent) in [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(3))] {
                create(&mut batches, BatchId(id), parent.map(BatchId), "complete success");
            }
            let mut fired = Vec::new();
            let mut fire_all = |batches: &mut Batches| {
                for (id, kind) in fire(batches) {
                    assert!(!fired.contains(&(id, kind)), "{id:?} {kind:?} fired twice");
                    let batch = &batches.by_id[&id];
                    assert!(batch.progress.committed && batch.live == batch.failed);
                    assert!(kind == CallbackKind::Complete || (batch.live, batch.totals.lost) == (0, 0));
                    fired.push((id, kind));
                }
            };
            for step in steps {
                match step {
                    Step::Push(id) => batches.job_pushed(BatchId(id)),
                    Step::Fail(id) => {
                        let batch = &batches.by_id[&BatchId(id)];
                        if batch.live > batch.failed {
                            batches.job_failed(BatchId(id));
                        }
                    }
                    Step::End(id, end) => {
                        let batch = &batches.by_id[&BatchId(id)];
                        let has_failed = batch.failed == batch.live;
                        if batch.live > 0 {
                            batches.job_ended(BatchId(id), has_failed, end);
                        }
                    }
                    Step::Commit(id) => drop(batches.commit(BatchId(id), AGES, at(1))),
                    Step::Fire => fire_all(&mut batches),
                    Step::CallbackSucceeds(id, kind) => {
                        let progress = &batches.by_id[&BatchId(id)].progress;
                        let state = match kind {
                            CallbackKind::Complete => progress.complete,
                            CallbackKind::Success => progress.success,
                        };
                        if state == CallbackState::Enqueued {
                            batches.callback_succeeded(BatchId(id), kind);
                        }
                    }
                    Step::Restart => batches = restarted(&batches),
                }
            }
            // Once everything ends well, all that can fire has fired.
            for id in 1..5 {
                batches.commit(BatchId(id), AGES, at(1));
                while let Batch { live: live @ 1.., failed, .. } = batches.by_id[&BatchId(id)] {
                    batches.job_ended(BatchId(id), failed == live, JobEnd::Succeeded);
                }
            }
            for _ in 0..8 {
                fire_all(&mut batches);
                for id in 1..5 {
                    for kind in [CallbackKind::Complete, CallbackKind::Success] {
                        let progress = &mut batches.by_id.get_mut(&BatchId(id)).unwrap().progress;
                        if *progress.callback_mut(kind) == CallbackState::Enqueued {
                            batches.callback_succeeded(BatchId(id), kind);
                        }
                    }
                }
            }
            for (id, kind) in (1..5).map(|id| (BatchId(id), CallbackKind::Complete)) {
                assert!(fired.contains(&(id, kind)), "{id:?} {kind:?} did not fire");
            }
            if batches.by_id.values().all(|batch| batch.totals.lost == 0) {
                assert_eq!(fired.len(), 8);
            }
        }
    }
}
