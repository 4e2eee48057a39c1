//! What a store measures of itself, by shard: its operations, and the server behind it if there is
//! one.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weir_base::clock::Timestamp;

use super::latency::{LatencyCounts, LatencyHistogram, add};
use super::operation::{CommandKind, StoreOperation};

/// Operations of the embedded store of which one is timed. Two reads of the clock cost 1 % of a
/// FETCH or an ACK there.
pub(crate) const EMBEDDED_TIMED_OF: u64 = 8;
/// The shard of the embedded store.
pub(crate) const EMBEDDED_SHARD: &str = "embedded";

/// Figures are compared with those that are so old.
const RECENT: Duration = Duration::from_secs(60);
/// The interval of the figures that are kept for that.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

const OPERATIONS: usize = StoreOperation::ALL.len();

/// The measurements of one shard of a store. Cheap to clone, `Send`. Only the thread that owns the
/// store records.
#[derive(Clone, Debug)]
pub struct StoreMetrics(Arc<ShardMeasurements>);

#[derive(Debug)]
struct ShardMeasurements {
    shard: Box<str>,
    /// One of this many operations is timed.
    timed_of: u64,
    totals: [AtomicU64; OPERATIONS],
    latencies: [LatencyHistogram; OPERATIONS],
    malformed: AtomicU64,
    server: Mutex<Option<StoreServerFigures>>,
    /// By address, if the server is a cluster.
    nodes: Mutex<Vec<(String, StoreServerFigures)>>,
    samples: Mutex<VecDeque<StoreSample>>,
}

/// The measurements at one time.
#[derive(Clone, Debug)]
pub(super) struct StoreSample {
    pub(super) at: Timestamp,
    pub(super) totals: [u64; OPERATIONS],
    pub(super) latencies: [LatencyCounts; OPERATIONS],
    pub(super) malformed: u64,
    pub(super) server: Option<StoreServerFigures>,
}

/// What the server behind a store reports of itself, all its clients included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreServerFigures {
    /// When this was read.
    pub at: Timestamp,
    pub memory_bytes: u64,
    /// 0: no limit.
    pub memory_bytes_max: u64,
    /// CPU time since its start.
    pub cpu_seconds: f64,
    /// Jobs that have ended, on all nodes and in Sidekiq.
    pub processed_total: u64,
    /// By name, since its start.
    pub commands: Vec<CommandFigures>,
}

/// One command of that server since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFigures {
    pub name: String,
    pub kind: CommandKind,
    pub calls: u64,
    pub took: Duration,
}

/// When an operation began, if it is timed.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct StoreTimer(Option<Instant>);

impl StoreMetrics {
    pub(super) fn new(shard: &str, timed_of: u64) -> Self {
        Self(Arc::new(ShardMeasurements {
            shard: shard.into(),
            timed_of: timed_of.max(1),
            totals: Default::default(),
            latencies: Default::default(),
            malformed: AtomicU64::default(),
            server: Mutex::default(),
            nodes: Mutex::default(),
            samples: Mutex::default(),
        }))
    }

    pub(super) fn shard(&self) -> &str {
        &self.0.shard
    }

    /// Counts an operation that begins.
    pub fn begin(&self, operation: StoreOperation) -> StoreTimer {
        let total = &self.0.totals[operation as usize];
        let is_timed = total.load(Relaxed).is_multiple_of(self.0.timed_of);
        add(total, 1);
        StoreTimer(is_timed.then(Instant::now))
    }

    /// Records the duration of an operation, if it is timed.
    pub fn end(&self, operation: StoreOperation, timer: StoreTimer) {
        if let Some(began) = timer.0 {
            self.0.latencies[operation as usize].observe(began.elapsed());
        }
    }

    /// Counts `work` and records its duration, unless it is dropped before its end.
    pub async fn timed<T>(&self, operation: StoreOperation, work: impl Future<Output = T>) -> T {
        let timer = self.begin(operation);
        let output = work.await;
        self.end(operation, timer);
        output
    }

    /// Counts payloads that no worker could run.
    pub fn malformed(&self, payloads: u64) {
        add(&self.0.malformed, payloads);
    }

    /// Replaces what is known of the server behind the store. `None`: it does not say.
    pub fn publish_server(&self, figures: Option<StoreServerFigures>) {
        *lock(&self.0.server) = figures;
    }

    /// Replaces what is known of the nodes of a cluster, whose sums [`StoreMetrics::publish_server`] gets.
    pub fn publish_nodes(&self, nodes: Vec<(String, StoreServerFigures)>) {
        *lock(&self.0.nodes) = nodes;
    }

    /// Returns the servers behind the store, each with its label: the nodes of a cluster by address, or
    /// one server by the name of the shard.
    pub(super) fn servers(&self) -> Vec<(String, StoreServerFigures)> {
        let nodes = lock(&self.0.nodes).clone();
        if !nodes.is_empty() {
            return nodes;
        }
        let server = lock(&self.0.server).clone();
        server.into_iter().map(|server| (self.shard().to_owned(), server)).collect()
    }

    /// Keeps the present figures for comparison, if it is time. Called about once a second.
    pub(super) fn sample(&self, now: Timestamp) {
        let mut samples = lock(&self.0.samples);
        if samples.back().is_some_and(|last| now.since(last.at) < SAMPLE_INTERVAL) {
            return;
        }
        while samples.get(1).is_some_and(|second| now.since(second.at) >= RECENT) {
            samples.pop_front();
        }
        samples.push_back(self.read(now));
    }

    /// Returns the figures of about a minute ago, or the oldest since the start.
    pub(super) fn earlier(&self) -> Option<StoreSample> {
        lock(&self.0.samples).front().cloned()
    }

    pub(super) fn read(&self, now: Timestamp) -> StoreSample {
        StoreSample {
            at: now,
            totals: std::array::from_fn(|at| self.0.totals[at].load(Relaxed)),
            latencies: std::array::from_fn(|at| self.0.latencies[at].read()),
            malformed: self.0.malformed.load(Relaxed),
            server: lock(&self.0.server).clone(),
        }
    }
}

impl StoreServerFigures {
    /// Returns calls and duration of all commands of a kind.
    pub(super) fn of_kind(&self, kind: CommandKind) -> (u64, Duration) {
        let commands = self.commands.iter().filter(|command| command.kind == kind);
        commands.fold((0, Duration::ZERO), |(calls, took), command| {
            (calls.saturating_add(command.calls), took.saturating_add(command.took))
        })
    }
}

/// Ignores poisoning: the values are consistent between any two operations.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_eight_is_timed_and_all_are_counted() {
        let metrics = StoreMetrics::new("embedded", EMBEDDED_TIMED_OF);
        for _ in 0..17 {
            metrics.end(StoreOperation::Ack, metrics.begin(StoreOperation::Ack));
        }
        let sample = metrics.read(Timestamp::default());
        let at = StoreOperation::Ack as usize;
        assert_eq!((sample.totals[at], sample.latencies[at].count()), (17, 3));
        assert_eq!(sample.totals[StoreOperation::Push as usize], 0);
    }

    #[test]
    fn figures_are_compared_with_those_of_a_minute_ago() {
        let metrics = StoreMetrics::new("a", 1);
        for second in 0..300 {
            metrics.sample(Timestamp::from_millis(second * 1_000));
        }
        let earlier = metrics.earlier().unwrap().at.as_millis();
        assert_eq!(earlier, 230_000);
        assert!(lock(&metrics.0.samples).len() <= 8);
    }
}
