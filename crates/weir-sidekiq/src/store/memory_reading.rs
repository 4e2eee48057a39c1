//! The memory of the servers of a store.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// The memory of each server when it was read last, by address.
#[derive(Clone, Debug)]
pub(super) struct MemoryReading {
    pub(super) bytes: BTreeMap<String, u64>,
    pub(super) at: Instant,
}
