//! The store over two Redis servers, behind the functions that the contract's tests use.

use std::rc::Rc;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use weir_base::clock::Clock;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::JobServerSettings;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::ShardedStore;

use super::harness::{Durable, Harness, SHARES_ROUNDS};
use crate::shared_redis;
use crate::store::sharded_rig::sharded_options;

/// A node with a database of its own on each of two servers.
pub(crate) struct ShardedHarness {
    store: Rc<ShardedStore>,
    metrics: JobsMetrics,
    endpoints: [RedisEndpoint; 2],
    settings: JobServerSettings,
    clock: Clock,
    directory: TempDir,
}

impl ShardedHarness {
    fn open_in(
        directory: TempDir,
        endpoints: [RedisEndpoint; 2],
        settings: JobServerSettings,
        clock: Clock,
    ) -> Self {
        let mut options = sharded_options(&endpoints, directory.path());
        options.settings.ask_alone_from = SHARES_ROUNDS;
        let metrics = JobsMetrics::register(&mut Registry::default(), &settings.limits);
        let opened = ShardedStore::open(&options, &settings, clock.clone(), metrics.clone());
        let store = opened.unwrap();
        Self { store: Rc::new(store), metrics, endpoints, settings, clock, directory }
    }
}

impl Harness for ShardedHarness {
    type Store = ShardedStore;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let endpoints = shared_redis::two_databases().expect("the test runs only where Redis is");
        Self::open_in(tempfile::tempdir().unwrap(), endpoints, settings, clock)
    }

    fn store(&self) -> &Rc<ShardedStore> {
        &self.store
    }

    fn metrics(&self) -> &JobsMetrics {
        &self.metrics
    }

    async fn tick(&self) {
        self.store.tick().await.unwrap();
    }
}

impl Durable for ShardedHarness {
    fn reopen(self) -> Self {
        let Self { store, endpoints, settings, clock, directory, metrics: _ } = self;
        assert_eq!(Rc::strong_count(&store), 1, "somebody still uses the old store");
        drop(store);
        Self::open_in(directory, endpoints, settings, clock)
    }
}
