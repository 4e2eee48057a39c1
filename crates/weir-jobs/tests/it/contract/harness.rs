//! The stores under test, each behind the same few functions.

use std::rc::Rc;

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_jobs::engine::EmbeddedStore;
use weir_jobs::memory::MemoryStore;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::settings::{Fsync, JobServerSettings};
use weir_jobs::store::Store;

/// A way to open a store and to move its time.
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

pub(crate) struct MemoryHarness {
    store: Rc<MemoryStore>,
    metrics: JobsMetrics,
}

impl Harness for MemoryHarness {
    type Store = MemoryStore;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        let metrics = JobsMetrics::register(&mut Registry::default(), &settings.limits);
        let store = MemoryStore::open(&settings, clock, metrics.clone());
        Self { store: Rc::new(store), metrics }
    }

    fn store(&self) -> &Rc<MemoryStore> {
        &self.store
    }

    fn metrics(&self) -> &JobsMetrics {
        &self.metrics
    }

    async fn tick(&self) {
        self.store.tick();
    }
}

/// Of the embedded store under test.
const SEGMENT_BYTES: u32 = 512 << 10;
const RESERVE_BYTES: u32 = 64 << 10;

pub(crate) struct EmbeddedHarness {
    store: Rc<EmbeddedStore>,
    metrics: JobsMetrics,
    settings: JobServerSettings,
    clock: Clock,
    directory: tempfile::TempDir,
}

impl EmbeddedHarness {
    fn open_in(
        directory: tempfile::TempDir,
        mut settings: JobServerSettings,
        clock: Clock,
    ) -> Self {
        settings.directory = directory.path().join("jobs");
        let metrics = JobsMetrics::register(&mut Registry::default(), &settings.limits);
        let opened = EmbeddedStore::open(&settings, clock.clone(), metrics.clone());
        let (store, _) = opened.unwrap();
        Self { store: Rc::new(store), metrics, settings, clock, directory }
    }
}

impl Harness for EmbeddedHarness {
    type Store = EmbeddedStore;

    fn open(settings: JobServerSettings, clock: Clock) -> Self {
        // What a power cut leaves is tested on the simulated disk; here a sync would only take
        // time. Small segments, so that they are sealed, compacted and removed meanwhile.
        let mut settings = JobServerSettings { fsync: Fsync::Never, ..settings };
        settings.limits.segment_bytes = SEGMENT_BYTES;
        settings.limits.reserve_bytes = RESERVE_BYTES;
        Self::open_in(tempfile::tempdir().unwrap(), settings, clock)
    }

    fn store(&self) -> &Rc<EmbeddedStore> {
        &self.store
    }

    fn metrics(&self) -> &JobsMetrics {
        &self.metrics
    }

    async fn tick(&self) {
        self.store.tick().await.unwrap();
    }
}

impl Durable for EmbeddedHarness {
    fn reopen(self) -> Self {
        let Self { store, settings, clock, directory, metrics: _ } = self;
        assert_eq!(Rc::strong_count(&store), 1, "somebody still uses the old store");
        drop(store);
        Self::open_in(directory, settings, clock)
    }
}
