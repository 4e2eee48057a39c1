//! Replication slots of the database: what Postgres keeps for those who come back.

use std::time::Duration;

use serde::Serialize;

/// All slots, and what bounds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replication {
    /// Those that hold back most first.
    pub slots: Vec<ReplicationSlot>,
    /// WAL that Postgres lets gather between two checkpoints without any slot (`max_wal_size`).
    pub wal_bytes_max: u64,
    /// `max_slot_wal_keep_size`.
    pub limit: SlotLimit,
}

/// How much WAL a slot may hold back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotLimit {
    /// Any amount, and this version has no setting for it (before 13).
    #[default]
    NotSupported,
    /// Any amount (-1, as Postgres ships).
    Unlimited,
    /// So many bytes.
    Bytes(u64),
}

/// One slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplicationSlot {
    /// Its name.
    pub name: String,
    /// Whether somebody reads from it.
    pub active: bool,
    /// How long nobody does, where that is told (since 17).
    pub inactive_for: Option<Duration>,
    /// WAL that was written since what it still needs.
    pub held_bytes: u64,
    /// Whether what it needs is there.
    pub state: WalStatus,
}

/// `pg_replication_slots.wal_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WalStatus {
    /// "reserved" or "extended"; or not told, before 13.
    #[default]
    Kept,
    /// The next checkpoint removes some of it.
    Unreserved,
    /// Some of it is gone.
    Lost,
}
