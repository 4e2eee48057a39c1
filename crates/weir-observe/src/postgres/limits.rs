//! The limits of a sample of Postgres.

use std::time::Duration;

/// Limits of a sample of Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresLimits {
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for a query, enforced by Postgres (`statement_timeout`).
    pub statement_timeout: Duration,
    /// Timeout for locks on the catalog (`lock_timeout`).
    pub lock_timeout: Duration,
    /// Maximum number of sessions.
    pub sessions_max: u32,
    /// Maximum number of lock waits.
    pub lock_waits_max: u32,
    /// Maximum number of statements from `pg_stat_statements`, if available; 0 disables the query.
    pub statements_max: u32,
}

impl Default for PostgresLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(1),
            // More than any realistic `max_connections`.
            sessions_max: 20_000,
            lock_waits_max: 500,
            statements_max: 0,
        }
    }
}
