//! The store in Redis, behind the functions that the contract's tests use.

use std::rc::Rc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use weir_base::clock::Clock;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::Store;
use weir_sidekiq::RedisEndpoint;
use weir_sidekiq::store::RedisStore;

use crate::shared_redis;
use crate::slot_proxy::SlotProxy;
use crate::store::rig::options;

/// FETCHes of these tests share rounds also on a busy machine: those that ask alone first and whose
/// future is not polled again are in no round.
pub(super) const SHARES_ROUNDS: Duration = Duration::from_secs(1);

/// A way to open a store and to move its time, as in weir-jobs.
pub(crate) trait Harness: Sized {
    type Store: Store;

    fn open(settings: JobServerSettings, clock: Clock) -> Self;

    fn store(&self) -> &Rc<Self::Store>;

    fn metrics(&self) -> &JobsMetrics;

    /// Does what is due by the clock now.
    async fn tick(&self);
}

/// A store that survives the process.
pub(crate) trait Durable: Harness {
    /// Opens the store again, without any goodbye.
    fn reopen(self) -> Self;
}

/// A node with a database of its own. Leases follow Redis' clock, not the test's, and last longer
/// than any test.
pub(crate) struct RedisHarness {
    store: Rc<RedisStore>,
    metrics: JobsMetrics,
    endpoint: RedisEndpoint,
    settings: JobServerSettings,
    clock: Clock,
    directory: TempDir,
}

/// A node behind a proxy that stands for several servers.
pub(crate) struct OneAddressHarness {
    node: RedisHarness,
    _proxy: SlotProxy,
}

impl Harness for OneAddressHarness {
    type Store = RedisStore;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let endpoints = shared_redis::two_databases().expect("the test runs only where Redis is");
        let proxy = SlotProxy::start(&endpoints);
        let directory = tempfile::tempdir().unwrap();
        let node = RedisHarness::open_in(directory, proxy.endpoint(), settings, clock);
        Self { node, _proxy: proxy }
    }

    fn store(&self) -> &Rc<RedisStore> {
        self.node.store()
    }

    fn metrics(&self) -> &JobsMetrics {
        self.node.metrics()
    }

    async fn tick(&self) {
        self.node.tick().await;
    }
}

impl Durable for OneAddressHarness {
    fn reopen(self) -> Self {
        Self { node: self.node.reopen(), ..self }
    }
}

impl RedisHarness {
    pub(super) fn open_in(
        directory: TempDir,
        endpoint: RedisEndpoint,
        settings: JobServerSettings,
        clock: Clock,
    ) -> Self {
        let lease = Duration::from_secs(600);
        let mut options = options(&endpoint, &directory, lease);
        options.settings.ask_alone_from = SHARES_ROUNDS;
        let metrics = JobsMetrics::register(&mut Registry::default(), &settings.limits);
        let opened = RedisStore::open(&options, &settings, clock.clone(), metrics.clone());
        let store = opened.unwrap();
        Self { store: Rc::new(store), metrics, endpoint, settings, clock, directory }
    }
}

impl Harness for RedisHarness {
    type Store = RedisStore;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let endpoint = shared_redis::database().expect("the test runs only where Redis is");
        Self::open_in(tempfile::tempdir().unwrap(), endpoint, settings, clock)
    }

    fn store(&self) -> &Rc<RedisStore> {
        &self.store
    }

    fn metrics(&self) -> &JobsMetrics {
        &self.metrics
    }

    async fn tick(&self) {
        self.store.tick().await.unwrap();
    }
}

impl Durable for RedisHarness {
    fn reopen(self) -> Self {
        let Self { store, endpoint, settings, clock, directory, metrics: _ } = self;
        assert_eq!(Rc::strong_count(&store), 1, "somebody still uses the old store");
        drop(store);
        Self::open_in(directory, endpoint, settings, clock)
    }
}
