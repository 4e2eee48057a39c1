//! A Sidekiq, its Redis and its Postgres that Weir observes: the newest snapshot with its findings.
//!
//! The binary implements [`ObservedSnapshots`]: the console does not know how sources are polled.

pub(crate) mod queue_charts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use weir_advisor::ObservedSnapshot;
use weir_advisor::Severity;
use weir_advisor::observation::{
    DatabaseObservation, RedisServer, SessionState, SidekiqObservation,
};
use weir_base::clock::Clock;
use weir_base::history::{self, MetricsHistory};

use crate::figures::as_float;
use crate::jobs::Histories;
use crate::queue_histories::QueueHistories;

/// Provides the newest snapshot.
pub trait ObservedSnapshots: fmt::Debug + Send + Sync {
    /// None: there is none yet.
    fn latest(&self) -> Option<Arc<ObservedSnapshot>>;
}

/// The source of observed systems. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ObservedSource {
    snapshots: Arc<dyn ObservedSnapshots>,
    /// Behind its charts.
    pub(crate) history: Arc<MetricsHistory>,
    /// The histories of single queues.
    pub(crate) queue_histories: Arc<QueueHistories>,
    readings: Arc<AtomicU64>,
}

/// Samples per row of a queue: two rows per point of a chart, as for the job server's queues.
const READINGS_PER_DETAIL: u64 = 5;

/// The observed state at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedSample {
    /// None: there is no snapshot yet.
    pub(crate) latest: Option<Arc<ObservedSnapshot>>,
}

impl ObservedSample {
    /// Returns the number of findings that need action. None: there is no snapshot yet.
    pub(crate) fn findings(&self) -> Option<u64> {
        let findings = &self.latest.as_ref()?.advice.findings;
        let wrong = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
        Some(wrong.count() as u64)
    }
}

/// The series of its history.
const COLUMNS: [&str; 29] = [
    "waiting",
    "latency_seconds",
    "arriving_per_second",
    "served_per_second",
    "in_hand",
    "threads",
    "threads_needed",
    "retries",
    "dead",
    "scheduled",
    "critical_findings",
    "warning_findings",
    "connections",
    "connections_active",
    "connections_idle",
    "connections_idle_in_transaction",
    "connections_max",
    "cache_hit_percent",
    "lock_waits",
    "lock_wait_seconds",
    "redis_memory_bytes",
    "redis_operations_per_second",
    "redis_operation_seconds",
    "redis_evicted_per_second",
    "redis_clients",
    "redis_fork_seconds",
    "processes",
    "cores_idle",
    "sources_away",
];

impl ObservedSource {
    /// Creates the source. `histories` is the configuration of the server's histories; these are in
    /// a subfolder, and the one of the whole system keeps `minutes_kept`.
    #[must_use]
    pub fn new(
        snapshots: Arc<dyn ObservedSnapshots>,
        histories: Histories<'_>,
        minutes_kept: Duration,
    ) -> Self {
        let Histories { settings: server_settings, queues_max, metrics } = histories;
        let directory = server_settings.directory.join("observed");
        let settings =
            history::HistorySettings { directory, minutes_kept, ..server_settings.clone() };
        let queue_histories =
            QueueHistories::new(&settings, &queue_charts::COLUMNS, queues_max, metrics.clone());
        Self {
            snapshots,
            history: Arc::new(MetricsHistory::open(&settings, &COLUMNS)),
            queue_histories: Arc::new(queue_histories),
            readings: Arc::default(),
        }
    }

    pub(crate) fn read(&self) -> ObservedSample {
        ObservedSample { latest: self.snapshots.latest() }
    }

    /// Takes the sampler's snapshot and records it on a thread that may block on the disk.
    pub(crate) async fn sample(&self, clock: &Clock) -> ObservedSample {
        let (at, reading) = (clock.now(), self.read());
        if let Some(snapshot) = reading.latest.clone() {
            let (history, queues) = (Arc::clone(&self.history), Arc::clone(&self.queue_histories));
            let in_detail =
                self.readings.fetch_add(1, Ordering::Relaxed).is_multiple_of(READINGS_PER_DETAIL);
            let recorded = tokio::task::spawn_blocking(move || {
                history.append(at, &row(&snapshot));
                if in_detail {
                    queue_charts::record(&queues, at, &snapshot.observation);
                }
            });
            let recorded = recorded.await;
            if let Err(error) = recorded {
                tracing::error!(%error, "console: a row of what is observed is lost");
            }
        }
        reading
    }
}

/// Returns the values of [`COLUMNS`]; NaN: unknown.
fn row(snapshot: &ObservedSnapshot) -> [f64; COLUMNS.len()] {
    let ObservedSnapshot { observation, advice, sources, .. } = snapshot;
    let found = |severity| {
        as_float(
            advice.findings.iter().filter(|finding| finding.severity == severity).count() as u64
        )
    };
    let unreachable = sources.iter().filter(|source| source.problem.is_some()).count() as u64;
    let machine = observation.machine.known();
    let mut row = [f64::NAN; COLUMNS.len()];
    let mut set = |name: &str, value: f64| row[column_index(name)] = value;
    set("critical_findings", found(Severity::Critical));
    set("warning_findings", found(Severity::Warning));
    set("sources_away", as_float(unreachable));
    set("cores_idle", machine.map_or(f64::NAN, |machine| machine.cores_idle));
    if let Some(jobs) = observation.jobs.known() {
        set_jobs(&mut set, jobs);
    }
    if let Some(postgres) = observation.postgres.known() {
        set_postgres(&mut set, postgres);
    }
    let servers: Option<Vec<&RedisServer>> =
        observation.redis.iter().map(|server| server.known()).collect();
    if let Some(servers) = servers.filter(|servers| !servers.is_empty()) {
        set_redis(&mut set, &servers);
    }
    row
}

