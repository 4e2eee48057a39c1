//! The `Store` trait: all operations on jobs. The embedded engine and the store in memory keep the
//! same promises, and one set of contract tests covers both.
//!
//! A store lives on the thread that serves the connections, so its futures need not be `Send`.
//! Dropping a future never loses a job: a fetched job that was not delivered returns to its former
//! position.

pub(crate) mod error;
pub mod limit_states;
mod object;
mod parts;
pub(crate) mod shard_state;
mod workers;

use std::time::Duration;

pub use error::StoreError;
use limit_states::LimitStates;
pub use object::{AnyStore, LocalBoxFuture, OpenStore, StoreOpenError};
pub use parts::store_parts;
pub use shard_state::ShardState;
pub use workers::{LostWorkers, ReservationMark};

use crate::allocation::Allocation;
use crate::batches::{BatchDefinition, BatchStatus, ExportedBatch};
#[cfg(doc)]
use crate::cron::CRON_KEPT;
use crate::cron::{CronRunOutcome, CronState, CronStates};
use crate::custom::BatchId;
pub use crate::features::{CallbackJob, ExportedFeatures};
use crate::lanes::{BlockedJobs, LaneCounts};
use crate::model::{
    Delivery, EntryKey, FailureReport, FailureState, JobLocation, NewJob, QueueName, SetName, Wid,
    WorkerDirective, WorkerEnd,
};
use crate::node::{NodeReport, NodeState};
use crate::resources::ResourceCounts;
use crate::tracks::{Track, TrackUpdate};
use weir_base::clock::Timestamp;
pub use weir_log::Damage;
use weir_log::{RecordPosition, SegmentInfo};

/// The optional features of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Acknowledged jobs survive the end of the process.
    pub durable: bool,
    /// A queue can be served newest first.
    pub both_ends: bool,
    /// A search reads jobs without blocking the thread that serves them.
    pub scan_aside: bool,
    /// Others (nodes, Sidekiq) change the data as well.
    pub shared: bool,
    /// The store has unique jobs and batches. (All stores obey `expires_at` and TRACK.)
    pub enterprise: bool,
    /// The store remembers which times of cron jobs were handled.
    pub cron: bool,
}

/// A request for work.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The worker. `None` for a producer that fetches.
    pub wid: Option<&'a Wid>,
    /// The queues, in order of preference.
    pub queues: &'a [QueueName],
    pub max: BatchSize,
    /// How long to wait when no job is available.
    pub wait: Duration,
}

/// The size limit of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Maximum number of jobs (>= 1).
    pub jobs: usize,
    /// No further job is added once the batch has this many bytes of JSON.
    pub bytes: usize,
}

impl BatchSize {
    /// One job, whatever its size.
    pub const ONE: Self = Self::of(1);

    /// Returns a limit of `jobs` jobs, whatever their size.
    #[must_use]
    pub const fn of(jobs: usize) -> Self {
        Self { jobs, bytes: usize::MAX }
    }

    /// Returns whether `taken` has reached this limit in jobs or in bytes.
    #[must_use]
    pub const fn is_reached(self, taken: Self) -> bool {
        taken.jobs >= self.jobs || taken.bytes >= self.bytes
    }
}

/// An exported job to be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// `json` is the final text including `failure`; `at` is `None`.
    pub job: NewJob<'a>,
    /// The set it was exported from. `None`: it is added at the end of its queue.
    pub set: Option<SetName>,
    /// For sets: when the job is due, or when it died.
    pub at: Timestamp,
    /// The last failure, as recorded in the job's text.
    pub failure: Option<FailureState>,
    /// `None`: it gets those of a job that is pushed now.
    pub features: Option<ExportedFeatures>,
}

/// The outcome of a reported failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOutcome {
    /// The job is due again at `next_at`.
    Retry { next_at: Timestamp },
    /// The job moved to the dead set.
    Dead,
    /// The job was discarded, because `retry` is 0.
    Discarded,
}

/// The jobs of a queue or set that an action applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    Entries(Vec<EntryKey>),
}

