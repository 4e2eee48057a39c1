//! The table of all metrics of an observation.

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name without [`PREFIX`]. Counters also get the suffix `_total`.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// Gauge or counter.
    pub kind: MetricKind,
    /// The unit of its values.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Whether it exists per Sidekiq. With several Redis servers it then has the label [`SHARD`].
    pub of_each_sidekiq: bool,
}

/// The common prefix of all names.
pub const PREFIX: &str = "weir_observe_";
/// The label that identifies a Sidekiq by its Redis server.
pub const SHARD: &str = "redis";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Can rise and fall.
    Gauge,
    /// Only rises.
    Counter,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of items.
    Count,
    /// Items per second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A ratio from 0 to 1.
    Share,
    /// 0 or 1.
    Yes,
}

impl Metric {
    /// Returns the name of the time series in Prometheus.
    #[must_use]
    pub fn series(&self) -> String {
        let suffix = match self.kind {
            MetricKind::Gauge => "",
            MetricKind::Counter => "_total",
        };
        format!("{PREFIX}{}{suffix}", self.name)
    }
}

const fn gauge(
    name: &'static str,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, help, kind: MetricKind::Gauge, unit, labels, of_each_sidekiq: false }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        help,
        kind: MetricKind::Counter,
        unit: Unit::Count,
        labels,
        of_each_sidekiq: false,
    }
}

const fn of_sidekiq(metric: Metric) -> Metric {
    Metric { of_each_sidekiq: true, ..metric }
}

const QUEUE: &[&str] = &["queue"];
const REDIS: &[&str] = &[SHARD];
const SOURCE: &[&str] = &["source", "name"];

