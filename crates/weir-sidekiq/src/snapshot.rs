//! One look at Sidekiq: plain data.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::heartbeat::Capsule;
use crate::job::JobSummary;
use crate::server::ServerSample;

/// As [`RedisSnapshot::cut`] names it.
pub(crate) const PROCESSES_MAX: &str = "processes_max";
pub(crate) const IDENTITIES_MAX: &str = "identities in the list of processes";

/// A part that was read, or why it was not.
pub type Read<T> = Result<T, RejectedCommand>;

/// Redis would not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedCommand {
    /// The command: `SLOWLOG GET`.
    pub command: String,
    /// What Redis said.
    pub reason: String,
    /// The line that would allow it, if that is the reason: `ACL SETUSER weir +slowlog|get`.
    pub grant: Option<String>,
}

/// A key that is not what Sidekiq would have there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddKey {
    /// What it would be: "queue pull".
    pub what: String,
    /// What Redis said.
    pub refusal: RejectedCommand,
}

/// All that one look has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSnapshot {
    /// By the clock of Redis.
    pub at: Timestamp,
    /// Queues that were pushed to or that a process names, by name.
    pub queues: Read<Vec<QueueSample>>,
    /// Processes with a heartbeat.
    pub processes: Read<Vec<ProcessSample>>,
    /// Identities in the list of processes without a heartbeat.
    pub ghosts: Vec<String>,
    /// Jobs that wait for their time.
    pub scheduled: Read<SetSample>,
    /// Failed jobs that will be tried again.
    pub retries: Read<SetSample>,
    /// Failed jobs that will not.
    pub dead: Read<SetSample>,
    /// Jobs finished since ever.
    pub processed: Read<u64>,
    /// Jobs failed since ever.
    pub failed: Read<u64>,
    /// The server, if it was asked for.
    pub server: Option<Read<ServerSample>>,
    /// Who else uses this Redis, if it was asked for.
    pub foreign_keys: Option<Read<ForeignKeys>>,
    /// Keys of another type than Sidekiq's and names that are none of its: what they would tell is left
    /// out of the rest.
    pub odd: Vec<OddKey>,
    /// Limits that have cut something off: "`queues_max` (1000)".
    pub cut: Vec<String>,
    /// Commands that the look has cost.
    pub commands: usize,
}

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Its name.
    pub name: String,
    /// Jobs were pushed to it at some time; otherwise only a process names it.
    pub pushed: bool,
    /// Paused (Sidekiq Pro).
    pub paused: bool,
    /// Jobs that wait.
    pub length: u64,
    /// When the next to be taken, or the first behind it that tells, was enqueued.
    pub oldest: Option<Timestamp>,
    /// When the newest were enqueued, newest first.
    pub newest: Vec<Timestamp>,
    /// Of those in it, how many have come since the other look; none: that was not asked, or can't be told.
    pub came: Option<u64>,
    /// From three windows: oldest, middle, newest.
    pub sample: Vec<JobSummary>,
}

/// The scheduled, retry or dead set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetSample {
    /// Jobs in it.
    pub size: u64,
    /// Of those, due by now (of the dead set: all).
    pub due: u64,
    /// Of the dead set those that died within the last hour; of others 0.
    pub lately: u64,
    /// The smallest time in it.
    pub first: Option<Timestamp>,
    /// Of the retry set those that are due next, of the dead set those that died last.
    pub sample: Vec<JobSummary>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// `host:pid:nonce`.
    pub identity: String,
    /// As it names its host.
    pub hostname: String,
    /// Its number there.
    pub pid: u32,
    /// What its operator calls it.
    pub tag: Option<String>,
    /// Sidekiq's version; not told by 6.
    pub version: Option<String>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// Its last heartbeat, by the clock of its host.
    pub beat: Option<Timestamp>,
    /// How long ago that was by the clock of Redis: each heartbeat makes its key expire after a minute.
    pub beat_age: Option<Duration>,
    /// Jobs in hand.
    pub busy: u64,
    /// It takes no new jobs.
    pub quiet: bool,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Its own round trip to Redis.
    pub round_trip_us: Option<u64>,
    /// Its threads.
    pub capsules: Vec<Capsule>,
    /// Jobs in hand, as of the last heartbeat.
    pub work: Vec<RunningJobSample>,
}

/// A job in hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningJobSample {
    /// Where it came from.
    pub queue: String,
    /// Since when.
    pub run_at: Option<Timestamp>,
    /// Without its arguments.
    pub job: Option<JobSummary>,
}

/// A sample of the keys of a Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeys {
    /// Keys that were looked at.
    pub sampled: u64,
    /// Of those, not Sidekiq's.
    pub foreign: u64,
    /// Of those, with a time to live: a cache's.
    pub expiring: u64,
    /// Prefixes under which there are keys of a Sidekiq (`redis-namespace`). They are searched for where
    /// there are none without one.
    pub namespaces: BTreeSet<String>,
}

impl RedisSnapshot {
    /// Whether there is not one key of Sidekiq's, as far as all of them could be read.
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

    /// Whether there may be processes that are not among those that are told of.
    #[must_use]
    pub fn has_more_processes(&self) -> bool {
        let is_of_processes =
            |limit: &String| limit.starts_with(PROCESSES_MAX) || limit.starts_with(IDENTITIES_MAX);
        self.cut.iter().any(is_of_processes)
    }
}

impl ProcessSample {
    /// The queues of all its capsules.
    pub fn served(&self) -> impl Iterator<Item = &str> {
        let queues = self.capsules.iter().flat_map(|capsule| &capsule.queues);
        queues.map(|queue| queue.name.as_str())
    }
}
