//! A Redis server that holds jobs.

use std::time::Duration;

use serde::Serialize;

use super::redis_info::{Persistence, RedisInfo};
use super::{Fact, Missing, SidekiqObservation};
use crate::durability::PushConfirmation;

/// A server or shard.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RedisServer {
    /// Its address without a password.
    pub name: String,
    /// Number of the database that was read.
    pub database: i64,
    /// Values from `INFO`.
    #[serde(flatten)]
    pub info: RedisInfo,
    /// Other databases of the server with live Sidekiq processes. Searched for only if the one that
    /// was read has none.
    pub served_elsewhere: Vec<ServedDatabase>,
    /// What Weir waits for before it acknowledges a push to this Redis; `None`: it keeps no jobs of
    /// Weir.
    pub push_confirmation: Option<PushConfirmation>,
    /// Prefixes of Sidekiq keys (`redis-namespace`), as far as found.
    pub namespaces: Vec<String>,
    /// The newest entries of its slow log.
    pub slow_commands: Fact<Vec<SlowCommand>>,
    /// The slow log may have older entries than those.
    pub has_more_slow_commands: bool,
    /// Commands executed between two samples.
    pub lately: Fact<RedisOperations>,
    /// Share of keys in a bounded sample that expire and are not Sidekiq's, from 0 to 1.
    pub cache_like_share: Fact<f64>,
}

/// A numbered database with live Sidekiq processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServedDatabase {
    /// Its number.
    pub database: i64,
    /// Processes with a heartbeat.
    pub processes: u64,
}

/// Activity of a server between two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RedisOperations {
    /// Time between the samples.
    pub window: Duration,
    /// Commands per second.
    pub per_second: f64,
    /// Keys evicted per second.
    pub evicted_per_second: f64,
    /// Share of one core that it used, from 0 to 1. `None` if its version does not report it.
    pub cpu_share: Option<f64>,
    /// Connections that it rejected (`maxclients`).
    pub rejected_connections: u64,
    /// Writes of the append-only file that waited for the disk.
    pub delayed_syncs: u64,
    /// By command, highest share of time first.
    pub commands: Vec<CommandRate>,
}

impl RedisOperations {
    /// Returns the mean duration of a command, or `None` if none was executed.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let calls: f64 = self.commands.iter().map(|command| command.per_second).sum();
        let busy: f64 = self.commands.iter().map(|command| command.share).sum();
        (calls > 0.0).then(|| Duration::try_from_secs_f64(busy / calls).unwrap_or_default())
    }
}

/// Activity of one command between two samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandRate {
    /// `LRANGE`.
    pub command: String,
    /// Calls per second.
    pub per_second: f64,
    /// Mean duration.
    pub mean: Duration,
    /// Share of Redis' single thread that it used, from 0 to 1.
    pub share: f64,
}

/// An entry of the slow log. Only the command's name is read, because arguments contain jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowCommand {
    /// `LRANGE`.
    pub command: String,
    /// Duration, during which Redis executed nothing else.
    pub took: Duration,
    /// How long ago.
    pub age: Duration,
}

/// The reason of a Redis at its `maxmemory`.
const FULL: &str = "its memory is full (OOM)";
/// The reason after a failed snapshot, unless `stop-writes-on-bgsave-error` is off, which INFO does not
/// report.
const SNAPSHOT: &str = "its last snapshot failed (MISCONF)";
/// The reason of a replica.
const REPLICA: &str = "it is a replica (READONLY)";

impl RedisServer {
    /// Returns why it rejects writes, including heartbeats, or `None` if it accepts them as far as
    /// known.
    #[must_use]
    pub fn refuses_writes(&self) -> Option<&'static str> {
        let Persistence { last_append_ok, last_snapshot_ok, snapshots, .. } = self.info.persistence;
        let is_full = self.info.maxmemory_bytes > 0
            && self.info.used_memory_bytes >= self.info.maxmemory_bytes;
        if !last_append_ok {
            Some("the last write to its append-only file failed (MISCONF)")
        } else if !last_snapshot_ok && snapshots != Some(false) {
            Some(SNAPSHOT)
        } else if is_full && self.info.maxmemory_policy == "noeviction" {
            Some(FULL)
        } else if self.info.replica_of.as_ref().is_some_and(|master| master.is_read_only) {
            Some(REPLICA)
        } else if self.info.lacks_replicas {
            Some("min-replicas-to-write is set and no replica is connected (NOREPLICAS)")
        } else {
            None
        }
    }

    /// Returns the same, unless what was observed of `jobs` disproves it: jobs were completed or pushed
    /// between the samples although a snapshot has failed, or live processes use the master of this
    /// replica.
    #[must_use]
    pub(crate) fn refuses_writes_of(&self, jobs: &SidekiqObservation) -> Option<&'static str> {
        let why = self.refuses_writes()?;
        let is_disproved = match why {
            REPLICA => jobs.serving().next().is_some(),
            SNAPSHOT => jobs.shows_writes(),
            _ => false,
        };
        (!is_disproved).then_some(why)
    }

    /// Reports whether it is a replica that rejects writes. Its master, which it copies, keeps the data
    /// and evicts keys, whatever its own limits are.
    #[must_use]
    pub(crate) fn is_copy(&self) -> bool {
        self.info.replica_of.as_ref().is_some_and(|master| master.is_read_only)
    }

    /// Reports whether it rejects only commands that need memory: it then still removes jobs.
    #[must_use]
    pub(crate) fn rejects_only_growth(&self) -> bool {
        let is_master = self.info.replica_of.is_none() && !self.info.lacks_replicas;
        is_master && self.refuses_writes() == Some(FULL)
    }

    /// Reports whether it evicts keys when memory is full. Heartbeats have an expiry and are among
    /// the first to be evicted.
    #[must_use]
    pub fn evicts(&self) -> bool {
        let has_evicted = self.info.evicted_keys > 0 && self.info.maxmemory_policy != "noeviction";
        has_evicted && self.is_nearly_full()
    }

    /// Reports whether at least 90 % of `maxmemory` is in use. A growing backlog fills the rest in
    /// minutes.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        let (used, ceiling) = (self.info.used_memory_bytes, self.info.maxmemory_bytes);
        ceiling > 0 && used.saturating_mul(10) >= ceiling.saturating_mul(9)
    }

    /// Reports whether the buffers of clients, and not keys, have most of the memory. More memory would
    /// be filled as well.
    #[must_use]
    pub fn is_filled_by_clients(&self) -> bool {
        self.info.client_memory_bytes.saturating_mul(2) >= self.info.used_memory_bytes
    }

    /// Returns why heartbeats of running processes may be missing, given the observed `jobs`.
    #[must_use]
    pub(crate) fn loses_heartbeats(&self, jobs: &SidekiqObservation) -> Option<String> {
        if let Some(why) = self.refuses_writes_of(jobs) {
            return Some(format!("Redis rejects writes: {why}"));
        }
        if self.info.delays_writes {
            return Some(
                "Redis lets every write wait, heartbeats as well (CLIENT PAUSE)".to_owned(),
            );
        }
        let policy = &self.info.maxmemory_policy;
        self.evicts()
            .then(|| format!("Redis evicts keys, including heartbeats (maxmemory-policy {policy})"))
    }

    pub(super) fn missing(&self) -> [Option<&Missing>; 2] {
        [self.slow_commands.missing(), self.cache_like_share.missing()]
    }
}
