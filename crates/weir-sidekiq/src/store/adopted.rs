//! The workers of reservations that the previous process of this node has left in order.
//!
//! This process knows a worker only once it has connected. Until then nothing else would notice that
//! a worker is gone, and its jobs would stay reserved for their whole `reserve_for`.

use std::collections::BTreeMap;

use weir_base::clock::Timestamp;
use weir_jobs::model::Wid;
use weir_jobs::store::WorkerReport;

/// Workers that have not connected yet, and when their jobs are released.
#[derive(Debug, Default)]
pub(super) struct AdoptedWorkers(BTreeMap<Wid, Timestamp>);

impl AdoptedWorkers {
    pub(super) fn add(&mut self, wid: Wid, release_at: Timestamp) {
        self.0.insert(wid, release_at);
    }

    pub(super) fn remove(&mut self, wid: &Wid) {
        self.0.remove(wid);
    }

    /// Removes workers that have connected. Returns those that are overdue.
    pub(super) fn overdue(&mut self, connected: &[WorkerReport], now: Timestamp) -> Vec<Wid> {
        for worker in connected {
            self.0.remove(&worker.wid);
        }
        let overdue = self.0.iter().filter(|(_, release_at)| **release_at <= now);
        overdue.map(|(wid, _)| wid.clone()).collect()
    }
}
