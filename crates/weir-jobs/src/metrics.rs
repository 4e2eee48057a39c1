//! All metrics of the job server, named `weir_jobs_*`.
//!
//! An event costs a few tens of nanoseconds (one uncontended lock or one atomic add). No label is
//! unbounded: queues beyond `limits.metrics_queues_max` and types of jobs beyond `limits.job_types_max` share the
//! label `other`; verbs and limits are fixed lists. Depths, set sizes and totals are published once a second as a
//! [`MetricsSnapshot`] and only encoded during a scrape.

mod cron_runs;
mod latency;
mod limit;
mod node_states;
mod operation;
mod shard_states;
mod shards;
mod snapshot;
mod stale;
mod store;
mod store_collector;
mod store_view;
mod tasks;
mod type_collector;
mod verb;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use weir_base::clock::Timestamp;

pub(crate) use cron_runs::CronRunResult;
pub use limit::JobServerLimit;
pub use operation::{CommandKind, StoreOperation};
use shards::Shards;
pub use snapshot::{MetricsSnapshot, QueueSnapshot};
pub use stale::StaleReport;
pub use store::{CommandFigures, StoreMetrics, StoreServerFigures, StoreTimer};
pub(crate) use store::{EMBEDDED_SHARD, EMBEDDED_TIMED_OF};
pub(crate) use tasks::Tasks;
pub use verb::{CommandResult, FaktoryVerb};

use crate::job_types::{JobTypes, TypeLimitHits, TypeLimits};
use crate::settings::JobServerLimits;
use crate::view::{LimitHit, StoreShardView};

/// The label shared by all queues beyond the limit.
pub const OTHER_QUEUES: &str = "other";

/// In seconds, from an immediate fetch to a delay of one day.
const JOB_BUCKETS: [f64; 16] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0,
    21_600.0, 86_400.0,
];

/// In seconds, from a fast NVMe drive to a stalled network disk.
const SYNC_BUCKETS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0,
];

/// The job server's metrics. Cheap to clone, `Send`.
#[derive(Clone, Debug)]
pub struct JobsMetrics(Arc<JobServerCounters>);

#[derive(Debug)]
struct JobServerCounters {
    wait_seconds: QueueHistograms,
    run_seconds: QueueHistograms,
    queue_labels: Mutex<HashSet<Box<str>>>,
    queue_labels_max: usize,
    sync_seconds: Histogram,
    limits: Box<[Counter]>,
    commands: [[Counter; CommandResult::ALL.len()]; FaktoryVerb::ALL.len()],
    snapshot: Arc<Mutex<MetricsSnapshot>>,
    shards: Shards,
    types: JobTypes,
    tasks: Tasks,
    stale_reports: stale::StaleReports,
    cron_runs: cron_runs::CronRuns,
    repeated_pushes: Counter,
    expired: Counter,
    not_unique: Counter,
    queue_full: Family<QueueCapLabel, Counter>,
}

type QueueHistograms = Family<QueueLabel, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

