//! Every metric that an observation gives, with its meaning.

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Behind [`PREFIX`]; a counter's ends with `_total` where it is read.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it only rises.
    pub kind: Kind,
    /// What it is measured in.
    pub unit: Unit,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Of each Sidekiq: where there are several Redis servers, it has a label [`SHARD`] as well.
    pub of_each_sidekiq: bool,
}

/// What all names begin with.
pub const PREFIX: &str = "weir_observe_";
/// The label that parts one Sidekiq from another, as it parts their Redis servers.
pub const SHARD: &str = "redis";

/// Whether it only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only rises.
    Counter,
}

/// What it is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Things per second.
    PerSecond,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// From 0 to 1.
    Share,
    /// 0 or 1.
    Yes,
}

impl Metric {
    /// As Prometheus stores it.
    #[must_use]
    pub fn series(&self) -> String {
        let suffix = match self.kind {
            Kind::Gauge => "",
            Kind::Counter => "_total",
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
    Metric { name, help, kind: Kind::Gauge, unit, labels, of_each_sidekiq: false }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, help, kind: Kind::Counter, unit: Unit::Count, labels, of_each_sidekiq: false }
}

const fn of_sidekiq(metric: Metric) -> Metric {
    Metric { of_each_sidekiq: true, ..metric }
}

const QUEUE: &[&str] = &["queue"];
const REDIS: &[&str] = &[SHARD];
const SOURCE: &[&str] = &["source", "name"];

/// All of them, in the order in which they are told.
pub static METRICS: [Metric; 50] = [
    of_sidekiq(gauge("queue_size", Unit::Count, QUEUE, "Jobs that wait")),
    of_sidekiq(gauge("queue_in_hand", Unit::Count, QUEUE, "Jobs that threads have in hand")),
    of_sidekiq(gauge(
        "queue_latency_seconds",
        Unit::Seconds,
        QUEUE,
        "How long the oldest job has waited",
    )),
    of_sidekiq(gauge(
        "queue_drain_seconds",
        Unit::Seconds,
        QUEUE,
        "Until the queue is empty, as things go on; infinite while it grows, none while it stands",
    )),
    of_sidekiq(gauge("queue_arriving_per_second", Unit::PerSecond, QUEUE, "Jobs that come")),
    of_sidekiq(gauge(
        "queue_served_per_second",
        Unit::PerSecond,
        QUEUE,
        "Jobs that are worked off",
    )),
    of_sidekiq(gauge("queue_served_by", Unit::Count, QUEUE, "Processes that take its jobs")),
    of_sidekiq(gauge(
        "drain_seconds",
        Unit::Seconds,
        &[],
        "Until all queues are empty; infinite while they grow or nobody serves one, none while they stand",
    )),
    of_sidekiq(gauge(
        "set_size",
        Unit::Count,
        &["set"],
        "Jobs of the scheduled, retry and dead sets",
    )),
    of_sidekiq(gauge("set_overdue", Unit::Count, &["set"], "Of those, jobs whose time has come")),
    of_sidekiq(counter(
        "jobs_processed",
        &[],
        "Jobs finished, failed ones included, as Sidekiq counts",
    )),
    of_sidekiq(counter("jobs_failed", &[], "Jobs failed, as Sidekiq counts")),
    of_sidekiq(gauge(
        "processes",
        Unit::Count,
        &["state"],
        "Sidekiq's processes: serving, quiet, ghost",
    )),
    of_sidekiq(gauge("threads", Unit::Count, &[], "Threads of the processes that take jobs")),
    of_sidekiq(gauge("threads_busy", Unit::Count, &[], "Threads with a job in hand")),
    gauge("connections", Unit::Count, &["service", "state"], "Connections to the database"),
    gauge(
        "connection_state_seconds",
        Unit::Seconds,
        &["service", "state"],
        "How long the oldest connection has been in that state",
    ),
    gauge("connections_max", Unit::Count, &[], "The database's ceiling (max_connections)"),
    gauge("connections_reserved", Unit::Count, &[], "Of those, kept for superusers"),
    gauge("cache_hit_ratio", Unit::Share, &[], "Blocks found in shared buffers, lately"),
    gauge("lock_waits", Unit::Count, &[], "Sessions that wait for others' locks"),
    gauge("lock_wait_seconds", Unit::Seconds, &[], "How long the longest of them has waited"),
    gauge("session_waits", Unit::Count, &["kind"], "Busy sessions, by what they wait for"),
    gauge(
        "replication_slot_bytes",
        Unit::Bytes,
        &[],
        "WAL that Postgres keeps for the replication slot that holds back most; 0: there is none",
    ),
    gauge("pooler_clients", Unit::Count, &["state"], "Clients of PgBouncer: active, waiting"),
    gauge(
        "pooler_wait_seconds",
        Unit::Seconds,
        &[],
        "How long the first of those that wait has waited for a connection",
    ),
    gauge(
        "pooler_connections",
        Unit::Count,
        &["state"],
        "Connections of PgBouncer to the database: active, idle, other",
    ),
    gauge(
        "pooler_connections_max",
        Unit::Count,
        &[],
        "Connections that a pooler opens at most, as it says or as was given",
    ),
    gauge("redis_memory_bytes", Unit::Bytes, REDIS, "Memory that Redis uses"),
    gauge(
        "redis_memory_max_bytes",
        Unit::Bytes,
        REDIS,
        "Its limit (maxmemory); none: there is none",
    ),
    gauge("redis_clients", Unit::Count, REDIS, "Connections to it"),
    counter("redis_operations", REDIS, "Commands that it has executed"),
    gauge(
        "redis_operation_seconds",
        Unit::Seconds,
        REDIS,
        "How long one command takes on average, lately",
    ),
    counter("redis_evicted_keys", REDIS, "Keys that it has thrown away for want of memory"),
    gauge("redis_fork_seconds", Unit::Seconds, REDIS, "How long its last fork took"),
    gauge(
        "redis_persisting",
        Unit::Yes,
        REDIS,
        "1 while its last snapshot and its last write to a file were fine",
    ),
    gauge("machine_cores", Unit::Count, &[], "Cores of the machine that Weir runs on"),
    gauge("machine_cores_idle", Unit::Count, &[], "Of those, idle"),
    gauge("machine_memory_bytes", Unit::Bytes, &[], "Its memory"),
    gauge("machine_memory_available_bytes", Unit::Bytes, &[], "Of that, available"),
    gauge("findings", Unit::Count, &["severity"], "What doctor finds, by severity"),
    gauge("rule_findings", Unit::Count, &["rule", "severity"], "The same, by rule"),
    gauge(
        "look_timestamp_seconds",
        Unit::Seconds,
        &[],
        "When the last look ended, since the epoch",
    ),
    gauge("look_seconds", Unit::Seconds, &[], "How long the last look at everything took"),
    gauge("source_up", Unit::Yes, SOURCE, "1 while the source was seen at the last look"),
    counter("source_looks", SOURCE, "Looks at it"),
    counter("source_failures", SOURCE, "Looks at it that have failed"),
    counter("source_questions", SOURCE, "Commands or questions that it was sent"),
    gauge("source_look_seconds", Unit::Seconds, SOURCE, "How long the last look took"),
    gauge(
        "left_out",
        Unit::Count,
        &["limit"],
        "Names without series of their own, by the setting of observe.limits that says how many have some",
    ),
];
