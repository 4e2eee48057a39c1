//! Metrics of PgBouncer: sums over all pools, because the number of pools is unlimited.

use super::CollectedFigures;
use crate::observation::{ConnectionPool, Observation};

pub(super) fn add(figures: &mut CollectedFigures, observation: &Observation) {
    if let Some(most) = observation.pooler.as_ref().and_then(|pooler| pooler.connections) {
        figures.add("pooler_connections_max", &[], f64::from(most));
    }
    let Some(pgbouncer) = observation.pgbouncer.known() else { return };
    let sum =
        |of: fn(&ConnectionPool) -> u32| pgbouncer.pools.iter().map(|it| f64::from(of(it))).sum();
    figures.add("pooler_clients", &["active"], sum(|pool| pool.clients_active));
    figures.add("pooler_clients", &["waiting"], sum(|pool| pool.clients_waiting));
    let longest = pgbouncer.pools.iter().map(|pool| pool.longest_wait).max().unwrap_or_default();
    figures.add("pooler_wait_seconds", &[], longest.as_secs_f64());
    figures.add("pooler_connections", &["active"], sum(|pool| pool.connections_active));
    figures.add("pooler_connections", &["idle"], sum(|pool| pool.connections_idle));
    figures.add("pooler_connections", &["other"], sum(ConnectionPool::connections_besides));
}
