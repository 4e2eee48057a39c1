//! Plain data for the console, the command line and the admin API.
//!
//! Times are seconds since the Unix epoch with a fraction; durations are seconds. Both are `f64`,
//! which JavaScript and Python read without conversion.

mod batches;
mod cancel;
mod job_types;
mod limits;
mod step;
mod task;
mod xray;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::drain::DrainForecast;

pub use crate::node::NodeView;
pub use batches::{BatchListPage, BatchView};
pub use cancel::{CancelView, CancelledJobView};
pub use job_types::{
    DurationsView, ErrorGroupView, JobTypeDetails, JobTypeView, JobTypesView, LastFailureView,
    TypeCounts, TypeFiguresSource, TypeQueueView, TypeSliceView,
};
pub use limits::{
    JobLimitsView, QueueCapsView, QueueLimitsView, ResourceLimitsView, TenantLimitsView,
    TenantsLimitsView,
};
pub use step::StepView;
pub use task::{TaskState, TaskView};
pub use xray::{XrayCoverage, XrayGroup, XrayRow, XrayView};

/// The overview of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobServerOverview {
    pub now: f64,
    pub version: String,
    pub uptime_seconds: f64,
    pub store: String,
    /// Empty for a store outside of this machine.
    pub fsync: String,
    pub processed_total: u64,
    pub failed_total: u64,
    pub pushed_total: u64,
    /// Jobs waiting in queues.
    pub enqueued: u64,
    /// Jobs reserved by workers.
    pub working: u64,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
    pub queues: u64,
    /// Worker processes that send BEAT.
    pub workers: u64,
    pub connections: u64,
    pub fetches_waiting: u64,
    /// The highest latency of the queues that are not paused: how long the next job has waited.
    pub latency_seconds_max: f64,
    pub log: StorageView,
    pub limits_hit: Vec<LimitHit>,
    /// Seconds since the sizes were read; 0 if they are current.
    #[serde(default)]
    pub age_seconds: f64,
    /// What each shard of the store measures of itself.
    #[serde(default)]
    pub stores: Vec<StoreShardView>,
    /// Until when limits of jobs at once are a quarter lower, because the job store was not closed. `None`: they apply in
    /// full.
    #[serde(default)]
    pub limits_lowered_until: Option<f64>,
}

impl JobServerOverview {
    /// Returns the kind of the store and what an operator must know about its figures, such as
    /// `embedded, fsync always`.
    #[must_use]
    pub fn store_text(&self) -> String {
        match &*self.fsync {
            "" if self.age_seconds > AGE_SHOWN_MIN_SECONDS => {
                format!("{}, figures of {:.0} s ago", self.store, self.age_seconds)
            }
            "" => self.store.clone(),
            fsync => format!("{}, fsync {fsync}", self.store),
        }
    }
}

/// Figures that are not older than this count as current.
const AGE_SHOWN_MIN_SECONDS: f64 = 5.0;

/// The segment log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageView {
    pub segments: u64,
    pub bytes: u64,
    /// Damaged ranges of the log that no operator has acknowledged.
    pub damages: u64,
    /// `ok`, `low` (pushes are rejected), `full`, `failed` (a sync failed; see `problem`),
    /// `degraded` (some shards can't be reached; see `problem`) or `unavailable` (the data can't be
    /// reached; see `problem`).
    pub state: String,
    pub problem: Option<String>,
    pub sync_seconds_p50: f64,
    pub sync_seconds_p99: f64,
    /// The servers among which the jobs are divided, if there are several.
    #[serde(default)]
    pub shards: Vec<ShardView>,
    /// The nodes that share the store, if others may, by hostname.
    #[serde(default)]
    pub nodes: Vec<NodeView>,
    /// Queues that running processes of Sidekiq fetch from the same Redis, by name.
    #[serde(default)]
    pub sidekiq_queues: Vec<String>,
}

/// One of several servers among which the jobs are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardView {
    pub name: String,
    pub address: String,
    /// It gets no more jobs. Remove it once it has none.
    pub drains: bool,
    /// Since when it can't be used. `None`: it can.
    pub away_since: Option<f64>,
    pub problem: Option<String>,
    /// Jobs when it was last read.
    pub enqueued: u64,
    pub working: u64,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
    pub memory_bytes: u64,
}

impl ShardView {
    /// Returns the number of jobs that it has.
    #[must_use]
    pub const fn jobs(&self) -> u64 {
        self.enqueued + self.working + self.scheduled + self.retries + self.dead
    }

    /// Returns `up`, `away`, `draining` or `empty` (it has drained and can be removed).
    #[must_use]
    pub const fn state(&self) -> &'static str {
        match (self.away_since, self.drains, self.jobs()) {
            (Some(_), _, _) => "away",
            (None, true, 0) => "empty",
            (None, true, _) => "draining",
            (None, false, _) => "up",
        }
    }
}

