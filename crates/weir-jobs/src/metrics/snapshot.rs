//! Depths, set sizes, totals and storage for a scrape. The thread that owns the state publishes
//! them once a second, so that a scrape never waits for it.

use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use weir_base::drain::DrainForecast;

use super::{OTHER_QUEUES, node_states, shard_states};
use crate::lanes::{BlockedJobs, LaneCounts};
use crate::node::NodeState;
use crate::resources::ResourceCounts;
use crate::store::shard_state::ShardState;

/// The state of the server at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricsSnapshot {
    pub queues: Vec<QueueSnapshot>,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
    pub working: u64,
    pub pushed_total: u64,
    pub processed_total: u64,
    pub failed_total: u64,
    pub connections: u64,
    pub workers: u64,
    pub fetches_waiting: u64,
    pub unique_locks: u64,
    pub tracked: u64,
    pub batches: u64,
    pub batches_waiting: u64,
    pub batch_bytes: u64,
    pub buffered_bytes: u64,
    pub running_tasks: u64,
    pub log_segments: u64,
    pub log_bytes: u64,
    pub log_damages: u64,
    pub shards: Vec<ShardState>,
    pub nodes: Vec<NodeState>,
    pub resources: Vec<ResourceCounts>,
    /// Seconds until limits of jobs at once apply in full; 0: they do.
    pub limits_lowered_seconds: u64,
}

/// The state of one queue at that time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSnapshot {
    pub name: String,
    pub depth: u64,
    pub latency_seconds: f64,
    pub drain: DrainForecast,
    /// The limit of jobs at once that is in force.
    pub concurrency: Option<u32>,
    pub working: u64,
    pub pushed_total: u64,
    pub processed_total: u64,
    pub failed_total: u64,
    pub lanes: LaneCounts,
    pub blocked: BlockedJobs,
}

impl QueueSnapshot {
    /// Adds another queue: sums depths and totals, and takes the higher latency.
    fn merge(&mut self, other: &Self) {
        self.depth += other.depth;
        self.latency_seconds = self.latency_seconds.max(other.latency_seconds);
        // A sum of limits would say nothing.
        self.concurrency = None;
        // Those of several queues are not one.
        self.drain = DrainForecast::default();
        self.working += other.working;
        self.pushed_total += other.pushed_total;
        self.processed_total += other.processed_total;
        self.failed_total += other.failed_total;
        self.lanes.tenants += other.lanes.tenants;
        self.lanes.shared += other.lanes.shared;
        self.lanes.sleeping += other.lanes.sleeping;
        self.lanes.full += other.lanes.full;
        self.blocked += other.blocked;
    }
}

/// Encodes the latest snapshot.
#[derive(Debug)]
pub(super) struct SnapshotCollector {
    pub(super) latest: Arc<Mutex<MetricsSnapshot>>,
    pub(super) queue_labels_max: usize,
}

impl Collector for SnapshotCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut snapshot = self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        limit_queues(&mut snapshot.queues, self.queue_labels_max);
        encode_server(&mut encoder, &snapshot)?;
        encode_queues(&mut encoder, &snapshot.queues)?;
        encode_resources(&mut encoder, &snapshot.resources)?;
        shard_states::encode(&mut encoder, &snapshot.shards)?;
        node_states::encode(&mut encoder, &snapshot.nodes)
    }
}

/// Retains the first `max` queues and sums up the others as `other`.
fn limit_queues(queues: &mut Vec<QueueSnapshot>, max: usize) {
    if queues.len() <= max {
        return;
    }
    let mut other = QueueSnapshot { name: OTHER_QUEUES.to_owned(), ..QueueSnapshot::default() };
    for queue in queues.drain(max..) {
        other.merge(&queue);
    }
    match queues.iter_mut().find(|queue| queue.name == OTHER_QUEUES) {
        Some(other_queue) => other_queue.merge(&other),
        None => queues.push(other),
    }
}

