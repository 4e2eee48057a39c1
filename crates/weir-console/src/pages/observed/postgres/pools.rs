//! The pools of the database's PgBouncer.

use weir_advisor::observation::{ConnectionPool, PgBouncer, PooledDatabase};

use super::super::displayable;
use crate::figures;

/// Limit of rows; pools with waiting clients come first.
const ROWS_MAX: usize = 50;

pub(super) struct PoolRow {
    pub(super) name: String,
    pub(super) mode: String,
    pub(super) clients: u32,
    pub(super) waiting: u32,
    pub(super) longest_wait: String,
    pub(super) connections: u32,
    pub(super) active: u32,
    pub(super) limit: String,
}

pub(super) fn rows(pgbouncer: &PgBouncer) -> Vec<PoolRow> {
    pgbouncer.pools.iter().take(ROWS_MAX).map(|pool| PoolRow::new(pgbouncer, pool)).collect()
}

impl PoolRow {
    fn new(pgbouncer: &PgBouncer, pool: &ConnectionPool) -> Self {
        let unknown = || "–".to_owned();
        let limit = pgbouncer.database(&pool.database).map(PooledDatabase::pool_max);
        let is_late = pool.clients_waiting > 0;
        let wait = is_late.then(|| figures::duration(pool.longest_wait.as_secs_f64()));
        Self {
            name: displayable(&format!("{}/{}", pool.database, pool.user)),
            mode: displayable(&pool.mode),
            clients: pool.clients_active.saturating_add(pool.clients_waiting),
            waiting: pool.clients_waiting,
            longest_wait: wait.unwrap_or_else(unknown),
            connections: pool.connections,
            active: pool.connections_active,
            limit: limit.map_or_else(unknown, |limit| limit.to_string()),
        }
    }
}