/// An action on waiting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move the job to the end of its queue now.
    Requeue,
    /// Move it to the dead set.
    Kill,
    /// Delete the job.
    Discard,
    /// Change when a scheduled job or a retry is due: within the second from then on ([`crate::rules::spread`]).
    /// Jobs of other places stay as they are.
    Reschedule(Timestamp),
}

/// A request for one page of the jobs of a queue or set, in order.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    pub place: JobLocation,
    /// Continue after this key. `None`: start at the beginning.
    pub after: Option<EntryKey>,
    /// Walk backwards from the newest end.
    pub newest_first: bool,
    /// Maximum number of jobs in the page.
    pub limit: usize,
    /// Maximum number of jobs to examine.
    pub scan_max: usize,
    pub filter: Filter,
}

/// Selects the jobs that a scan returns. An empty filter selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Glob (`*` and `?`) that the whole JSON text must match, with the semantics of Redis.
    pub pattern: Option<String>,
    /// The exact jobtype, or the class that the job wraps.
    pub jobtype: Option<String>,
    /// The job must have one of these jids; the other conditions are then ignored.
    pub jids: Vec<String>,
}

/// A waiting or reserved job with all its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredJob {
    pub key: EntryKey,
    pub state: JobState,
    pub jobtype: Box<str>,
    pub queue: QueueName,
    /// Enqueued: when it entered the queue. Sets: when it is due or died. Reserved: when it was
    /// reserved.
    pub at: Timestamp,
    pub retry: i32,
    pub reserve_for_seconds: u32,
    pub failure: Option<FailureState>,
    pub json: Vec<u8>,
    pub features: ExportedFeatures,
}

/// Where a job is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Enqueued,
    Reserved { wid: Option<Wid>, expires_at: Timestamp },
    In(SetName),
}

/// The outcome of a search for a jid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and it mostly has a job")]
pub enum FindOutcome {
    Found(StoredJob),
    NotFound,
    /// It is not among the `searched` jobs; there are more, which were not read.
    NotSearched {
        searched: u64,
    },
}

impl FindOutcome {
    /// Returns the job, if it was found.
    #[must_use]
    pub fn job(self) -> Option<StoredJob> {
        match self {
            Self::Found(job) => Some(job),
            Self::NotFound | Self::NotSearched { .. } => None,
        }
    }
}

impl From<Option<StoredJob>> for FindOutcome {
    fn from(job: Option<StoredJob>) -> Self {
        job.map_or(Self::NotFound, Self::Found)
    }
}

/// A page of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    pub jobs: Vec<StoredJob>,
    /// The last key that was examined. `None`: no more jobs follow.
    pub next: Option<EntryKey>,
    pub scanned: usize,
    /// What could not be read now, so that its jobs are missing from the page.
    pub missing: Option<String>,
}

/// Jobs that were drawn at random.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub jobs: Vec<StoredJob>,
    /// What could not be read now, so that its jobs were not drawn.
    pub missing: Option<String>,
}

/// A reservation, without the job's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub jid: Box<str>,
    /// The class of the job ([`crate::job_class::job_class`]).
    pub jobtype: Box<str>,
    pub queue: QueueName,
    pub wid: Option<Wid>,
    pub since: Timestamp,
    pub expires_at: Timestamp,
}

/// The sizes of queues and sets, read from counters: cheap at any size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub queues: Vec<QueueCounts>,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
    pub reserved: u64,
    pub processed_total: u64,
    pub failed_total: u64,
    pub pushed_total: u64,
    pub fetches_waiting: u64,
    /// Unique jobs that hold a lock.
    pub unique_locks: u64,
    /// Tracked jobs, live or not.
    pub tracked: u64,
    pub batches: u64,
    /// Batches whose jobs that are left have all failed.
    pub batches_waiting: u64,
    /// Bytes of the descriptions and callbacks of all batches.
    pub batch_bytes: u64,
    /// The shared resources, by name.
    pub resources: Vec<ResourceCounts>,
    /// Until when limits of jobs at once are lower, because jobs may run that a crash left without a record. `None`: they
    /// apply in full.
    pub limits_lowered_until: Option<Timestamp>,
    /// Time since the values were read; zero if they are current.
    pub age: Duration,
}