fn encode_server(
    encoder: &mut DescriptorEncoder<'_>,
    snapshot: &MetricsSnapshot,
) -> Result<(), Error> {
    let gauges = [
        ("connections", "Open client connections", snapshot.connections),
        ("workers", "Worker processes that send heartbeats", snapshot.workers),
        ("fetches_waiting", "FETCH commands waiting for a job", snapshot.fetches_waiting),
        ("unique_locks", "Unique jobs that hold a lock", snapshot.unique_locks),
        ("tracked", "Jobs whose progress TRACK knows", snapshot.tracked),
        ("batches", "Batches of jobs", snapshot.batches),
        (
            "batches_waiting",
            "Batches whose jobs that are left have all failed, and wait for a retry or an operator",
            snapshot.batches_waiting,
        ),
        (
            "batch_bytes",
            "Bytes of the descriptions and callbacks of all batches",
            snapshot.batch_bytes,
        ),
        (
            "buffered_bytes",
            "Bytes of incomplete commands and unsent replies",
            snapshot.buffered_bytes,
        ),
        (
            "limits_lowered_seconds",
            "Seconds for which limits of jobs at once are a quarter lower, because the job store was not closed; 0: they apply in full",
            snapshot.limits_lowered_seconds,
        ),
        ("running_tasks", "Actions on all matching jobs that run", snapshot.running_tasks),
        ("log_segments", "Segments of the log", snapshot.log_segments),
        ("log_bytes", "Bytes of the log on disk", snapshot.log_bytes),
        (
            "log_damages",
            "Damaged places in the log that no operator has acknowledged",
            snapshot.log_damages,
        ),
    ];
    for (name, help, value) in gauges {
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(gauge)?;
    }
    let counters = [
        (
            "pushed",
            "Jobs stored, including those of a batch that was rejected later",
            snapshot.pushed_total,
        ),
        ("processed", "Jobs that finished, including failed ones", snapshot.processed_total),
        ("failed", "Jobs reported as failed", snapshot.failed_total),
    ];
    for (name, help, value) in counters {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(counter)?;
    }
    let mut sets =
        encoder.encode_descriptor("set_size", "Jobs in a set", None, MetricType::Gauge)?;
    let sizes = [
        ("scheduled", snapshot.scheduled),
        ("retries", snapshot.retries),
        ("dead", snapshot.dead),
        ("working", snapshot.working),
    ];
    for (set, size) in sizes {
        ConstGauge::new(size).encode(sets.encode_family(&[("set", set)])?)?;
    }
    Ok(())
}

fn encode_queues(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[QueueSnapshot],
) -> Result<(), Error> {
    type Value = fn(&QueueSnapshot) -> u64;
    let gauges: [(&str, &str, Value); 10] = [
        ("queue_depth", "Jobs waiting in the queue", |queue| queue.depth),
        ("queue_working", "Jobs of the queue that are reserved", |queue| queue.working),
        (
            "queue_blocked",
            "Jobs waiting in the queue because of a limit of jobs at once, a rate or a shared resource",
            |queue| queue.blocked.total(),
        ),
        (
            "queue_concurrency_blocked",
            "Jobs waiting in the queue because as many of the queue or of their tenant are in progress as may be",
            |queue| queue.blocked.concurrency,
        ),
        ("queue_rate_blocked", "Jobs waiting in the queue because of a rate", |queue| {
            queue.blocked.rate
        }),
        (
            "queue_resource_blocked",
            "Jobs waiting in the queue because a shared resource has no room",
            |queue| queue.blocked.resource,
        ),
        (
            "queue_sleeping_lanes",
            "Tenants of the queue with jobs that wait because of a rate",
            |queue| queue.lanes.sleeping,
        ),
        (
            "queue_full_lanes",
            "Tenants of the queue with jobs that wait because as many of the tenant are in progress as may be",
            |queue| queue.lanes.full,
        ),
        (
            "queue_tenant_lanes",
            "Tenants of the queue that have a lane of their own (fair_by)",
            |queue| queue.lanes.tenants,
        ),
        (
            "queue_shared_lanes",
            "Lanes that tenants of the queue share, because there are more than tenants_max",
            |queue| queue.lanes.shared,
        ),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for queue in queues {
            let label = [("queue", queue.name.as_str())];
            ConstGauge::new(value(queue)).encode(family.encode_family(&label)?)?;
        }
    }
    encode_queue_totals(encoder, queues)?;
    encode_queue_figures(encoder, queues)
}

