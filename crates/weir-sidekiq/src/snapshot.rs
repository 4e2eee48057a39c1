//! The result of one sample of Sidekiq's data.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_advisor::observation::{ClassHistory, DayCounts};
use weir_base::clock::Timestamp;

use crate::heartbeat::Capsule;
use crate::job::JobSummary;
use crate::server::ServerSample;

/// Name of the limit in [`RedisSnapshot::cut`].
pub(crate) const PROCESSES_MAX: &str = "processes_max";
pub(crate) const IDENTITIES_MAX: &str = "identities in the list of processes";

/// A part of a sample, or why Redis rejected it.
pub type Read<T> = Result<T, RejectedCommand>;

/// A command that Redis rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCommand {
    /// The command: `SLOWLOG GET`.
    pub command: String,
    /// Redis' error message.
    pub reason: String,
    /// The command that grants the permission, if that is the reason: `ACL SETUSER weir
    /// +slowlog|get`.
    pub grant: Option<String>,
}

/// A key of another type than Sidekiq would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddKey {
    /// What the key should be: "queue pull".
    pub what: String,
    /// The error that Redis returned for it.
    pub refusal: RejectedCommand,
}

/// All values of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSnapshot {
    /// Time of the sample by Redis' clock.
    pub at: Timestamp,
    /// When the lengths of the queues were read. On a slow connection, seconds pass between two parts of
    /// a sample, so rates are computed from the times of the values themselves.
    pub lengths_at: Timestamp,
    /// When the counts of finished and failed jobs were read.
    pub counted_at: Timestamp,
    /// Queues that were pushed to or that a process names, sorted by name.
    pub queues: Read<Vec<QueueSample>>,
    /// Processes with a heartbeat.
    pub processes: Read<Vec<ProcessSample>>,
    /// Identities in the process list that have no heartbeat.
    pub ghosts: Vec<String>,
    /// Jobs scheduled for a later time.
    pub scheduled: Read<SetSample>,
    /// Failed jobs that will be retried.
    pub retries: Read<SetSample>,
    /// Failed jobs that will not be retried.
    pub dead: Read<SetSample>,
    /// Total jobs finished.
    pub processed: Read<u64>,
    /// Total jobs failed.
    pub failed: Read<u64>,
    /// Sidekiq's counts of the last days in UTC, today first, if requested.
    pub days: Option<Read<Vec<DayCounts>>>,
    /// Runs by class, if requested and if a process has a version that counts them (7 and later).
    pub classes: Option<Read<ClassHistory>>,
    /// The server's status, if requested. For the second of two samples, only `INFO`.
    pub server: Option<Read<ServerSample>>,
    /// Keys of other programs, if requested.
    pub foreign_keys: Option<Read<ForeignKeys>>,
    /// Keys of unexpected types, and invalid names. They are left out of the other fields.
    pub odd: Vec<OddKey>,
    /// Limits that truncated the sample: "`queues_max` (1000)".
    pub cut: Vec<String>,
    /// Number of commands sent.
    pub commands: usize,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Its name.
    pub name: String,
    /// Whether jobs have ever been pushed to it. If not, only a process names it.
    pub pushed: bool,
    /// Whether its list exists, but the set of queues does not name it.
    pub unlisted: bool,
    /// Paused (Sidekiq Pro).
    pub paused: bool,
    /// Jobs that are waiting.
    pub length: u64,
    /// Time until Redis deletes the queue, if its key has an expiry. Sidekiq sets none.
    pub expires_in: Option<Duration>,
    /// Enqueue time of the next job, or of the first one after it that has such a time.
    pub oldest: Option<Timestamp>,
    /// Enqueue times of the newest jobs, newest first.
    pub newest: Vec<Timestamp>,
    /// Jobs in the queue that arrived since the earlier sample. `None` if not requested or not
    /// determinable.
    pub came: Option<u64>,
    /// When `came` was counted: after the length, and later than that if it took many steps.
    pub came_until: Option<Timestamp>,
    /// Jobs from three windows: oldest, middle, newest.
    pub sample: Vec<JobSummary>,
}

/// Jobs that are scheduled for later than this, ten years, are probably a mistake.
pub const FAR_AHEAD: Duration = Duration::from_secs(10 * 31_557_600);

