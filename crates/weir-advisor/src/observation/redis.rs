//! A Redis server that holds jobs.

use std::time::Duration;

use serde::Serialize;

use super::redis_info::{Persistence, RedisInfo};
use super::{Fact, Missing};

/// One server (or shard).
#[derive(Clone, Debug, Default, Serialize)]
pub struct RedisServer {
    /// Its address without a password.
    pub name: String,
    /// The number of the database that was looked at.
    pub database: i64,
    /// What `INFO` reports.
    #[serde(flatten)]
    pub info: RedisInfo,
    /// Prefixes under which there are keys of a Sidekiq (`redis-namespace`), as far as they were seen.
    pub namespaces: Vec<String>,
    /// The newest entries of its slow log.
    pub slow_commands: Fact<Vec<SlowCommand>>,
    /// What it did between two looks.
    pub lately: Fact<RedisOperations>,
    /// Of a bounded sample of keys, those that are not Sidekiq's and expire. From 0 to 1.
    pub cache_like_share: Fact<f64>,
}

/// What a server did between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RedisOperations {
    /// Commands per second.
    pub per_second: f64,
    /// Keys thrown away per second.
    pub evicted_per_second: f64,
    /// By command, what took most time first.
    pub commands: Vec<CommandRate>,
}

impl RedisOperations {
    /// How long one command took on average; none: there was none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let calls: f64 = self.commands.iter().map(|command| command.per_second).sum();
        let busy: f64 = self.commands.iter().map(|command| command.share).sum();
        (calls > 0.0).then(|| Duration::try_from_secs_f64(busy / calls).unwrap_or_default())
    }
}

/// One command between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandRate {
    /// `LRANGE`.
    pub command: String,
    /// Calls per second.
    pub per_second: f64,
    /// How long one took on average.
    pub mean: Duration,
    /// Of Redis' time, which is one thread's: from 0 to 1.
    pub share: f64,
}

/// An entry of the slow log: the command's name only, for arguments hold jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlowCommand {
    /// `LRANGE`.
    pub command: String,
    /// How long Redis did nothing else.
    pub took: Duration,
    /// How long ago.
    pub age: Duration,
}

impl RedisServer {
    /// Why it takes no writes, a heartbeat neither; none: it does, as far as it says.
    #[must_use]
    pub fn refuses_writes(&self) -> Option<&'static str> {
        let Persistence { last_append_ok, last_snapshot_ok, snapshots, .. } = self.info.persistence;
        let is_full = self.info.maxmemory_bytes > 0
            && self.info.used_memory_bytes >= self.info.maxmemory_bytes;
        if !last_append_ok {
            Some("the last write to its append-only file failed (MISCONF)")
        } else if !last_snapshot_ok && snapshots != Some(false) {
            Some("its last snapshot failed (MISCONF)")
        } else if is_full && self.info.maxmemory_policy == "noeviction" {
            Some("its memory is full (OOM)")
        } else if self.info.replica_of.is_some() {
            Some("it is a replica (READONLY)")
        } else if self.info.lacks_replicas {
            Some("min-replicas-to-write is set and no replica is connected (NOREPLICAS)")
        } else {
            None
        }
    }

    /// Whether it evicts keys to make room; a heartbeat expires, and is among the first to go.
    #[must_use]
    pub fn evicts(&self) -> bool {
        let has_evicted = self.info.evicted_keys > 0 && self.info.maxmemory_policy != "noeviction";
        has_evicted && self.is_nearly_full()
    }

    /// Most of `maxmemory` is in use: a backlog that grows fills the last tenth in minutes.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        let (used, ceiling) = (self.info.used_memory_bytes, self.info.maxmemory_bytes);
        ceiling > 0 && used.saturating_mul(10) >= ceiling.saturating_mul(9)
    }

    /// Why heartbeats of processes that run may be missing here.
    #[must_use]
    pub fn loses_heartbeats(&self) -> Option<String> {
        if let Some(why) = self.refuses_writes() {
            return Some(format!("Redis rejects writes: {why}"));
        }
        let policy = &self.info.maxmemory_policy;
        self.evicts()
            .then(|| format!("Redis evicts keys, including heartbeats (maxmemory-policy {policy})"))
    }

    pub(super) fn missing(&self) -> [Option<&Missing>; 2] {
        [self.slow_commands.missing(), self.cache_like_share.missing()]
    }
}