/// One queue's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueCounts {
    pub name: QueueName,
    pub depth: u64,
    /// When the oldest job was enqueued. `None`: the queue is empty.
    pub oldest: Option<Timestamp>,
    pub paused: bool,
    pub reserved: u64,
    pub pushed_total: u64,
    pub processed_total: u64,
    pub failed_total: u64,
    /// The lanes of its tenants, if it has `fair_by`.
    pub lanes: LaneCounts,
    /// What comes to the queue. `None`: the store does not count it.
    pub arrivals: Option<QueueArrivals>,
    /// Jobs that wait because of a limit.
    pub blocked: BlockedJobs,
    /// Those that wait for shared resources, by name. A job may wait for several.
    pub blocked_by_resource: Vec<(String, u64)>,
    /// Jobs that started within the queue's target latency. `None`: the store does not count them.
    pub in_time: Option<InTimeStarts>,
}

/// Jobs that have started within the target latency of their queue, since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTimeStarts {
    pub total: u64,
    /// The sum of their waits.
    pub waited: Duration,
}

impl InTimeStarts {
    /// Counts a job that starts after `waited`, if that is within `target`.
    pub(crate) fn count(&mut self, waited: Duration, target: Option<Duration>) {
        if target.is_some_and(|target| waited <= target) {
            self.total += 1;
            self.waited = self.waited.saturating_add(waited);
        }
    }
}

/// Jobs that came to a queue since the start, or will come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueArrivals {
    /// Jobs that began to wait: pushed, due at their time, moved or enqueued by an operator. Without retries.
    pub arrived_total: u64,
    /// Jobs that failed and will be tried again.
    pub retried_total: u64,
    /// Retries that began to wait.
    pub returned_total: u64,
}

impl QueueArrivals {
    /// Counts a job that begins to wait.
    pub(crate) fn count(&mut self, is_retry: bool) {
        if is_retry {
            self.returned_total += 1;
        } else {
            self.arrived_total += 1;
        }
    }
}

/// The jobs of a tenant that wait in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantDepth {
    /// The same for all tenants that share a lane.
    pub lane: u64,
    /// `None`: jobs without a tenant.
    pub name: Option<String>,
    /// Jobs that wait in the lane.
    pub waiting: u64,
    /// Lanes of the queue.
    pub lanes: u64,
}

/// What this node has done to a queue since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTraffic {
    /// Jobs that were added to it.
    pub added: u64,
    /// Jobs that were taken from it.
    pub taken: u64,
}

/// An operator's action on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    Pause,
    Resume,
    /// Delete the waiting jobs and the queue itself. Reserved jobs stay reserved.
    Remove,
    /// Delete the waiting jobs.
    Clear,
}

/// The state of the underlying storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub kind: &'static str,
    pub segments: u64,
    pub bytes: u64,
    /// Damaged ranges of the log that no operator has acknowledged.
    pub damages: u64,
    pub condition: StoreCondition,
    pub sync_seconds_p50: f64,
    pub sync_seconds_p99: f64,
    /// Time since the values were read; zero if they are current.
    pub age: Duration,
    /// The servers among which the jobs are divided, if there are several.
    pub shards: Vec<ShardState>,
    /// The nodes that share the store, if others may. Those that have reported nothing for an hour are
    /// left out.
    pub nodes: Vec<NodeState>,
    /// Queues that running processes of Sidekiq fetch from the same Redis.
    pub sidekiq_queues: Vec<String>,
}

/// A state of the log that can be copied from its files while the log goes on.
///
/// Sealed segments and bytes before `position` never change, apart from repairs of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupPoint {
    /// See [`weir_log::SegmentLog::id`].
    pub log_id: u64,
    /// When `position` was the log's end.
    pub at: Timestamp,
    pub position: RecordPosition,
    /// See [`weir_log::SegmentLog::marked_second`].
    pub marked_second: u64,
    /// The segments up to `position`, oldest first.
    pub segments: Vec<SegmentInfo>,
}

