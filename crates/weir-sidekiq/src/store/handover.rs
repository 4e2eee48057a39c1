//! Jobs on their way from Redis to a FETCH.

use std::rc::Weak;

use weir_jobs::model::Delivery;
use weir_jobs::store::BatchSize;

/// Takes jobs back that were not delivered.
pub(super) trait GiveBack: std::fmt::Debug {
    fn give_back(&self, numbers: &[u64]);
}

/// Reserved jobs that nobody has received yet. If it is dropped, they return to their queues.
#[derive(Debug)]
pub(super) struct Handover {
    store: Weak<dyn GiveBack>,
    numbers: Vec<u64>,
    deliveries: Vec<Delivery>,
}

impl Handover {
    pub(super) fn new(store: Weak<dyn GiveBack>) -> Self {
        Self { store, numbers: Vec::new(), deliveries: Vec::new() }
    }

    pub(super) fn add(&mut self, number: u64, delivery: Delivery) {
        self.numbers.push(number);
        self.deliveries.push(delivery);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the number of jobs and the bytes of their JSON.
    pub(super) fn size(&self) -> BatchSize {
        let bytes = self.deliveries.iter().map(|job| job.json.len()).sum();
        BatchSize { jobs: self.numbers.len(), bytes }
    }

    /// Returns the jobs: from now on they are the worker's.
    pub(super) fn deliver(mut self) -> Vec<Delivery> {
        self.numbers.clear();
        std::mem::take(&mut self.deliveries)
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if !self.numbers.is_empty()
            && let Some(store) = self.store.upgrade()
        {
            store.give_back(&self.numbers);
        }
    }
}