/// The caps that reject pushes.
const CAPS: [&str; 4] = ["jobs_max", "bytes_max", "tenant_jobs_max", "disk_max"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueCapLabel {
    queue: String,
    cap: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobServerLimitLabel {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CommandLabel {
    verb: &'static str,
    result: &'static str,
}

/// One queue's histograms. Cheap to clone, `Send`.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    /// Seconds from the push (or the due time) to the fetch.
    pub wait: Histogram,
    /// Seconds from the fetch to the ACK or FAIL.
    pub run: Histogram,
}

impl JobsMetrics {
    /// Creates the metrics and registers them under `weir_jobs_`.
    pub fn register(registry: &mut Registry, limits: &JobServerLimits) -> Self {
        let queue_labels_max = limits.metrics_queues_max;
        let registry = registry.sub_registry_with_prefix("weir_jobs");
        let limit_counters = register_limits(registry);
        let types = job_types(limits, &limit_counters);
        let inner = JobServerCounters {
            wait_seconds: QueueHistograms::new_with_constructor(job_histogram),
            run_seconds: QueueHistograms::new_with_constructor(job_histogram),
            queue_labels: Mutex::default(),
            queue_labels_max,
            sync_seconds: Histogram::new(SYNC_BUCKETS),
            limits: limit_counters,
            commands: register_commands(registry),
            snapshot: Arc::default(),
            shards: Shards::default(),
            types,
            tasks: Tasks::default(),
            stale_reports: stale::register(registry),
            cron_runs: cron_runs::register(registry),
            repeated_pushes: Counter::default(),
            expired: Counter::default(),
            not_unique: Counter::default(),
            queue_full: Family::default(),
        };
        registry.register(
            "wait_seconds",
            "Time from a job's push (or due time) to its fetch",
            inner.wait_seconds.clone(),
        );
        registry.register(
            "run_seconds",
            "Time from a job's fetch to its ACK or FAIL",
            inner.run_seconds.clone(),
        );
        registry.register(
            "repeated_pushes",
            "Pushed jobs that were stored already (jobs.redis.push_memory)",
            inner.repeated_pushes.clone(),
        );
        registry.register(
            "expired",
            "Jobs that were dropped because their custom.expires_at had passed",
            inner.expired.clone(),
        );
        registry.register(
            "not_unique",
            "Pushed jobs that were rejected because an equal job holds the unique lock",
            inner.not_unique.clone(),
        );
        registry.register(
            "queue_full",
            "Pushed jobs that were rejected because a cap was reached: jobs_max, bytes_max or tenant_jobs_max of their queue, or disk_max",
            inner.queue_full.clone(),
        );
        registry.register(
            "log_sync_seconds",
            "Duration of one sync of the log, or until Redis has confirmed a group of pushes",
            inner.sync_seconds.clone(),
        );
        registry.register_collector(Box::new(snapshot::SnapshotCollector {
            latest: Arc::clone(&inner.snapshot),
            queue_labels_max,
        }));
        registry
            .register_collector(Box::new(store_collector::StoreCollector(inner.shards.clone())));
        registry.register_collector(Box::new(type_collector::TypeCollector(inner.types.clone())));
        Self(Arc::new(inner))
    }

    /// Returns metrics that are not scraped, for tests and tools.
    #[must_use]
    pub fn detached() -> Self {
        Self::register(&mut Registry::default(), &JobServerLimits::default())
    }

    /// Returns the histograms of a queue. This takes a lock, so call it once per queue and keep the
    /// result.
    #[must_use]
    pub fn queue(&self, name: &str) -> QueueMetrics {
        let label = QueueLabel { queue: self.label_for(name).to_owned() };
        QueueMetrics {
            wait: self.0.wait_seconds.get_or_create_owned(&label),
            run: self.0.run_seconds.get_or_create_owned(&label),
        }
    }

    fn label_for<'n>(&self, name: &'n str) -> &'n str {
        let mut labels = self.0.queue_labels.lock().unwrap_or_else(PoisonError::into_inner);
        if labels.contains(name) {
            return name;
        }
        if labels.len() >= self.0.queue_labels_max {
            return OTHER_QUEUES;
        }
        labels.insert(Box::from(name));
        name
    }

    /// Records the duration of one sync of the log.
    pub fn observe_sync(&self, seconds: f64) {
        self.0.sync_seconds.observe(seconds);
    }

    /// Returns the measurements of a shard of the store, which times one of `timed_of` operations.
    #[must_use]
    pub fn store(&self, shard: &str, timed_of: u64) -> StoreMetrics {
        self.0.shards.shard(shard, timed_of)
    }

    /// Keeps the figures of all shards for comparison. Called about once a second.
    pub(crate) fn sample_stores(&self, now: Timestamp) {
        self.0.shards.all().iter().for_each(|shard| shard.sample(now));
    }

    /// Returns the figures of all shards over the last minute.
    pub(crate) fn stores(&self, now: Timestamp) -> Vec<StoreShardView> {
        self.0.shards.all().iter().map(|shard| shard.view(now)).collect()
    }

    /// Returns the statistics by type of job.
    #[must_use]
    pub fn types(&self) -> &JobTypes {
        &self.0.types
    }

    /// Counts pushed jobs that were stored before.
    pub fn repeated_pushes(&self, jobs: u64) {
        self.0.repeated_pushes.inc_by(jobs);
    }

    /// Counts a job that was dropped because it expired.
    pub fn expired(&self) {
        self.0.expired.inc();
    }

    /// Counts a pushed job whose unique lock is held.
    pub fn not_unique(&self) {
        self.0.not_unique.inc();
    }

    /// Counts a pushed job that was rejected by a cap of its queue.
    pub(crate) fn queue_full(&self, queue: &str, cap: &'static str) {
        let label = QueueCapLabel { queue: self.label_for(queue).to_owned(), cap };
        self.0.queue_full.get_or_create(&label).inc();
    }

    /// Returns how many pushed jobs of a queue were rejected. Queues that share a label have the figure of all of them.
    pub(crate) fn rejected_of(&self, queue: &str) -> u64 {
        let queue = self.label_for(queue);
        let rejected = |cap| {
            let label = QueueCapLabel { queue: queue.to_owned(), cap };
            self.0.queue_full.get(&label).map_or(0, |counter| counter.get())
        };
        CAPS.into_iter().map(rejected).sum()
    }

    /// Counts a hit of a limit.
    pub fn limit_hit(&self, limit: JobServerLimit) {
        self.0.limits[limit as usize].inc();
    }

    /// Returns the limits that were reached since the start.
    #[must_use]
    pub fn limit_hits(&self) -> Vec<LimitHit> {
        let hits = |limit: &JobServerLimit| LimitHit {
            limit: limit.name().to_owned(),
            hits: self.0.limits[*limit as usize].get(),
        };
        JobServerLimit::ALL.iter().map(hits).filter(|hit| hit.hits > 0).collect()
    }

    /// Counts an ACK or FAIL of a job that this node had lost.
    pub fn stale_report(&self, report: StaleReport) {
        self.0.stale_reports[report as usize].inc();
    }

    /// Returns how many ACKs or FAILs were stale since the start.
    #[must_use]
    pub fn stale_reports(&self, report: StaleReport) -> u64 {
        self.0.stale_reports[report as usize].get()
    }

    /// Counts a time of a cron job.
    pub(crate) fn cron_run(&self, result: CronRunResult) {
        self.0.cron_runs[result as usize].inc();
    }

    /// Returns how many times of cron jobs had this result since the start.
    #[cfg(test)]
    pub(crate) fn cron_runs(&self, result: CronRunResult) -> u64 {
        self.0.cron_runs[result as usize].get()
    }

    /// Returns the metrics of the timer and the reaper.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// Counts a completed command.
    pub(crate) fn command(&self, verb: FaktoryVerb, result: CommandResult) {
        self.0.commands[verb as usize][result as usize].inc();
    }

    /// Replaces the depths, set sizes and totals that a scrape reads.
    pub(crate) fn publish(&self, snapshot: MetricsSnapshot) {
        *self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = snapshot;
    }
}