/// One shard of the store: a Redis, or the embedded store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreShardView {
    /// The address of the Redis, or `embedded`.
    pub shard: String,
    pub operations: Vec<StoreOperationView>,
    /// Payloads that no worker could run, since the start: they are in the dead set.
    pub malformed_total: u64,
    /// The server behind it. `None`: there is none, or it does not say.
    pub server: Option<StoreServerView>,
}

/// An operation of the store over the last minute, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreOperationView {
    /// `push`, `fetch`, `ack`, `fail`, `release`, `act`, `scan`, `find` or `count`.
    pub operation: String,
    /// Since the start.
    pub total: u64,
    pub per_second: f64,
    /// `None`: none was timed.
    pub seconds_p50: Option<f64>,
    pub seconds_p99: Option<f64>,
}

/// The server behind a shard over the last minute, all its clients included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreServerView {
    pub memory_bytes: u64,
    /// 0: no limit.
    pub memory_bytes_max: u64,
    pub reads_per_second: f64,
    pub writes_per_second: f64,
    /// The commands in a script count as reads, writes and others as well.
    pub scripts_per_second: f64,
    pub others_per_second: f64,
    /// CPU time per second.
    pub cpu_share: f64,
    /// CPU time per job that ended. `None`: no job has ended.
    pub cpu_seconds_per_job: Option<f64>,
    /// Those with the most time first.
    pub commands: Vec<StoreCommandView>,
}

/// A command of that server over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreCommandView {
    pub command: String,
    /// `read`, `write`, `script` or `other`.
    pub kind: String,
    pub per_second: f64,
    /// Within the server. That of a script includes its commands.
    pub seconds_mean: f64,
}

/// A damaged range of the log that no operator has acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Damage {
    /// The name of the segment's file.
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    /// How many of `bytes` are preserved in `damaged.log`.
    pub set_aside: u64,
    pub why: String,
}

/// A state of the job log that can be copied from its files while the log goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupPoint {
    /// The id in the header of each segment: 16 hexadecimal digits.
    pub log_id: String,
    /// When the log's end was at `segment` and `offset`, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    pub segment: u32,
    pub offset: u32,
    /// The second (since the Unix epoch) of the last mark in the log's index of times; 0: there is
    /// none. An index that ends earlier has lost marks.
    pub marked_second: u64,
    /// The segments up to there, oldest first.
    pub segments: Vec<BackupSegment>,
}

/// A segment of a [`BackupPoint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupSegment {
    pub number: u32,
    /// Bytes in use; the file may be longer.
    pub bytes: u32,
    /// Whether the segment is complete, so that it never changes.
    pub sealed: bool,
}

/// A limit that was reached since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    /// The setting's name.
    pub limit: String,
    pub hits: u64,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    pub name: String,
    pub depth: u64,
    /// How long its next job has waited; 0 when empty.
    pub latency_seconds: f64,
    pub paused: bool,
    /// Jobs of this queue that are reserved now.
    pub working: u64,
    /// Jobs that wait because of a limit.
    pub blocked: u64,
    /// The same by the kind of the limit.
    #[serde(default)]
    pub blocked_by: BlockedView,
    /// Totals since the server's start; rates are their differences over time.
    pub pushed: u64,
    pub processed: u64,
    pub failed: u64,
    /// Jobs per second over the last minute.
    pub pushed_per_second: f64,
    /// Jobs per second that begin to wait, and of those that fail and will come back.
    #[serde(default)]
    pub arriving_per_second: f64,
    pub processed_per_second: f64,
    /// When the queue will be empty: a range, or why there is none.
    #[serde(default)]
    pub drain: DrainForecast,
    pub target_latency_seconds: Option<f64>,
    pub concurrency: Option<u32>,
    /// The limit of jobs at once that is in force: lower than `concurrency` for a while after a crash.
    #[serde(default)]
    pub concurrency_in_force: Option<u32>,
    /// How often jobs may start, as in the settings.
    #[serde(default)]
    pub rate: Option<String>,
    pub fresh_lane: bool,
    /// The rates of the last seconds, which the pages and the command line show.
    #[serde(default)]
    pub recent: RecentRates,
    /// The shared resources that all jobs of the queue use, or that jobs of it wait for.
    #[serde(default)]
    pub resources: Vec<ResourceView>,
}

/// The rates of a queue over about the last ten seconds: long enough to smooth, short enough to be
/// current. Less after a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecentRates {
    pub pushed_per_second: f64,
    /// Jobs per second that begin to wait, and of those that fail and will come back.
    pub arriving_per_second: f64,
    pub processed_per_second: f64,
    /// Jobs per second that started within the target latency. `None`: there is no target, or the store does not know.
    pub in_time_per_second: Option<f64>,
    /// The mean wait of these. `None`: there were none.
    pub in_time_wait_seconds: Option<f64>,
}

