//! The store that the settings select.

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::mirror::MirrorStore;
use super::webhooks::WebhookStore;
use super::{PostgresStore, SqliteStore};

/// All operations of a store.
pub trait FullStore: MirrorStore + WebhookStore + Debug {
    /// Registers the metrics of queries and of memory caches.
    fn register_metrics(&self, registry: &mut Registry);
}

impl FullStore for SqliteStore {
    fn register_metrics(&self, registry: &mut Registry) {
        self.register_metrics(registry);
    }
}

impl FullStore for PostgresStore {
    fn register_metrics(&self, registry: &mut Registry) {
        self.register_metrics(registry);
    }
}

/// The store that the settings select. Clones share it.
#[derive(Clone, Debug)]
pub struct GemStore(Arc<dyn FullStore>);

impl<S: FullStore> From<S> for GemStore {
    fn from(store: S) -> Self {
        Self(Arc::new(store))
    }
}

impl Deref for GemStore {
    type Target = dyn FullStore;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
