//! The `Store` trait: every whole operation on jobs. What it promises is the same for the embedded
//! engine, memory and (later) Redis; `contract` tests them all.
//!
//! A store lives on the thread that serves the connections, so its futures need not be `Send`.
//! Dropping a future never loses a job: a fetched job whose delivery was not taken goes back to
//! the place it came from.

use std::time::Duration;

use crate::allocation::Allocation;
use crate::model::{
    Delivery, EntryKey, FailureReport, FailureState, JobLocation, NewJob, QueueName, SetName, Wid,
};
use weir_base::clock::Timestamp;
use weir_log::Damage;

/// Why a store could not do it. The text is what the client reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No room: pushes are refused, fetch, ack and fail go on.
    #[error("disk full: job not stored; free space in data_dir, pushes resume by themselves")]
    DiskFull,
    /// A sync failed: what was written may be gone, so nothing more is acknowledged.
    #[error("storage failed: {0}; nothing more is acknowledged until Weir is restarted")]
    Failed(String),
    /// A limit was met; the text names it.
    #[error("{0}")]
    Limit(String),
    /// A job larger than the log's record limit.
    #[error("job too large: {bytes} bytes")]
    TooLarge { bytes: usize },
    /// No such reservation.
    #[error("Job not found {0}")]
    NotFound(Box<str>),
    /// The store is closing.
    #[error("server is shutting down")]
    Closed,
}

/// What a store can do beyond the base operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Acknowledged jobs survive the process.
    pub durable: bool,
    /// The queue can be served newest first.
    pub both_ends: bool,
    /// A search reads jobs without holding up the thread that serves them.
    pub scan_aside: bool,
}

/// A request for work.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The worker; a producer that fetches has none.
    pub wid: Option<&'a Wid>,
    /// In order of preference.
    pub queues: &'a [QueueName],
    pub max: BatchSize,
    /// How long to wait when there is nothing.
    pub wait: Duration,
}

/// How much one fetch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// At most this many jobs (>= 1).
    pub jobs: usize,
    /// No further job once those taken have this many bytes of JSON.
    pub bytes: usize,
}

impl BatchSize {
    /// One job, whatever its size.
    pub const ONE: Self = Self::of(1);

    /// Up to `jobs` jobs, whatever their size.
    #[must_use]
    pub const fn of(jobs: usize) -> Self {
        Self { jobs, bytes: usize::MAX }
    }

    /// Whether `taken` are as many as it allows.
    #[must_use]
    pub const fn is_reached(self, taken: Self) -> bool {
        taken.jobs >= self.jobs || taken.bytes >= self.bytes
    }
}

/// An exported job on its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored<'a> {
    /// Its `json` is the final text, `failure` included; its `at` is None.
    pub job: NewJob<'a>,
    /// Where it rested; None: at the end of its queue.
    pub set: Option<SetName>,
    /// Sets: when it is due, or died.
    pub at: Timestamp,
    /// What the text says of its last failure.
    pub failure: Option<FailureState>,
}

/// What became of a failed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOutcome {
    /// It is due again then.
    Retry { next_at: Timestamp },
    /// It went to the dead set.
    Dead,
    /// `retry = 0`: it is gone.
    Discarded,
}

/// Which jobs of a place an action means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    Entries(Vec<EntryKey>),
}

/// What to do with resting jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put it at the end of its queue now.
    Requeue,
    /// Move it to the dead set.
    Kill,
    /// Forget it.
    Discard,
}

/// A walk through a place in order, a page at a time, that never holds more than a page.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    pub place: JobLocation,
    /// Go on behind this key; None: from the start.
    pub after: Option<EntryKey>,
    /// From the far end backwards.
    pub newest_first: bool,
    /// At most this many jobs in the answer.
    pub limit: usize,
    /// The maximum of jobs to examine.
    pub scan_max: usize,
    pub filter: Filter,
}

/// Which jobs a scan returns. Empty: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Glob (`*` and `?`) over the whole JSON text, as Redis matches.
    pub pattern: Option<String>,
    /// Exactly this jobtype.
    pub jobtype: Option<String>,
    /// One of these jids. Wins over the others.
    pub jids: Vec<String>,
}

/// A resting or reserved job with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredJob {
    pub key: EntryKey,
    pub state: JobState,
    pub jobtype: Box<str>,
    pub queue: QueueName,
    /// Enqueued: when it entered the queue. Sets: when due or dead. Reserved: since when.
    pub at: Timestamp,
    pub retry: i32,
    pub reserve_for_seconds: u32,
    pub failure: Option<FailureState>,
    pub json: Vec<u8>,
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Enqueued,
    Reserved { wid: Option<Wid>, expires_at: Timestamp },
    In(SetName),
}

