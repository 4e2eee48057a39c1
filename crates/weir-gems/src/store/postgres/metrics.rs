//! Metrics of the connections to Postgres, named `weir_gems_postgres_*`.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Buckets from 0.1 ms to 5 s.
const SECONDS: [f64; 9] = [0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// A limit of `[gems.postgres.limits]` that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Waiting,
    Acquire,
    Connect,
    Query,
    Text,
    Write,
    Maintenance,
}

/// Outcome of a commit whose reply was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    NotDone,
    Unknown,
}

impl Limit {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting_max",
            Self::Acquire => "acquire_timeout",
            Self::Connect => "connect_timeout",
            Self::Query => "query_timeout",
            Self::Text => "text_timeout",
            Self::Write => "write_timeout",
            Self::Maintenance => "maintenance_timeout",
        }
    }

    /// Returns the name of the setting with its section.
    pub(super) const fn setting(self) -> &'static str {
        match self {
            Self::Waiting => "gems.postgres.limits.waiting_max",
            Self::Acquire => "gems.postgres.limits.acquire_timeout",
            Self::Connect => "gems.postgres.limits.connect_timeout",
            Self::Query => "gems.postgres.limits.query_timeout",
            Self::Text => "gems.postgres.limits.text_timeout",
            Self::Write => "gems.postgres.limits.write_timeout",
            Self::Maintenance => "gems.postgres.limits.maintenance_timeout",
        }
    }
}

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct PostgresMetrics {
    pub(super) connections: Gauge,
    pub(super) in_use: Gauge,
    pub(super) waiting: Gauge,
    pub(super) connects: Counter,
    pub(super) connect_failures: Counter,
    acquire: Histogram,
    limits: Family<LimitLabel, Counter>,
    unknown: Family<OutcomeLabel, Counter>,
}

impl Default for PostgresMetrics {
    fn default() -> Self {
        Self {
            connections: Gauge::default(),
            in_use: Gauge::default(),
            waiting: Gauge::default(),
            connects: Counter::default(),
            connect_failures: Counter::default(),
            acquire: Histogram::new(SECONDS),
            limits: Family::default(),
            unknown: Family::default(),
        }
    }
}

impl PostgresMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("weir_gems_postgres");
        for (name, help, gauge) in [
            ("connections", "Connections to Postgres that are open", &metrics.connections),
            ("connections_in_use", "Those of them that somebody uses", &metrics.in_use),
            ("waiting", "Requests that wait for a connection", &metrics.waiting),
        ] {
            registry.register(name, help, gauge.clone());
        }
        registry.register("connects", "Connections made", metrics.connects.clone());
        registry.register(
            "connect_failures",
            "Connections that could not be made",
            metrics.connect_failures.clone(),
        );
        registry.register(
            "acquire_seconds",
            "How long a request waited for a connection",
            metrics.acquire.clone(),
        );
        use Limit::{Acquire, Connect, Maintenance, Query, Text, Waiting, Write};
        for limit in [Waiting, Acquire, Connect, Query, Text, Write, Maintenance] {
            drop(metrics.limits.get_or_create(&LimitLabel { limit: limit.name() }));
        }
        registry.register(
            "limit_hits",
            "Requests that ran into a limit of [gems.postgres.limits]",
            metrics.limits.clone(),
        );
        for outcome in [Outcome::Done, Outcome::NotDone, Outcome::Unknown] {
            drop(metrics.unknown.get_or_create(&label(outcome)));
        }
        registry.register(
            "commits_unanswered",
            "Commits whose answer was lost, by what became of them",
            metrics.unknown.clone(),
        );
        metrics
    }

    pub(super) fn acquired(&self, took: Duration) {
        self.acquire.observe(took.as_secs_f64());
    }

    pub(super) fn limit_hit(&self, limit: Limit) {
        self.limits.get_or_create(&LimitLabel { limit: limit.name() }).inc();
    }

    pub(super) fn unanswered(&self, outcome: Outcome) {
        self.unknown.get_or_create(&label(outcome)).inc();
    }
}

const fn label(outcome: Outcome) -> OutcomeLabel {
    OutcomeLabel {
        outcome: match outcome {
            Outcome::Done => "done",
            Outcome::NotDone => "not_done",
            Outcome::Unknown => "unknown",
        },
    }
}

/// Counts in a gauge until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn by(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