/// Whether the storage accepts jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreCondition {
    #[default]
    Ok,
    /// Pushes are rejected; the reserved space serves ACK and FAIL.
    Low,
    /// Nothing can be written.
    Full,
    /// A sync failed.
    Failed(String),
    /// A part of the data can't be reached; the text says which. The rest is served, and pushes are
    /// accepted.
    Degraded(String),
    /// The data can't be reached; the text is that of [`StoreError::Unavailable`].
    Unavailable(String),
}

/// A worker process of this node, reported to a store that others share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    pub wid: Wid,
    pub hostname: String,
    pub pid: u64,
    pub labels: Vec<String>,
    pub started: Timestamp,
    pub rss_kb: u64,
    /// The first queues that it fetches from.
    pub queues: Vec<QueueName>,
    pub quiet: bool,
    /// Number of jobs that it has reserved.
    pub busy: u64,
}

const NO_CRON: StoreError = StoreError::Unsupported(
    "jobs.cron needs a single server in jobs.store: several do not know what the others have enqueued",
);

const NO_BACKUP: StoreError = StoreError::Unsupported(
    "these jobs are not in the embedded store (jobs.store), so Weir does not back them up",
);

/// The interval of [`Store::exchange_reports`].
pub const WORKER_REPORT_EVERY: Duration = Duration::from_secs(10);

