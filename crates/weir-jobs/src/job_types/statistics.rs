//! The statistics that a server shares, and one job in progress, from its reservation to its end.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Timestamp;

use super::figures::RunError;
use super::table::{TypeEntry, TypeLimitHits, TypeLimits, TypeTable};
use crate::model::FailureState;

/// The statistics of all types. Cheap to clone, `Send`.
#[derive(Clone, Debug)]
pub struct JobTypes(Arc<SharedTypes>);

#[derive(Debug)]
struct SharedTypes {
    types_max: usize,
    /// std's: it is never held across an await.
    table: Mutex<TypeTable>,
}

impl JobTypes {
    pub(crate) fn new(limits: TypeLimits, hits: TypeLimitHits) -> Self {
        let table = Mutex::new(TypeTable::new(limits, hits));
        Self(Arc::new(SharedTypes { types_max: limits.types_max, table }))
    }

    /// Returns `limits.job_types_max`.
    pub(super) fn types_max(&self) -> usize {
        self.0.types_max
    }

    /// Begins the statistics. `is_shared`: others take jobs from the store as well, which are not counted here.
    pub(crate) fn begin(&self, now: Timestamp, is_shared: bool) {
        self.lock().begin(now, is_shared);
    }

    /// Notes the time. Called about once a second.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.lock().note_time(now);
    }

    /// Prepares to count a job of a type, which starts with [`TypeRun::start`].
    #[must_use]
    pub fn run_of(&self, jobtype: &str, now: Timestamp) -> TypeRun {
        let entry = self.lock().entry_for(jobtype, now);
        TypeRun { types: self.clone(), entry, since: Cell::new(None) }
    }

    /// Returns the run of a job that another process has started at `since`.
    #[must_use]
    pub fn resumed(&self, jobtype: &str, since: Timestamp, now: Timestamp) -> TypeRun {
        let run = self.run_of(jobtype, now);
        run.resume(since, now);
        run
    }

    /// Ignores poisoning: the figures are consistent enough between any two operations.
    pub(super) fn lock(&self) -> MutexGuard<'_, TypeTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that starts.
#[derive(Clone, Copy, Debug)]
pub struct StartedJob<'a> {
    pub jid: &'a str,
    pub queue: &'a str,
    /// When it was ready to run: pushed, due or put back into its queue. `None`: unknown.
    pub ready_at: Option<Timestamp>,
}

/// A job of a type, kept with its reservation. If it is dropped before its job has ended, the job was given back: its
/// worker ended first, it was not delivered, or an operator deleted it.
#[derive(Debug)]
pub struct TypeRun {
    types: JobTypes,
    entry: TypeEntry,
    /// Since when the job is in progress.
    since: Cell<Option<Timestamp>>,
}

impl TypeRun {
    /// Counts the start of the job.
    pub fn start(&self, job: &StartedJob<'_>, now: Timestamp) {
        self.since.set(Some(now));
        self.types.lock().start(self.entry, job.jid, job.queue, job.ready_at, now);
    }

    fn resume(&self, since: Timestamp, now: Timestamp) {
        self.since.set(Some(since));
        self.types.lock().resume(self.entry, now);
    }

    /// Counts the end of the job without an error.
    pub fn succeeded(&self, now: Timestamp) {
        if let Some(since) = self.since.take() {
            self.types.lock().succeed(self.entry, now.since(since), now);
        }
    }

    /// Counts the end of the job with an error.
    pub fn failed(&self, jid: &str, failure: &FailureState, now: Timestamp) {
        if let Some(since) = self.since.take() {
            let error = RunError { jid, class: &failure.errtype, message: &failure.message };
            self.types.lock().fail(self.entry, &error, now.since(since), now);
        }
    }

    /// Notes that the job waits again, because its worker ended.
    pub fn returned(&self, jid: &str, now: Timestamp) {
        self.types.lock().note_returned(jid, now);
    }
}

impl Drop for TypeRun {
    fn drop(&mut self) {
        if self.since.take().is_some() {
            self.types.lock().give_back(self.entry);
        }
    }
}
