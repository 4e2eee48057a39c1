//! Replication slots of the database, which make Postgres retain WAL for disconnected clients.

use std::time::Duration;

use serde::Serialize;

/// All slots, and the limits on retained WAL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replication {
    /// Slots, most retained WAL first.
    pub slots: Vec<ReplicationSlot>,
    /// WAL that Postgres retains between checkpoints even without slots (`max_wal_size`).
    pub wal_bytes_max: u64,
    /// `max_slot_wal_keep_size`.
    pub limit: SlotLimit,
}

/// Commits that wait until standbys have confirmed them (`synchronous_standby_names`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SynchronousCommit {
    /// `synchronous_standby_names`; empty: commits wait for no standby.
    pub standby_names: String,
    /// Connected standbys that confirm commits (`sync_state` is "sync" or "quorum").
    pub confirming: u32,
    /// Names of all connected standbys (`pg_stat_replication.application_name`).
    pub connected: Vec<String>,
    /// Sessions whose commit is waiting (`wait_event` is "`SyncRep`").
    pub waiting: u32,
    /// How long the first of those has been waiting.
    pub longest: Duration,
}

impl SynchronousCommit {
    /// Returns the number of standbys that must confirm a commit: 1, unless the setting begins with
    /// a number, FIRST or ANY: "ANY 2 (a, b, c)".
    #[must_use]
    pub fn required(&self) -> u32 {
        let mut words = self.standby_names.split(['(', ' ']).filter(|word| !word.is_empty());
        let is_method =
            |word: &str| ["FIRST", "ANY"].iter().any(|it| word.eq_ignore_ascii_case(it));
        let number = words.find(|word| !is_method(word)).and_then(|word| word.parse().ok());
        number.filter(|_| self.standby_names.contains('(')).unwrap_or(1)
    }

    /// Reports whether commits wait for standbys of which too few are connected.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.waiting > 0 && !self.standby_names.is_empty() && self.confirming < self.required()
    }
}

/// How much WAL a slot may retain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotLimit {
    /// Unlimited: versions before 13 have no setting for it.
    #[default]
    NotSupported,
    /// Unlimited: -1, the default.
    Unlimited,
    /// At most this many bytes.
    Bytes(u64),
}

/// A replication slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicationSlot {
    /// Its name.
    pub name: String,
    /// Whether a client is reading from it.
    pub active: bool,
    /// Time since a client last read from it, if known (since version 17).
    pub inactive_for: Option<Duration>,
    /// Retained WAL.
    pub held_bytes: u64,
    /// Whether the WAL that it needs is still available.
    pub state: WalStatus,
}

/// `pg_replication_slots.wal_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WalStatus {
    /// "reserved" or "extended", or not reported (before version 13).
    #[default]
    Kept,
    /// The next checkpoint will remove some of it.
    Unreserved,
    /// Some of it has been removed.
    Lost,
}
