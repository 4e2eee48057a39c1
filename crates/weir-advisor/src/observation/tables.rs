//! Tables of the database, and how it is kept in order.

use std::time::Duration;

use serde::Serialize;

/// A table, from `pg_stat_user_tables`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TableStatistics {
    /// Its name, with its schema unless that is `public`.
    pub name: String,
    /// Its size at the last vacuum or analyze; 0: unknown.
    pub bytes: u64,
    /// Estimated rows.
    pub live_rows: u64,
    /// Rows that were deleted or replaced and are not removed yet.
    pub dead_rows: u64,
    /// Whether autovacuum is on for it (`autovacuum_enabled`).
    pub autovacuum: bool,
    /// Time since its last vacuum, if there was one.
    pub vacuumed_before: Option<Duration>,
    /// What was read of it between two samples.
    pub lately: Option<TableReads>,
}

/// Reads of a table between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TableReads {
    /// Time between the samples.
    pub window: Duration,
    /// Sequential scans.
    pub sequential_scans: u64,
    /// Rows that these read.
    pub sequential_rows: u64,
    /// Scans of its indexes.
    pub index_scans: u64,
}

/// Whether the database is kept in order, and what it writes for lack of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatabaseUpkeep {
    /// Whether autovacuum runs (`autovacuum` and `track_counts`).
    pub autovacuum: bool,
    /// The age in transactions at which autovacuum begins to prevent a wraparound
    /// (`autovacuum_freeze_max_age`).
    pub freeze_max_age: u64,
    /// The database of the cluster with the oldest transaction IDs.
    pub oldest_database: String,
    /// Their age in transactions.
    pub oldest_age: u64,
    /// The age of the oldest transaction that may still see dead rows, as far as visible.
    pub oldest_transaction: Option<Duration>,
    /// Temporary files that were written between two samples.
    pub temporary_files: Option<TemporaryFiles>,
}

/// Temporary files: sorts and hashes that did not fit into `work_mem`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TemporaryFiles {
    /// Time between the samples.
    pub window: Duration,
    /// Number of files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}