fn job_types(limits: &JobServerLimits, counters: &[Counter]) -> JobTypes {
    let hits = |limit: JobServerLimit| counters[limit as usize].clone();
    let hits = TypeLimitHits {
        types: hits(JobServerLimit::JobTypesMax),
        groups: hits(JobServerLimit::JobTypeGroupsMax),
    };
    let JobServerLimits { job_types_max, job_type_groups_max, .. } = *limits;
    JobTypes::new(TypeLimits { types_max: job_types_max, groups_max: job_type_groups_max }, hits)
}

fn job_histogram() -> Histogram {
    Histogram::new(JOB_BUCKETS)
}

fn register_limits(registry: &mut Registry) -> Box<[Counter]> {
    let family = Family::<JobServerLimitLabel, Counter>::default();
    registry.register(
        "limit_hits",
        "Times that a limit (named as in weir.toml) was reached",
        family.clone(),
    );
    let counter = |limit: &JobServerLimit| {
        family.get_or_create_owned(&JobServerLimitLabel { limit: limit.name() })
    };
    JobServerLimit::ALL.iter().map(counter).collect()
}

fn register_commands(
    registry: &mut Registry,
) -> [[Counter; CommandResult::ALL.len()]; FaktoryVerb::ALL.len()] {
    let family = Family::<CommandLabel, Counter>::default();
    registry.register("commands", "Commands by verb and result", family.clone());
    FaktoryVerb::ALL.map(|verb| {
        CommandResult::ALL.map(|result| {
            let label = CommandLabel { verb: verb.label(), result: result.label() };
            family.get_or_create_owned(&label)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    /// With metrics of their own for so many queues.
    fn registered(registry: &mut Registry, metrics_queues_max: usize) -> JobsMetrics {
        let limits = JobServerLimits { metrics_queues_max, ..JobServerLimits::default() };
        JobsMetrics::register(registry, &limits)
    }

    fn scrape(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).expect("writing to a String succeeds");
        text
    }

    #[test]
    fn queues_beyond_the_limit_share_one_label() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 2);
        for name in ["a", "b", "c", "d", "a"] {
            metrics.queue(name).wait.observe(0.5);
        }
        let text = scrape(&registry);
        assert!(text.contains("weir_jobs_wait_seconds_count{queue=\"a\"} 2"), "{text}");
        assert!(text.contains("weir_jobs_wait_seconds_count{queue=\"other\"} 2"), "{text}");
        assert!(!text.contains("queue=\"c\""), "{text}");
    }

    #[test]
    fn types_beyond_the_limit_share_one_label_and_their_names_are_escaped() {
        let mut registry = Registry::default();
        let limits = JobServerLimits { job_types_max: 2, ..JobServerLimits::default() };
        let metrics = JobsMetrics::register(&mut registry, &limits);
        assert!(!scrape(&registry).contains("jobtype"));
        let hostile = "a\"} 1\nweir_up 0\\";
        let now = Timestamp::from_millis(1_000);
        for jobtype in [hostile, "b", "c", "d", "other"] {
            let run = metrics.types().run_of(jobtype, now);
            let job = crate::job_types::StartedJob { jid: "1", queue: "q", ready_at: Some(now) };
            run.start(&job, now);
            run.succeeded(Timestamp::from_millis(3_000));
        }
        let text = scrape(&registry);
        for line in [
            r#"started_total{jobtype="a\"} 1\nweir_up 0\\"} 1"#,
            r#"ended_total{jobtype="b",result="ok"} 1"#,
            r#"ended_total{jobtype="other",result="ok"} 3"#,
            r#"ended_total{jobtype="other",result="failed"} 0"#,
            r#"returned_total{jobtype="b"} 0"#,
            r#"running{jobtype="b"} 0"#,
            r#"run_seconds_total{jobtype="other"} 6.0"#,
            r#"wait_seconds_total{jobtype="b"} 0.0"#,
            r#"run_quantile_seconds{jobtype="b",quantile="0.99"} 2.0"#,
            r#"wait_quantile_seconds{jobtype="b",quantile="0.5"} 0.0"#,
        ] {
            assert!(text.contains(&format!("weir_jobs_type_{line}")), "{line}: {text}");
        }
        assert!(!text.contains("jobtype=\"c\"") && !text.contains("\nweir_up"), "{text}");
        let others = text.matches("weir_jobs_type_started_total{jobtype=\"other\"}").count();
        assert_eq!(others, 1, "no series twice");
        let hits = "weir_jobs_limit_hits_total{limit=\"job_types_max\"} 3";
        assert!(text.contains(hits), "{text}");
    }

    #[test]
    fn every_limit_and_verb_is_exported_from_the_start() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 2);
        metrics.limit_hit(JobServerLimit::LineBytesMax);
        metrics.command(FaktoryVerb::Push, CommandResult::Error);
        let text = scrape(&registry);
        assert!(text.contains("weir_jobs_limit_hits_total{limit=\"line_bytes_max\"} 1"), "{text}");
        assert!(text.contains("weir_jobs_limit_hits_total{limit=\"connections_max\"} 0"), "{text}");
        assert!(
            text.contains("weir_jobs_commands_total{verb=\"PUSH\",result=\"error\"} 1"),
            "{text}"
        );
        let hit = LimitHit { limit: "line_bytes_max".into(), hits: 1 };
        assert_eq!(metrics.limit_hits(), [hit]);
    }

    #[test]
    fn shards_are_exported_with_their_operations_and_their_server() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 1);
        let shard = metrics.store("a:6379/0", 1);
        shard.end(StoreOperation::Ack, shard.begin(StoreOperation::Ack));
        shard.malformed(3);
        let text = scrape(&registry);
        let label = "shard=\"a:6379/0\",operation=\"ack\"";
        for line in [
            format!("seconds_count{{{label}}} 1"),
            format!("seconds_bucket{{le=\"+Inf\",{label}}} 1"),
            format!("operations_total{{{label}}} 1"),
        ] {
            assert!(text.contains(&format!("weir_jobs_store_{line}")), "{line}: {text}");
        }
        let malformed = "weir_jobs_store_malformed_payloads_total{shard=\"a:6379/0\"} 3";
        assert!(text.contains(malformed), "{text}");
        assert!(!text.contains("weir_jobs_store_commands"), "{text}");
        shard.publish_server(Some(StoreServerFigures {
            memory_bytes: 7,
            cpu_seconds: 1.5,
            commands: vec![CommandFigures {
                name: "evalsha".to_owned(),
                kind: CommandKind::Script,
                calls: 4,
                took: std::time::Duration::from_millis(250),
            }],
            ..StoreServerFigures::default()
        }));
        let text = scrape(&registry);
        for line in [
            "store_memory_bytes{shard=\"a:6379/0\"} 7",
            "store_cpu_seconds_total{shard=\"a:6379/0\"} 1.5",
            "store_commands_total{shard=\"a:6379/0\",kind=\"script\"} 4",
            "store_command_seconds_total{shard=\"a:6379/0\",kind=\"script\"} 0.25",
        ] {
            assert!(text.contains(&format!("weir_jobs_{line}")), "{line}: {text}");
        }
    }

    #[test]
    fn the_nodes_of_a_cluster_are_exported_instead_of_their_sum() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 1);
        let shard = metrics.store("cluster:6379", 1);
        let of = |memory_bytes| StoreServerFigures { memory_bytes, ..Default::default() };
        shard.publish_server(Some(of(5)));
        shard.publish_nodes(vec![("a:1".to_owned(), of(2)), ("b:1".to_owned(), of(3))]);
        let text = scrape(&registry);
        for line in ["{shard=\"a:1\"} 2", "{shard=\"b:1\"} 3"] {
            assert!(text.contains(&format!("weir_jobs_store_memory_bytes{line}")), "{text}");
        }
        assert!(!text.contains("weir_jobs_store_memory_bytes{shard=\"cluster"), "{text}");
    }

    #[test]
    fn each_shard_has_its_own_series() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 1);
        assert!(!scrape(&registry).contains("shard"));
        let shard = crate::store::ShardState {
            name: "a".to_owned(),
            away_since: Some(Default::default()),
            dead: 3,
            ..Default::default()
        };
        metrics.publish(MetricsSnapshot { shards: vec![shard], ..MetricsSnapshot::default() });
        let text = scrape(&registry);
        assert!(text.contains("weir_jobs_shard_up{shard=\"a\"} 0"), "{text}");
        assert!(text.contains("weir_jobs_shard_jobs{shard=\"a\",state=\"dead\"} 3"), "{text}");
    }

    #[test]
    fn nodes_are_counted_by_state() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 1);
        assert!(!scrape(&registry).contains("weir_jobs_nodes"));
        let node = |age| crate::node::NodeState {
            report: Some(Default::default()),
            age: std::time::Duration::from_secs(age),
            ..Default::default()
        };
        let nodes = vec![node(1), node(9), node(60)];
        metrics.publish(MetricsSnapshot { nodes, ..MetricsSnapshot::default() });
        let text = scrape(&registry);
        for line in ["{state=\"up\"} 2", "{state=\"away\"} 1", "{state=\"stopped\"} 0"] {
            assert!(text.contains(&format!("weir_jobs_nodes{line}")), "{line}: {text}");
        }
    }

    #[test]
    fn snapshot_is_exported_with_remaining_queues_summed() {
        let mut registry = Registry::default();
        let metrics = registered(&mut registry, 1);
        let queue = |name: &str, depth| QueueSnapshot {
            name: name.into(),
            depth,
            latency_seconds: 1.5,
            ..QueueSnapshot::default()
        };
        metrics.publish(MetricsSnapshot {
            queues: vec![queue("a", 1), queue("b", 2), queue("c", 4)],
            dead: 9,
            ..MetricsSnapshot::default()
        });
        let text = scrape(&registry);
        assert!(text.contains("weir_jobs_queue_depth{queue=\"a\"} 1"), "{text}");
        assert!(text.contains("weir_jobs_queue_depth{queue=\"other\"} 6"), "{text}");
        assert!(text.contains("weir_jobs_queue_latency_seconds{queue=\"other\"} 1.5"), "{text}");
        assert!(text.contains("weir_jobs_set_size{set=\"dead\"} 9"), "{text}");
    }
}