/// The scheduled, retry or dead set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSample {
    /// Jobs in it.
    pub size: u64,
    /// Jobs that are due (in the dead set, all).
    pub due: u64,
    /// In the dead set, jobs that died within the last hour; in the other sets 0.
    pub lately: u64,
    /// In the scheduled set, jobs that are due in more than [`FAR_AHEAD`]; in the other sets 0.
    pub far: u64,
    /// Of those, jobs whose time is within [`FAR_AHEAD`] of now if it is read as milliseconds.
    pub far_as_millis: u64,
    /// The lowest time in the set.
    pub first: Option<Timestamp>,
    /// In the retry set, the jobs due next; in the dead set, the ones that died last.
    pub sample: Vec<JobSummary>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// `host:pid:nonce`.
    pub identity: String,
    /// Host name as the process reports it.
    pub hostname: String,
    /// Its process ID on that host.
    pub pid: u32,
    /// The tag that its operator assigned.
    pub tag: Option<String>,
    /// Sidekiq's version. Not reported by version 6.
    pub version: Option<String>,
    /// Start time.
    pub started_at: Option<Timestamp>,
    /// Time of its last heartbeat, by its host's clock.
    pub beat: Option<Timestamp>,
    /// Age of its last heartbeat by Redis' clock, derived from the key's expiry of one minute.
    pub beat_age: Option<Duration>,
    /// Number of jobs in progress.
    pub busy: u64,
    /// Whether it accepts no new jobs.
    pub quiet: bool,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Round-trip time to Redis as measured by the process.
    pub round_trip_us: Option<u64>,
    /// Its threads by capsule.
    pub capsules: Vec<Capsule>,
    /// Jobs in progress at the last heartbeat.
    pub work: Vec<RunningJobSample>,
}

/// A job in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJobSample {
    /// The queue that it came from.
    pub queue: String,
    /// Start time.
    pub run_at: Option<Timestamp>,
    /// The job without its arguments.
    pub job: Option<JobSummary>,
}

/// A sample of the keys of a Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeys {
    /// Number of sampled keys.
    pub sampled: u64,
    /// Of the sampled keys, those that are not Sidekiq's.
    pub foreign: u64,
    /// Of the foreign keys, those with a time to live, as in a cache.
    pub expiring: u64,
    /// Prefixes of Sidekiq keys (`redis-namespace`). Searched for only if there are no Sidekiq keys
    /// without a prefix.
    pub namespaces: BTreeSet<String>,
}

impl RedisSnapshot {
    /// Reports whether there are no Sidekiq keys, as far as all parts could be read.
    pub(crate) fn is_without_sidekiq(&self) -> bool {
        let is_empty = |set: &Read<SetSample>| set.as_ref().is_ok_and(|set| set.size == 0);
        let is_none = |count: &Read<u64>| count.as_ref().is_ok_and(|count| *count == 0);
        self.odd.is_empty()
            && self.ghosts.is_empty()
            && self.queues.as_ref().is_ok_and(|queues| queues.iter().all(|queue| !queue.pushed))
            && self.processes.as_ref().is_ok_and(Vec::is_empty)
            && [&self.scheduled, &self.retries, &self.dead].into_iter().all(is_empty)
            && [&self.processed, &self.failed].into_iter().all(is_none)
    }

    /// Reports whether there are processes, none of which has sent a heartbeat within the shortest
    /// interval of heartbeats (Sidekiq 6: 5 s, later versions: 10 s).
    pub(crate) fn has_no_recent_heartbeat(&self) -> bool {
        const INTERVAL: Duration = Duration::from_secs(5);
        let is_old = |it: &ProcessSample| it.beat_age.is_some_and(|age| age >= INTERVAL);
        let Ok(processes) = &self.processes else { return false };
        !(processes.is_empty() && self.ghosts.is_empty()) && processes.iter().all(is_old)
    }

    /// Reports whether there may be further processes that were not read.
    #[must_use]
    pub fn has_more_processes(&self) -> bool {
        let is_of_processes =
            |limit: &String| limit.starts_with(PROCESSES_MAX) || limit.starts_with(IDENTITIES_MAX);
        self.cut.iter().any(is_of_processes)
    }
}

impl ProcessSample {
    /// Returns the queues of all its capsules.
    pub fn served(&self) -> impl Iterator<Item = &str> {
        let queues = self.capsules.iter().flat_map(|capsule| &capsule.queues);
        queues.map(|queue| queue.name.as_str())
    }
}
