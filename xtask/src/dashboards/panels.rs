//! The panels of the dashboard, in order.

/// A chart.
pub(super) struct Panel {
    pub(super) row: &'static str,
    pub(super) title: &'static str,
    /// All have the same unit.
    pub(super) metrics: &'static [&'static str],
}

const fn panel(row: &'static str, title: &'static str, metrics: &'static [&'static str]) -> Panel {
    Panel { row, title, metrics }
}

const DOCTOR: &str = "Doctor";
const QUEUES: &str = "Queues";
const PROCESSES: &str = "Sidekiq's processes";
const POSTGRES: &str = "Postgres";
const REDIS: &str = "Redis";
const MACHINE: &str = "The machine";
const OBSERVER: &str = "The looks themselves";

pub(super) static PANELS: [Panel; 37] = [
    panel(DOCTOR, "Findings by severity", &["findings"]),
    panel(DOCTOR, "Findings by rule", &["rule_findings"]),
    panel(QUEUES, "Time to drain all queues", &["drain_seconds"]),
    panel(QUEUES, "Time to drain a queue", &["queue_drain_seconds"]),
    panel(QUEUES, "Queue depth", &["queue_size"]),
    panel(QUEUES, "Latency (age of the oldest job)", &["queue_latency_seconds"]),
    panel(QUEUES, "Arrival rate", &["queue_arriving_per_second"]),
    panel(QUEUES, "Completion rate", &["queue_served_per_second"]),
    panel(QUEUES, "Jobs in progress", &["queue_in_hand"]),
    panel(QUEUES, "Processes that serve a queue", &["queue_served_by"]),
    panel(QUEUES, "Scheduled, retries, dead", &["set_size", "set_overdue"]),
    panel(QUEUES, "Jobs finished and failed", &["jobs_processed", "jobs_failed"]),
    panel(PROCESSES, "Threads, total and busy", &["threads", "threads_busy"]),
    panel(PROCESSES, "Processes", &["processes"]),
    panel(POSTGRES, "Connections by service and state", &["connections"]),
    panel(POSTGRES, "Connection limit", &["connections_max", "connections_reserved"]),
    panel(POSTGRES, "Longest time in a state", &["connection_state_seconds"]),
    panel(POSTGRES, "Blocks found in shared buffers", &["cache_hit_ratio"]),
    panel(POSTGRES, "What busy sessions wait for", &["session_waits", "lock_waits"]),
    panel(POSTGRES, "Longest wait for a lock", &["lock_wait_seconds"]),
    panel(POSTGRES, "WAL kept for a replication slot", &["replication_slot_bytes"]),
    panel(POSTGRES, "Clients of PgBouncer", &["pooler_clients"]),
    panel(POSTGRES, "Longest wait at PgBouncer", &["pooler_wait_seconds"]),
    panel(POSTGRES, "Connections of PgBouncer", &["pooler_connections", "pooler_connections_max"]),
    panel(REDIS, "Memory", &["redis_memory_bytes", "redis_memory_max_bytes"]),
    panel(REDIS, "Commands", &["redis_operations", "redis_evicted_keys"]),
    panel(REDIS, "Duration of a command", &["redis_operation_seconds"]),
    panel(REDIS, "Duration of the last fork", &["redis_fork_seconds"]),
    panel(REDIS, "Connections", &["redis_clients"]),
    panel(REDIS, "Snapshots and append-only file succeed", &["redis_persisting"]),
    panel(MACHINE, "Cores", &["machine_cores", "machine_cores_idle"]),
    panel(MACHINE, "Memory", &["machine_memory_bytes", "machine_memory_available_bytes"]),
    panel(OBSERVER, "Sources that are up", &["source_up", "left_out"]),
    panel(OBSERVER, "Samples, total and failed", &["source_looks", "source_failures"]),
    panel(OBSERVER, "Commands and queries", &["source_questions"]),
    panel(OBSERVER, "Duration of a sample", &["source_look_seconds", "look_seconds"]),
    panel(OBSERVER, "Time of the last sample", &["look_timestamp_seconds"]),
];