fn encode_queue_totals(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[QueueSnapshot],
) -> Result<(), Error> {
    type Value = fn(&QueueSnapshot) -> u64;
    let counters: [(&str, &str, Value); 3] = [
        ("queue_pushed", "Jobs that entered the queue", |queue| queue.pushed_total),
        ("queue_processed", "Jobs of the queue that finished, including failed ones", |queue| {
            queue.processed_total
        }),
        ("queue_failed", "Jobs of the queue that were reported as failed", |queue| {
            queue.failed_total
        }),
    ];
    for (name, help, value) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for queue in queues {
            let label = [("queue", queue.name.as_str())];
            ConstCounter::new(value(queue)).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}

/// Encodes what not every queue has, or what is no whole number.
fn encode_queue_figures(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[QueueSnapshot],
) -> Result<(), Error> {
    let help = "Age of the next job of the queue";
    let mut family =
        encoder.encode_descriptor("queue_latency_seconds", help, None, MetricType::Gauge)?;
    for queue in queues {
        let label = [("queue", queue.name.as_str())];
        ConstGauge::new(queue.latency_seconds).encode(family.encode_family(&label)?)?;
    }
    let help = "Jobs of the queue that may be in progress at once";
    let mut family =
        encoder.encode_descriptor("queue_concurrency", help, None, MetricType::Gauge)?;
    for queue in queues {
        let Some(most) = queue.concurrency else { continue };
        let label = [("queue", queue.name.as_str())];
        ConstGauge::new(u64::from(most)).encode(family.encode_family(&label)?)?;
    }
    encode_drain(encoder, queues)
}

fn encode_drain(
    encoder: &mut DescriptorEncoder<'_>,
    queues: &[QueueSnapshot],
) -> Result<(), Error> {
    type Value = fn(&DrainForecast) -> Option<f64>;
    let gauges: [(&str, &str, Value); 3] = [
        (
            "queue_drain_seconds",
            "Time to drain the queue at the present rates; absent while it does not shrink or there is not enough data",
            DrainForecast::expected_seconds,
        ),
        (
            "queue_drain_shortest_seconds",
            "Start of the range that contains the time to drain the queue in about 9 of 10 cases",
            |drain| drain.range().map(|range| range.shortest_seconds),
        ),
        (
            "queue_drain_longest_seconds",
            "End of the range that contains the time to drain the queue in about 9 of 10 cases",
            |drain| drain.range().map(|range| range.longest_seconds),
        ),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for queue in queues {
            let Some(seconds) = value(&queue.drain) else { continue };
            let label = [("queue", queue.name.as_str())];
            ConstGauge::new(seconds).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}

fn encode_resources(
    encoder: &mut DescriptorEncoder<'_>,
    resources: &[ResourceCounts],
) -> Result<(), Error> {
    type Value = fn(&ResourceCounts) -> Option<u64>;
    let gauges: [(&str, &str, Value); 3] = [
        ("resource_working", "Jobs in progress that use the shared resource", |resource| {
            Some(resource.used)
        }),
        ("resource_concurrency", "Jobs that may use the shared resource at once", |resource| {
            resource.concurrency.map(u64::from)
        }),
        ("resource_blocked", "Jobs waiting because the shared resource has no room", |resource| {
            Some(resource.blocked)
        }),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for resource in resources {
            let Some(value) = value(resource) else { continue };
            let label = [("resource", resource.name.as_str())];
            ConstGauge::new(value).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}