/// All operations on jobs. The module's documentation lists what every store promises.
#[expect(async_fn_in_trait, reason = "a store lives on one thread; its futures need not be Send")]
pub trait Store: 'static {
    /// Returns the optional features of this store.
    fn capabilities(&self) -> Capabilities;

    /// Stores all `jobs` in order, or none. Returns once they are as durable as the store's setting
    /// demands.
    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError>;

    /// Like [`Store::push`], but a job that is refused on its own account
    /// ([`StoreError::is_of_one_job`]) does not affect the others. Returns a result for each job.
    async fn push_each(&self, jobs: &[NewJob<'_>]) -> Vec<Result<(), StoreError>> {
        store_parts(jobs, StoreError::is_of_one_job, async |part| self.push(part).await).await
    }

    /// Stores exported `jobs` in order, or none. Works like [`Store::push`], but puts each job into
    /// its former set with its time and its failures so far, which the next failure continues to
    /// count.
    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError>;

    /// Reserves up to `max` jobs, choosing each by the rules of a separate fetch, and waits when
    /// none is available. Returns an empty list when the wait times out.
    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError>;

    /// Ends reservations of the worker `reporter`, or of any worker
    /// ([`may_end`](crate::rules::may_end)). A job that waits again because of a crash is removed from
    /// where it waits, unless another worker has a job with its jid. Ignores unknown jids; a jid that
    /// two jobs have in common and that is given twice ends both. Returns the indices in `jids` of the
    /// unknown ones.
    async fn ack_from(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError>;

    /// Calls [`Store::ack_from`] for any worker.
    async fn ack(&self, jids: &[&str]) -> Result<Vec<usize>, StoreError> {
        self.ack_from(None, jids).await
    }

    /// Ends reservations of the worker `reporter`, or of any worker, with a failure. The rules decide
    /// between retry, dead set and discard. Returns the outcomes in the order of `reports`.
    async fn fail_from(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>>;

    /// Calls [`Store::fail_from`] for any worker.
    async fn fail_all(&self, reports: Vec<FailureReport>) -> Vec<Result<FailOutcome, StoreError>> {
        self.fail_from(None, reports).await
    }

    /// Calls [`Store::fail_all`] with one report.
    async fn fail(&self, report: FailureReport) -> Result<FailOutcome, StoreError> {
        let outcome = self.fail_all(vec![report]).await.pop();
        outcome.expect("each report has an outcome")
    }

    /// Releases the reservations of a worker that is gone: the jobs return to their positions. Those
    /// that have killed `returns_max` workers within [`KILLS_AGE_MAX`](crate::rules::KILLS_AGE_MAX), this one included, are
    /// dead. Returns the number of reservations.
    async fn release(&self, wid: &Wid, end: WorkerEnd) -> Result<usize, StoreError> {
        self.release_until(wid, &self.reservation_mark(), end).await
    }

    /// Like [`Store::release`], of the reservations from before the mark only. If a job can't be released now, the others
    /// are; the error is that of the first one, and another call releases what is left.
    async fn release_until(
        &self,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError>;

    /// Returns a mark behind all present reservations.
    fn reservation_mark(&self) -> ReservationMark;

    /// Sets who knows which workers are lost. A job whose reservation expires is released as one of a killed worker if
    /// that worker is lost.
    fn watch_workers(&self, lost: LostWorkers);

    /// Extends a reservation until `until`; never shortens it. Returns false if there is no such
    /// reservation.
    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError>;

    /// Returns what is known of a tracked job.
    async fn track(&self, jid: &str) -> Result<Option<Track>, StoreError>;

    /// Notes the progress of a job; ignored if it is not tracked.
    async fn set_track(&self, jid: &str, update: TrackUpdate) -> Result<(), StoreError>;

    /// Creates a batch.
    async fn batch_new(&self, definition: BatchDefinition) -> Result<BatchId, StoreError>;

    /// Prepares a batch for more jobs.
    async fn batch_open(&self, id: BatchId) -> Result<(), StoreError>;

    /// Commits a batch: its callbacks are stored once its jobs are over.
    async fn batch_commit(&self, id: BatchId) -> Result<(), StoreError>;

    /// Returns the counts of a batch.
    async fn batch_status(&self, id: BatchId) -> Result<BatchStatus, StoreError>;

    /// Returns what is remembered of the cron jobs.
    async fn cron_states(&self) -> Result<CronStates, StoreError> {
        Err(NO_CRON)
    }

    /// Registers the names of the cron jobs in the settings: begins to remember new ones, and forgets the others. A
    /// store that several nodes share forgets only names that no node has registered for [`CRON_KEPT`]. Returns what is
    /// remembered.
    async fn cron_register(&self, names: &[&str]) -> Result<CronStates, StoreError> {
        let CronStates { now, by_name } = self.cron_states().await?;
        for name in by_name.keys().filter(|name| !names.contains(&name.as_str())) {
            self.cron_forget(name).await?;
        }
        for name in names.iter().filter(|name| !by_name.contains_key(**name)) {
            self.cron_run(name, now, None).await?;
        }
        self.cron_states().await
    }

    /// Handles the time `at` of a cron job, and stores `job` for it, if it is given: both or neither. No
    /// job is stored for a cron job that is paused, or if its unique lock is held.
    async fn cron_run(
        &self,
        _name: &str,
        _at: Timestamp,
        _job: Option<NewJob<'_>>,
    ) -> Result<CronRunOutcome, StoreError> {
        Err(NO_CRON)
    }

    /// Pauses or resumes a cron job that is known.
    async fn cron_pause(&self, _name: &str, _paused: bool) -> Result<(), StoreError> {
        Err(NO_CRON)
    }

    /// Forgets a cron job.
    async fn cron_forget(&self, _name: &str) -> Result<(), StoreError> {
        Err(NO_CRON)
    }

    /// Returns up to `limit` batches with ids above `after`, in the order of their ids.
    async fn export_batches(
        &self,
        _after: Option<BatchId>,
        _limit: usize,
    ) -> Result<Vec<ExportedBatch>, StoreError> {
        Ok(Vec::new())
    }

    /// Adds a batch of an export, to be committed once its jobs are restored. Returns false if there
    /// is a batch with its id.
    async fn import_batch(&self, batch: ExportedBatch) -> Result<bool, StoreError>;

    /// Returns up to `limit` tracked jobs after `after` (time of the last update and jid), in this order.
    async fn export_tracks(
        &self,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError>;

    /// Replaces what is known of a tracked job.
    async fn import_track(&self, jid: &str, track: Track) -> Result<(), StoreError>;

    /// Replaces what is remembered of a cron job.
    async fn import_cron(&self, _name: &str, _state: CronState) -> Result<(), StoreError> {
        Err(NO_CRON)
    }

    /// Applies `action` to waiting jobs. Ignores keys that match no job. Returns the number of jobs
    /// affected.
    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError>;

    /// Moves waiting jobs to the end of another queue, which is created if it is missing, and paused if
    /// `paused` says so. Their unique locks become free. Ignores keys that match no job. Returns the
    /// number of jobs moved.
    async fn move_to(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError>;

    /// Returns a page of the jobs of a queue or set.
    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError>;

    /// Draws up to `count` jobs of a queue or set, each uniformly over all that are there and
    /// independently of the others, so that a job may be drawn twice. It may draw fewer, even none, to
    /// let other work continue; the next call goes on.
    async fn sample(&self, place: &JobLocation, count: usize) -> Result<Sample, StoreError>;

    /// Finds a job by its jid in all queues, sets and reservations. A store may search only a part
    /// of the jobs.
    async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError>;

    /// Applies `action` to queues. Ignores unknown names. Returns the number of jobs removed.
    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError>;

    /// Deletes all jobs.
    async fn flush(&self) -> Result<(), StoreError>;

    /// Returns the sizes of queues and sets, and the totals: the last known ones if the data can't be
    /// reached.
    async fn counts(&self) -> Counts;

    /// Returns what limits allow now, with up to `tenants_max` tenants of each queue.
    fn limit_states(&self, _tenants_max: usize) -> LimitStates {
        LimitStates::default()
    }

    /// Returns how many jobs wait in a queue, or `None` if only [`Store::counts`] knows it.
    fn depth(&self, _queue: &str) -> Option<u64> {
        None
    }

    /// Returns the bytes of the jobs that wait in a queue, if its rules ask to count them.
    fn waiting_bytes(&self, _queue: &str) -> Option<u64> {
        None
    }

    /// Returns how many jobs wait of the tenant of a job with this text. `None`: the queue has no tenants.
    fn tenant_depth(&self, _queue: &str, _json: &[u8]) -> Option<TenantDepth> {
        None
    }

    /// Returns the bytes of the store on the disk, if it has any.
    fn disk_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns what this node has done to a queue. Only for stores without [`Store::depth`].
    fn traffic(&self, _queue: &str) -> QueueTraffic {
        QueueTraffic::default()
    }

    /// Returns for each job that is not scheduled whether its push would add none: it is stored already, or another job
    /// holds its unique lock. May be false if that can't be found out now.
    async fn are_redundant(&self, jobs: &[NewJob<'_>]) -> Vec<bool> {
        vec![false; jobs.len()]
    }

    /// Returns up to `limit` reservations, oldest first.
    async fn reservations(&self, limit: usize) -> Vec<Reserved>;

    /// Returns the number of jobs that a worker has reserved, as far as this node knows.
    fn busy(&self, wid: &Wid) -> u64;

    /// Returns the state of the underlying storage.
    async fn storage(&self) -> Storage;

    /// Returns the first 1,000 damaged ranges that no operator has acknowledged.
    fn damages(&self) -> Vec<Damage>;

    /// Marks all damage as acknowledged by an operator. Returns the number of damaged ranges.
    async fn acknowledge_damages(&self) -> Result<u64, StoreError>;

    /// Returns a state of the log to copy, once it is as durable as the settings demand.
    async fn backup_point(&self) -> Result<BackupPoint, StoreError> {
        Err(NO_BACKUP)
    }

    /// Reports this node and its worker processes to those who share the data. Returns the directives
    /// that they left for the workers. Called every [`WORKER_REPORT_EVERY`] if the store is
    /// [`shared`](Capabilities::shared).
    async fn exchange_reports(
        &self,
        _node: NodeReport,
        _workers: Vec<WorkerReport>,
    ) -> Vec<(Wid, WorkerDirective)> {
        Vec::new()
    }

    /// Stores how long ago workers sent a BEAT to this node, and returns how long ago those of `overdue` sent one to any
    /// node, as far as it is known. Called if the store is [`shared`](Capabilities::shared).
    async fn exchange_beats(
        &self,
        _received: &[(Wid, Duration)],
        _overdue: &[Wid],
    ) -> Result<Vec<(Wid, Duration)>, StoreError> {
        Ok(Vec::new())
    }

    /// Changes how workers are shared among queues.
    fn allocate(&self, allocation: Allocation);

    /// Makes all data durable; later calls fail with [`StoreError::Closed`].
    async fn close(&self) -> Result<(), StoreError>;
}
