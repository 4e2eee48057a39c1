//! Metrics of Postgres, Redis and the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use super::CollectedFigures;
use super::admitted::AdmittedNames;
use crate::observation::{
    DatabaseConnections, DatabaseObservation, Machine, Observation, RedisServer, SessionState,
    SessionWait,
};

pub(super) fn add(
    figures: &mut CollectedFigures,
    observation: &Observation,
    names: &mut AdmittedNames,
) {
    match observation.postgres.known() {
        Some(postgres) => add_postgres(figures, postgres, names),
        None => names.admit_plain([]),
    }
    for server in observation.redis.iter().filter_map(|server| server.known()) {
        add_redis(figures, server);
    }
    if let Some(machine) = observation.machine.known() {
        add_machine(figures, machine);
    }
}

fn add_postgres(
    figures: &mut CollectedFigures,
    postgres: &DatabaseObservation,
    names: &mut AdmittedNames,
) {
    match postgres.connections.known() {
        Some(connections) => add_connections(figures, connections, names),
        None => names.admit_plain([]),
    }
    if let Some(settings) = postgres.settings.known() {
        figures.add("connections_max", &[], f64::from(settings.max_connections));
        let reserved = settings.superuser_reserved_connections;
        figures.add("connections_reserved", &[], f64::from(reserved));
    }
    if let Some(ratio) = postgres.cache_hit_ratio.known() {
        figures.add("cache_hit_ratio", &[], *ratio);
    }
    if let Some(waits) = postgres.lock_waits.known() {
        figures.add("lock_waits", &[], waits.len() as f64);
        let longest = waits.iter().map(|wait| wait.waited).max().unwrap_or_default();
        figures.add("lock_wait_seconds", &[], longest.as_secs_f64());
    }
    if let Some(replication) = postgres.replication.known() {
        let most = replication.slots.iter().map(|slot| slot.held_bytes).max().unwrap_or_default();
        figures.add("replication_slot_bytes", &[], most as f64);
    }
    for (kind, count) in by_kind(postgres.waits.known().map(Vec::as_slice).unwrap_or_default()) {
        figures.add("session_waits", &[kind], f64::from(count));
    }
}

/// Sums waiting sessions by kind of event. Postgres has about a dozen kinds.
fn by_kind(waits: &[SessionWait]) -> BTreeMap<&str, u32> {
    let mut kinds = BTreeMap::new();
    for wait in waits {
        *kinds.entry(wait.kind.as_str()).or_default() += wait.count;
    }
    kinds
}

fn add_connections(
    figures: &mut CollectedFigures,
    connections: &DatabaseConnections,
    names: &mut AdmittedNames,
) {
    names.admit_plain(connections.sessions.iter().map(|sessions| sessions.service.as_str()));
    let mut groups: BTreeMap<(&str, SessionState), (u32, Duration)> = BTreeMap::new();
    for sessions in &connections.sessions {
        let group = groups.entry((names.label("", &sessions.service), sessions.state)).or_default();
        *group = (group.0 + sessions.count, group.1.max(sessions.longest));
    }
    for ((service, state), (count, longest)) in groups {
        let labels = &[service, state.name()];
        figures.add("connections", labels, f64::from(count));
        figures.add("connection_state_seconds", labels, longest.as_secs_f64());
    }
}

fn add_redis(figures: &mut CollectedFigures, server: &RedisServer) {
    let label = &[server.name.as_str()];
    figures.add("redis_memory_bytes", label, server.info.used_memory_bytes as f64);
    if server.info.maxmemory_bytes > 0 {
        figures.add("redis_memory_max_bytes", label, server.info.maxmemory_bytes as f64);
    }
    figures.add("redis_clients", label, server.info.clients as f64);
    figures.add("redis_operations", label, server.info.operations as f64);
    if let Some(mean) = server.lately.known().and_then(|lately| lately.mean()) {
        figures.add("redis_operation_seconds", label, mean.as_secs_f64());
    }
    figures.add("redis_evicted_keys", label, server.info.evicted_keys as f64);
    figures.add("redis_fork_seconds", label, server.info.latest_fork.as_secs_f64());
    let persistence = &server.info.persistence;
    let is_fine = persistence.last_snapshot_ok && persistence.last_append_ok;
    figures.add("redis_persisting", label, f64::from(u8::from(is_fine)));
}

fn add_machine(figures: &mut CollectedFigures, machine: &Machine) {
    figures.add("machine_cores", &[], f64::from(machine.cores));
    figures.add("machine_cores_idle", &[], machine.cores_idle);
    figures.add("machine_memory_bytes", &[], machine.memory_bytes as f64);
    figures.add("machine_memory_available_bytes", &[], machine.memory_available_bytes as f64);
}
