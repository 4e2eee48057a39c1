//! A Redis server that holds jobs.

use std::time::Duration;

use serde::Serialize;

use super::{Fact, Missing};

/// One server (or shard).
#[derive(Clone, Debug, Default, Serialize)]
pub struct RedisServer {
    /// Its address without a password.
    pub name: String,
    /// `used_memory`.
    pub used_memory_bytes: u64,
    /// `total_system_memory`.
    pub system_memory_bytes: u64,
    /// `maxmemory`; 0 is none.
    pub maxmemory_bytes: u64,
    /// `maxmemory_policy`.
    pub maxmemory_policy: String,
    /// Keys that were thrown away for want of memory since its start.
    pub evicted_keys: u64,
    /// How it keeps data over a restart.
    pub persistence: Persistence,
    /// The last fork.
    pub latest_fork: Duration,
    /// The newest entries of its slow log.
    pub slow_commands: Fact<Vec<SlowCommand>>,
    /// Of a bounded sample of keys, those that are not Sidekiq's and expire. From 0 to 1.
    pub cache_like_share: Fact<f64>,
}

/// What Redis says under "Persistence".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Persistence {
    /// Each write goes to a file.
    pub append_only: bool,
    /// Snapshots are configured; unknown without `CONFIG GET`.
    pub snapshots: Option<bool>,
    /// The last snapshot was written.
    pub last_snapshot_ok: bool,
    /// The last write to the file was.
    pub last_append_ok: bool,
    /// Writes since the last snapshot.
    pub changes_since_snapshot: u64,
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
    pub(super) fn missing(&self) -> [Option<&Missing>; 2] {
        [self.slow_commands.missing(), self.cache_like_share.missing()]
    }
}
