//! Nodes on one Redis: each a store with a data directory of its own.

use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use weir_base::clock::Clock;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::{Delivery, FailureReport, QueueName, Wid};
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{BatchSize, FetchRequest, Store, StoreError};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{RedisStore, RedisStoreOptions, RedisStoreSettings};

/// Nothing here takes long; a test that hangs is told so.
const TEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Of the nodes under test, so that a test outlives it.
pub(crate) const LEASE: Duration = Duration::from_millis(600);

/// A node with its data directory.
pub(crate) struct Node {
    pub(crate) store: RedisStore,
    pub(crate) metrics: JobsMetrics,
    registry: Registry,
    directory: TempDir,
}

impl Node {
    pub(crate) fn open(endpoint: &RedisEndpoint) -> Self {
        Self::open_in(tempfile::tempdir().unwrap(), endpoint, LEASE)
    }

    pub(crate) fn open_in(directory: TempDir, endpoint: &RedisEndpoint, lease: Duration) -> Self {
        let options = options(endpoint, &directory, lease);
        Self::with(directory, &options, &JobServerSettings::default())
    }

    pub(crate) fn with(
        directory: TempDir,
        options: &RedisStoreOptions,
        settings: &JobServerSettings,
    ) -> Self {
        let mut registry = Registry::default();
        let metrics = JobsMetrics::register(&mut registry, &settings.limits);
        let store = RedisStore::open(options, settings, Clock::system(), metrics.clone()).unwrap();
        Self { store, metrics, registry, directory }
    }

    /// Opens a node whose time the test moves, apart from its lease.
    pub(crate) fn at(endpoint: &RedisEndpoint, clock: &Clock) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = options(endpoint, &directory, Duration::from_secs(600));
        let settings = JobServerSettings::default();
        let mut registry = Registry::default();
        let metrics = JobsMetrics::register(&mut registry, &settings.limits);
        let opened = RedisStore::open(&options, &settings, clock.clone(), metrics.clone());
        Self { store: opened.unwrap(), metrics, registry, directory }
    }

    /// What `/metrics` says of the node.
    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// With settings of its own.
    pub(crate) fn open_with(
        endpoint: &RedisEndpoint,
        limits: JobServerLimits,
        change: impl FnOnce(&mut RedisStoreSettings),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(endpoint, &directory, LEASE);
        change(&mut options.settings);
        let settings = JobServerSettings { limits, ..JobServerSettings::default() };
        Self::with(directory, &options, &settings)
    }

    /// Opens a node with both kinds of settings.
    pub(crate) fn open_as(
        endpoint: &RedisEndpoint,
        redis: RedisStoreSettings,
        settings: &JobServerSettings,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = RedisStoreOptions { settings: redis, ..options(endpoint, &directory, LEASE) };
        Self::with(directory, &options, settings)
    }

    /// The process ends without a goodbye.
    pub(crate) fn crash(self) -> TempDir {
        self.directory
    }

    pub(crate) async fn push(&self, json: &str) -> Result<(), StoreError> {
        let mut batch = JobBatch::new();
        let now = Clock::system().now();
        let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap();
        self.store.push(&[job]).await
    }

    /// Waits until `is_so`. The test's time limits it.
    pub(crate) async fn until(&self, is_so: impl AsyncFn() -> bool) {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What is there for a worker of these queues within `wait`.
    pub(crate) async fn fetch(
        &self,
        worker: &str,
        queues: &str,
        wait: Duration,
    ) -> Option<Delivery> {
        let (wid, queues) = (Wid::new(worker), queues.split(' ').map(queue_name));
        let queues: Vec<QueueName> = queues.collect();
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max: BatchSize::ONE, wait };
        self.store.fetch(request).await.unwrap().pop()
    }

    pub(crate) async fn fetch_now(&self, queue: &str) -> Option<String> {
        let delivery = self.fetch("w1", queue, Duration::ZERO).await;
        delivery.map(|delivery| delivery.jid.into())
    }
}

pub(crate) fn options(
    endpoint: &RedisEndpoint,
    directory: &TempDir,
    lease: Duration,
) -> RedisStoreOptions {
    RedisStoreOptions {
        endpoint: endpoint.clone(),
        node_file: directory.path().join("node_id"),
        settings: RedisStoreSettings { lease, ..RedisStoreSettings::default() },
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName::parse(name, &JobServerLimits::default()).unwrap()
}

pub(crate) fn report(jid: &str) -> FailureReport {
    FailureReport {
        jid: jid.into(),
        errtype: "Oops".to_owned(),
        message: "it broke".to_owned(),
        backtrace: vec!["line 1".to_owned()],
        is_final: false,
    }
}

/// Runs `test` where stores live, with a database of its own.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(RedisEndpoint) -> F) {
    let Some(endpoint) = crate::shared_redis::database() else { return };
    run_alone(test(endpoint));
}

/// Runs `test` where stores live, with servers of its own.
pub(crate) fn run_alone(test: impl Future<Output = ()>) {
    run_for(TEST_TIME_MAX, test);
}

/// Like [`run_alone`], for a test that may take longer.
pub(crate) fn run_for(time_max: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    let test = async { tokio::time::timeout(time_max, test).await };
    tasks.block_on(&runtime, test).expect("the test ends in time");
}
