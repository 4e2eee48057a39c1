//! Nodes on several Redis servers of their own.

use std::path::Path;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use weir_base::clock::Clock;
use weir_jobs::job::JobBatch;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::model::{Delivery, Wid};
use weir_jobs::settings::{JobServerLimits, JobServerSettings};
use weir_jobs::store::{
    BatchSize, FetchRequest, ShardState, Storage, Store, StoreCondition, StoreError,
};
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::{
    PushPlacement, RedisStoreSettings, ShardOptions, ShardedStore, ShardedStoreOptions,
};

use super::rig::queue_name;
use crate::redis_server::RedisServer;

/// Conditions are waited for this long.
const DEADLINE: Duration = Duration::from_secs(50);
/// Longer than a server is away in any test, and short enough for jobs whose fetch was cut to return
/// soon.
const LEASE: Duration = Duration::from_secs(12);
const RETRY_WAIT_MAX: Duration = Duration::from_millis(500);

/// Shards that are called `one`, `two` and so on, of a node that keeps its leases.
pub(crate) fn sharded_options(
    endpoints: &[RedisEndpoint],
    directory: &Path,
) -> ShardedStoreOptions {
    let names = ["one", "two", "three", "four"];
    let shard = |(name, endpoint): (&str, &RedisEndpoint)| ShardOptions {
        name: name.to_owned(),
        endpoint: endpoint.clone(),
        drain: false,
    };
    let lease = Duration::from_secs(600);
    ShardedStoreOptions {
        shards: names.into_iter().zip(endpoints).map(shard).collect(),
        node_file: directory.join("node_id"),
        settings: RedisStoreSettings { lease, ..RedisStoreSettings::default() },
    }
}

/// A node on several servers.
pub(crate) struct ShardedNode {
    pub(crate) store: ShardedStore,
    registry: Registry,
    directory: TempDir,
}

impl ShardedNode {
    pub(crate) fn open(servers: &[&RedisServer]) -> Self {
        Self::open_with(tempfile::tempdir().unwrap(), servers, |_| {})
    }

    pub(crate) fn open_with(
        directory: TempDir,
        servers: &[&RedisServer],
        change: impl FnOnce(&mut ShardedStoreOptions),
    ) -> Self {
        let endpoints: Vec<_> = servers.iter().map(|server| server.endpoint()).collect();
        let mut options = sharded_options(&endpoints, directory.path());
        options.settings.lease = LEASE;
        options.settings.retry_wait_max = RETRY_WAIT_MAX;
        change(&mut options);
        let settings = JobServerSettings::default();
        let mut registry = Registry::default();
        let metrics = JobsMetrics::register(&mut registry, &settings.limits);
        let store = ShardedStore::open(&options, &settings, Clock::system(), metrics).unwrap();
        Self { store, registry, directory }
    }

    /// What `/metrics` says of the node.
    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Ends the process in order.
    pub(crate) async fn close(self) -> TempDir {
        self.store.close().await.unwrap();
        self.directory
    }

    pub(crate) async fn push(&self, queue: &str, jid: &str) -> Result<(), StoreError> {
        self.push_with(queue, jid, "").await
    }

    /// Pushes a job with more members: `,"retry":3`.
    pub(crate) async fn push_with(
        &self,
        queue: &str,
        jid: &str,
        members: &str,
    ) -> Result<(), StoreError> {
        let json =
            format!(r#"{{"jid":"{jid}","jobtype":"Test","args":[],"queue":"{queue}"{members}}}"#);
        let (mut batch, now) = (JobBatch::new(), Clock::system().now());
        let job = batch.parse_one(json.as_bytes(), now, &JobServerLimits::default()).unwrap();
        self.store.push(&[job]).await
    }

    pub(crate) async fn fetch(
        &self,
        queues: &[String],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        let wid = Wid::new("w1");
        let queues: Vec<_> = queues.iter().map(|queue| queue_name(queue)).collect();
        let max = BatchSize::of(max);
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait };
        self.store.fetch(request).await
    }

    /// All that can be fetched now, by jid. The jobs are acknowledged.
    pub(crate) async fn drain(&self, queues: &[String]) -> Vec<String> {
        let mut jids = Vec::new();
        loop {
            let jobs = self.fetch(queues, 10, Duration::ZERO).await.unwrap();
            if jobs.is_empty() {
                return jids;
            }
            let batch: Vec<&str> = jobs.iter().map(|job| &*job.jid).collect();
            assert_eq!(self.store.ack(&batch).await, Ok(vec![]));
            jids.extend(jobs.into_iter().map(|job| job.jid.into()));
        }
    }

    pub(crate) async fn shard(&self, name: &str) -> ShardState {
        let storage = self.storage().await;
        storage.shards.into_iter().find(|shard| shard.name == name).unwrap()
    }

    /// The state, with current figures.
    pub(crate) async fn storage(&self) -> Storage {
        self.store.counts().await;
        self.store.storage().await
    }

    /// Waits until all shards can be used.
    pub(crate) async fn until_whole(&self) {
        eventually(async || self.storage().await.condition == StoreCondition::Ok).await;
    }
}

/// The queues `queue-0` and so on.
pub(crate) fn queues(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("queue-{number}")).collect()
}

pub(crate) fn in_turn(options: &mut ShardedStoreOptions) {
    options.settings.placement = PushPlacement::Turn;
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "it takes too long");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs `test` where stores live, with as many servers.
pub(crate) fn run<const N: usize>(test: impl AsyncFnOnce([RedisServer; N])) {
    run_on(&[], test);
}

/// Like [`run`], with servers that can be killed. With everysec, one would lack what it has not
/// written while it synced.
pub(crate) fn run_durable<const N: usize>(test: impl AsyncFnOnce([RedisServer; N])) {
    run_on(&["--appendonly", "yes", "--appendfsync", "always"], test);
}

fn run_on<const N: usize>(arguments: &[&str], test: impl AsyncFnOnce([RedisServer; N])) {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let start = |_| RedisServer::start_with(|_: &Path, _| arguments.clone());
    let servers: Vec<RedisServer> = (0..N).map_while(start).collect();
    let Ok(servers) = servers.try_into() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test(servers));
}
