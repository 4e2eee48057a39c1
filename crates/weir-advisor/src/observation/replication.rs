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