/// All metrics in the order of output.
pub static METRICS: &[Metric] = &[
    of_sidekiq(gauge("queue_size", Unit::Count, QUEUE, "Jobs waiting in the queue")),
    of_sidekiq(gauge("queue_in_hand", Unit::Count, QUEUE, "Jobs in progress")),
    of_sidekiq(gauge(
        "queue_latency_seconds",
        Unit::Seconds,
        QUEUE,
        "Age of the oldest job in the queue",
    )),
    of_sidekiq(gauge(
        "queue_drain_seconds",
        Unit::Seconds,
        QUEUE,
        "Time to drain the queue at the present rates; infinite while it grows, absent while its \
         depth is constant",
    )),
    of_sidekiq(gauge(
        "queue_arriving_per_second",
        Unit::PerSecond,
        QUEUE,
        "Jobs that arrive per \
                      second",
    )),
    of_sidekiq(gauge(
        "queue_served_per_second",
        Unit::PerSecond,
        QUEUE,
        "Jobs that complete per second",
    )),
    of_sidekiq(gauge("queue_served_by", Unit::Count, QUEUE, "Processes that serve the queue")),
    of_sidekiq(gauge(
        "drain_seconds",
        Unit::Seconds,
        &[],
        "Time to drain all queues at the present rates; infinite while they grow or one is not \
         served, absent while their depth is constant",
    )),
    of_sidekiq(gauge(
        "set_size",
        Unit::Count,
        &["set"],
        "Jobs in the scheduled, retry and dead sets",
    )),
    of_sidekiq(gauge("set_overdue", Unit::Count, &["set"], "Jobs in the set that are overdue")),
    of_sidekiq(counter(
        "jobs_processed",
        &[],
        "Jobs finished, including failed ones, as counted by Sidekiq",
    )),
    of_sidekiq(counter("jobs_failed", &[], "Jobs failed, as counted by Sidekiq")),
    of_sidekiq(gauge(
        "processes",
        Unit::Count,
        &["state"],
        "Sidekiq processes, by state: serving, quiet, ghost",
    )),
    of_sidekiq(gauge("threads", Unit::Count, &[], "Threads of the processes that serve queues")),
    of_sidekiq(gauge("threads_busy", Unit::Count, &[], "Threads that are running a job")),
    gauge(
        "connections",
        Unit::Count,
        &["service", "state"],
        "Database connections, by service and \
           state",
    ),
    gauge(
        "connection_state_seconds",
        Unit::Seconds,
        &["service", "state"],
        "Longest time that a connection has been in the state",
    ),
    gauge(
        "connections_max",
        Unit::Count,
        &[],
        "Connection limit of the database \
           (max_connections)",
    ),
    gauge("connections_reserved", Unit::Count, &[], "Connections reserved for superusers"),
    gauge(
        "cache_hit_ratio",
        Unit::Share,
        &[],
        "Share of blocks found in shared buffers between \
           the last two samples",
    ),
    gauge("lock_waits", Unit::Count, &[], "Sessions waiting for a lock"),
    gauge(
        "lock_wait_seconds",
        Unit::Seconds,
        &[],
        "Longest time that a session has been waiting \
           for a lock",
    ),
    gauge("session_waits", Unit::Count, &["kind"], "Busy sessions, by kind of wait"),
    gauge(
        "replication_slot_bytes",
        Unit::Bytes,
        &[],
        "WAL kept for the replication slot that keeps the most; 0 if there is no slot",
    ),
    gauge(
        "pooler_clients",
        Unit::Count,
        &["state"],
        "Clients of PgBouncer, by state: active, \
           waiting",
    ),
    gauge(
        "pooler_wait_seconds",
        Unit::Seconds,
        &[],
        "Longest time that a client has been waiting for a connection",
    ),
    gauge(
        "pooler_connections",
        Unit::Count,
        &["state"],
        "Connections of PgBouncer to the database, by state: active, idle, other",
    ),
    gauge(
        "pooler_connections_max",
        Unit::Count,
        &[],
        "Most connections that the pooler opens, as reported or as configured",
    ),
    gauge("redis_memory_bytes", Unit::Bytes, REDIS, "Memory used by Redis"),
    gauge(
        "redis_memory_max_bytes",
        Unit::Bytes,
        REDIS,
        "Memory limit of Redis (maxmemory); absent if there is none",
    ),
    gauge("redis_clients", Unit::Count, REDIS, "Client connections to Redis"),
    counter("redis_operations", REDIS, "Commands executed by Redis"),
    gauge(
        "redis_operation_seconds",
        Unit::Seconds,
        REDIS,
        "Average duration of a command between the last two samples",
    ),
    counter("redis_evicted_keys", REDIS, "Keys evicted by Redis because memory was short"),
    gauge("redis_fork_seconds", Unit::Seconds, REDIS, "Duration of the last fork of Redis"),
    gauge(
        "redis_persisting",
        Unit::Yes,
        REDIS,
        "1 if the last snapshot and the last write to the append-only file of Redis succeeded",
    ),
    gauge("machine_cores", Unit::Count, &[], "Cores of the machine that Weir runs on"),
    gauge("machine_cores_idle", Unit::Count, &[], "Idle cores of that machine"),
    gauge("machine_memory_bytes", Unit::Bytes, &[], "Memory of that machine"),
    gauge("machine_memory_available_bytes", Unit::Bytes, &[], "Available memory of that machine"),
    gauge("findings", Unit::Count, &["severity"], "Findings of doctor, by severity"),
    gauge("rule_findings", Unit::Count, &["rule", "severity"], "Findings of doctor, by rule"),
    gauge(
        "look_timestamp_seconds",
        Unit::Seconds,
        &[],
        "Time of the last sample, in seconds since the epoch",
    ),
    gauge("look_seconds", Unit::Seconds, &[], "Duration of the last sample of all sources"),
    gauge("source_up", Unit::Yes, SOURCE, "1 if the last sample of the source succeeded"),
    counter("source_looks", SOURCE, "Samples of the source"),
    counter("source_failures", SOURCE, "Samples of the source that failed"),
    counter("source_questions", SOURCE, "Commands or queries sent to the source"),
    gauge(
        "source_look_seconds",
        Unit::Seconds,
        SOURCE,
        "Duration of the last sample of the \
           source",
    ),
    gauge(
        "left_out",
        Unit::Count,
        &["limit"],
        "Names without their own series, by the limit (of observe.limits) that they exceed",
    ),
];
