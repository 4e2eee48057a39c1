//! The measurements of all shards of the store.

use std::sync::{Arc, Mutex, PoisonError};

use super::store::StoreMetrics;

/// The measurements of all shards, in the order in which they were opened. Cheap to clone; clones
/// share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shards(Arc<Mutex<Vec<StoreMetrics>>>);

impl Shards {
    /// Returns the measurements of a shard: those that it had before if it is opened again.
    pub(super) fn shard(&self, name: &str, timed_of: u64) -> StoreMetrics {
        let mut shards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shards.iter().find(|shard| shard.shard() == name) {
            return known.clone();
        }
        let shard = StoreMetrics::new(name, timed_of);
        shards.push(shard.clone());
        shard
    }

    pub(super) fn all(&self) -> Vec<StoreMetrics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