/// A page of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    pub jobs: Vec<StoredJob>,
    /// The last key that was examined, while there are more.
    pub next: Option<EntryKey>,
    pub scanned: usize,
}

/// A reservation, without the job's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub jid: Box<str>,
    pub jobtype: Box<str>,
    pub queue: QueueName,
    pub wid: Option<Wid>,
    pub since: Timestamp,
    pub expires_at: Timestamp,
}

/// What is where, from counters: cheap at any size.
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
}

/// One queue's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueCounts {
    pub name: QueueName,
    pub depth: u64,
    /// When the job that has waited longest was enqueued; None when empty.
    pub oldest: Option<Timestamp>,
    pub paused: bool,
    pub reserved: u64,
    pub pushed_total: u64,
    pub processed_total: u64,
    pub failed_total: u64,
}

/// What an operator does to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    Pause,
    Resume,
    /// Forget its waiting jobs and the queue itself (reserved jobs stay reserved).
    Remove,
    /// Forget its waiting jobs.
    Clear,
}

/// The state of the storage beneath.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    pub kind: &'static str,
    pub segments: u64,
    pub bytes: u64,
    /// Damaged places that no operator has acknowledged.
    pub damages: u64,
    pub condition: StoreCondition,
    pub sync_seconds_p50: f64,
    pub sync_seconds_p99: f64,
}

/// Whether the storage takes jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreCondition {
    #[default]
    Ok,
    /// Pushes are refused; the reserve serves ACK and FAIL.
    Low,
    /// Nothing can be written.
    Full,
    /// A sync failed.
    Failed(String),
}

/// Every whole operation on jobs. See the module for what all stores promise.
#[expect(async_fn_in_trait, reason = "a store lives on one thread; its futures need not be Send")]
pub trait Store: 'static {
    /// What this store can do beyond the base operations.
    fn capabilities(&self) -> Capabilities;

    /// Stores all `jobs` in order, or none. Resolved: durable by the store's setting.
    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError>;

    /// Puts exported `jobs` back in order, or none: like [`Store::push`], but into the set where
    /// each was, with its time and the failures so far (its next failure counts on from there).
    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError>;

    /// Reserves up to `max` jobs, each by the rules of a fetch of its own, waiting when there are
    /// none. Empty: the wait was over.
    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError>;

    /// Ends reservations. After a crash a job may be waiting again: then it is removed there.
    /// Unknown jids are ignored; a jid that is there twice ends two jobs. Returns the places in
    /// `jids` of those that were unknown.
    async fn ack(&self, jids: &[&str]) -> Result<Vec<usize>, StoreError>;

    /// Ends reservations with a failure: retry, dead or gone by the rules. Returns what became of
    /// each, in the order of `reports`.
    async fn fail_all(&self, reports: Vec<FailureReport>) -> Vec<Result<FailOutcome, StoreError>>;

    /// [`Store::fail_all`] of one.
    async fn fail(&self, report: FailureReport) -> Result<FailOutcome, StoreError> {
        let outcome = self.fail_all(vec![report]).await.pop();
        outcome.expect("each report has an outcome")
    }

    /// The worker is gone: its reservations return to their places (or fail, past `returns_max`).
    async fn release(&self, wid: &Wid) -> Result<usize, StoreError>;

    /// Moves the end of a reservation later; never earlier. False: no such reservation.
    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError>;

    /// Acts on resting jobs. Returns how many it hit; keys that match nothing are ignored.
    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError>;

    /// A page of the jobs of a place.
    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError>;

    /// One job, wherever it is.
    async fn find(&self, jid: &str) -> Result<Option<StoredJob>, StoreError>;

    /// Acts on queues. Unknown names are ignored. Returns how many jobs it removed.
    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError>;

    /// Forgets everything.
    async fn flush(&self) -> Result<(), StoreError>;

    /// What is where.
    fn counts(&self) -> Counts;

    /// Up to `limit` reservations, oldest first.
    fn reservations(&self, limit: usize) -> Vec<Reserved>;

    /// How many jobs a worker holds.
    fn busy(&self, wid: &Wid) -> u64;

    /// The state of the storage beneath.
    fn storage(&self) -> Storage;

    /// The first thousand damaged places that no operator has acknowledged.
    fn damages(&self) -> Vec<Damage>;

    /// An operator knows of all damage. Returns how many places that were.
    async fn acknowledge_damages(&self) -> Result<u64, StoreError>;

    /// How workers are shared among queues from now on.
    fn allocate(&self, allocation: Allocation);

    /// Makes everything durable and rejects later calls.
    async fn close(&self) -> Result<(), StoreError>;
}