impl RecentRates {
    /// Returns by how many jobs per second the queue grows; negative: it shrinks.
    #[must_use]
    pub fn growth_per_second(&self) -> f64 {
        self.arriving_per_second - self.processed_per_second
    }
}

/// Jobs that wait because of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedView {
    /// As many jobs of the queue or tenant are in progress as may be.
    pub concurrency: u64,
    /// The next job of the queue or tenant may not start yet.
    pub rate: u64,
    /// A shared resource has no room.
    #[serde(default)]
    pub resource: u64,
}

/// A shared resource that jobs of a queue use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceView {
    pub name: String,
    /// Jobs in progress that use it, in all queues.
    pub used: u64,
    /// The most of them at once.
    pub concurrency: Option<u32>,
    /// How often such jobs may start, as in the settings.
    pub rate: Option<String>,
    /// Jobs of the queue that wait because it has no room.
    pub blocked: u64,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobViewState {
    Enqueued,
    Working,
    Scheduled,
    Retries,
    Dead,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    pub jid: String,
    pub jobtype: String,
    pub queue: String,
    pub state: JobViewState,
    /// When it entered the queue, is due (scheduled, retries), died, or was reserved.
    pub at: f64,
    pub created_at: Option<String>,
    pub retry: i64,
    pub reserve_for_seconds: u64,
    pub failure: Option<FailureView>,
    /// The worker that has reserved the job.
    pub wid: Option<String>,
    /// The job's JSON exactly as it is sent to a worker.
    pub payload: String,
    /// Identifies this entry for an action; pass it back unchanged.
    pub key: String,
    /// What an export contains beside the text. `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<JobFeaturesView>,
}

/// What the server does for a job, as far as its text does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JobFeaturesView {
    /// When its unique lock ends. `None`: it holds none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_until: Option<String>,
    /// It counts as failed in its batch.
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// The callback of a batch that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackView>,
}

/// The callback of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallbackView {
    pub bid: String,
    /// `complete` or `success`.
    pub kind: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The last failure of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureView {
    pub retry_count: u64,
    pub remaining: u64,
    pub failed_at: Option<String>,
    pub next_at: Option<String>,
    pub message: String,
    pub errtype: String,
    pub backtrace: Vec<String>,
}

/// A page of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobListPage {
    pub jobs: Vec<JobView>,
    /// Pass as `after` to get the next page. `None`: this is the last page.
    pub next: Option<String>,
    /// How many entries were examined for this page (a search may stop early and continue).
    pub scanned: u64,
    /// How many jobs the queue or set has in all, regardless of the filter.
    pub total: u64,
    /// What could not be read now, so that its jobs are missing here.
    #[serde(default)]
    pub missing: Option<String>,
}

/// A page of what an export contains beside jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatePage {
    pub entries: Vec<StateEntry>,
    /// Pass as `after` to get the next page. `None`: this is the last page.
    pub next: Option<String>,
}

/// A batch, a tracked job or a cron job in an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateEntry {
    /// The key behind which an export continues.
    pub key: String,
    pub json: String,
}

/// One worker process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobWorkerView {
    pub wid: String,
    pub hostname: String,
    pub pid: u64,
    pub labels: Vec<String>,
    pub started_at: f64,
    pub last_beat_at: f64,
    /// `running`, `quiet` or `terminate`.
    pub state: String,
    pub rss_kb: u64,
    pub connections: u64,
    pub busy: u64,
    /// The queues of its last FETCH, by name; at most `limits.worker_queues_max`.
    #[serde(default)]
    pub queues: Vec<String>,
    /// The number of queues in its last FETCH. 0: it has not fetched yet.
    #[serde(default)]
    pub queues_total: u64,
}

/// A reserved job and its worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReservationView {
    pub jid: String,
    pub jobtype: String,
    pub queue: String,
    pub wid: Option<String>,
    pub since: f64,
    pub expires_at: f64,
}

/// A cron job: `[[jobs.cron]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CronView {
    pub name: String,
    pub schedule: String,
    pub timezone: String,
    pub jobtype: String,
    pub queue: String,
    /// `None`: never.
    pub next_at: Option<f64>,
    /// The last time that was handled, whether or not a job was enqueued for it.
    pub last_at: Option<f64>,
    pub paused: bool,
}

/// The result of an import or a push.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pushed {
    pub accepted: u64,
    /// Jobs of a resumed import that were stored before.
    #[serde(default)]
    pub present: u64,
    /// Batches, tracked jobs and cron jobs that were imported.
    #[serde(default)]
    pub entries: u64,
    /// The number of rejected lines.
    #[serde(default)]
    pub rejected_total: u64,
    /// The first rejected jobs.
    pub rejected: Vec<Rejected>,
}

/// A job that was rejected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rejected {
    /// Line of the input, from 1.
    pub line: u64,
    pub jid: Option<String>,
    pub error: String,
}