fn column_index(name: &str) -> usize {
    COLUMNS.iter().position(|column| *column == name).expect("one of the columns")
}

fn set_jobs(set: &mut impl FnMut(&str, f64), jobs: &SidekiqObservation) {
    let rates = jobs.pace();
    set("waiting", as_float(jobs.backlog()));
    set("latency_seconds", jobs.latency_max().as_secs_f64());
    set("arriving_per_second", rates.map_or(f64::NAN, |(arrivals, _)| arrivals));
    set("served_per_second", rates.map_or(f64::NAN, |(_, completions)| completions));
    set("in_hand", as_float(jobs.busy()));
    set("threads", f64::from(jobs.threads()));
    let needed = weir_advisor::plan::demands(jobs, &[]).queues;
    let needed =
        needed.iter().map(|demand| demand.arrivals_per_second * demand.service_seconds).sum();
    set("threads_needed", needed);
    set("retries", as_float(jobs.retries.size));
    set("dead", as_float(jobs.dead.size));
    set("scheduled", as_float(jobs.scheduled.size));
    set("processes", as_float(jobs.processes.len() as u64));
}

fn set_postgres(set: &mut impl FnMut(&str, f64), postgres: &DatabaseObservation) {
    if let Some(connections) = postgres.connections.known() {
        let count = |state| f64::from(connections.in_state(state));
        set("connections", f64::from(connections.open()));
        set("connections_active", count(SessionState::Active));
        set("connections_idle", count(SessionState::Idle));
        set("connections_idle_in_transaction", count(SessionState::IdleInTransaction));
    }
    let settings = postgres.settings.known();
    set(
        "connections_max",
        settings.map_or(f64::NAN, |settings| f64::from(settings.max_connections)),
    );
    let ratio = postgres.cache_hit_ratio.known();
    set("cache_hit_percent", ratio.map_or(f64::NAN, |ratio| ratio * 100.0));
    if let Some(waits) = postgres.lock_waits.known() {
        set("lock_waits", as_float(waits.len() as u64));
        let longest = waits.iter().map(|wait| wait.waited).max().unwrap_or_default();
        set("lock_wait_seconds", longest.as_secs_f64());
    }
}

/// Combines all shards; durations are the longest.
fn set_redis(set: &mut impl FnMut(&str, f64), servers: &[&RedisServer]) {
    let sum = |of: fn(&RedisServer) -> u64| as_float(servers.iter().map(|server| of(server)).sum());
    set("redis_memory_bytes", sum(|server| server.info.used_memory_bytes));
    set("redis_clients", sum(|server| server.info.clients));
    let fork = servers.iter().map(|server| server.info.latest_fork).max().unwrap_or_default();
    set("redis_fork_seconds", fork.as_secs_f64());
    let recent: Option<Vec<_>> = servers.iter().map(|server| server.lately.known()).collect();
    let Some(recent) = recent else { return };
    set("redis_operations_per_second", recent.iter().map(|operations| operations.per_second).sum());
    set(
        "redis_evicted_per_second",
        recent.iter().map(|operations| operations.evicted_per_second).sum(),
    );
    let longest = recent.iter().filter_map(|operations| operations.mean()).max();
    set("redis_operation_seconds", longest.map_or(f64::NAN, |mean| mean.as_secs_f64()));
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Fact, ObservedQueue, RedisInfo};
    use weir_advisor::{Observation, advise};
    use weir_base::clock::Timestamp;

    use super::*;

    fn snapshot(observation: Observation) -> ObservedSnapshot {
        let advice = advise(&observation);
        let (at, took) = (Timestamp::from_millis(7_000), Duration::from_millis(3));
        ObservedSnapshot { at, took, observation, advice, sources: Vec::new() }
    }

    #[test]
    fn unknown_values_are_gaps_and_not_zero() {
        let row = row(&snapshot(Observation::default()));
        assert!(row[column_index("waiting")].is_nan() && row[column_index("connections")].is_nan());
        assert_eq!(row[column_index("critical_findings")], 0.0);
    }

    #[test]
    fn each_value_is_in_its_column() {
        let queue = ObservedQueue {
            length: 7,
            latency: Duration::from_secs(9),
            ..ObservedQueue::default()
        };
        let jobs = SidekiqObservation { queues: vec![queue], ..SidekiqObservation::default() };
        let info = RedisInfo { used_memory_bytes: 5, ..RedisInfo::default() };
        let server = RedisServer { info, ..RedisServer::default() };
        let observation = Observation {
            jobs: Fact::Known(jobs),
            redis: vec![Fact::Known(server.clone()), Fact::Known(server)],
            ..Observation::default()
        };
        let row = row(&snapshot(observation));
        assert_eq!(
            (row[column_index("waiting")], row[column_index("latency_seconds")]),
            (7.0, 9.0)
        );
        assert_eq!(row[column_index("redis_memory_bytes")], 10.0);
        assert!(row[column_index("arriving_per_second")].is_nan(), "there is only one sample");
    }
}
