//! The depths of queues in a store that can't be asked for them at each push.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::model::QueueName;
use crate::store::QueueCounts;

/// The depths of the last sample, with the jobs that were pushed here since.
#[derive(Debug, Default)]
pub(crate) struct SampledDepths(RefCell<HashMap<QueueName, u64>>);

impl SampledDepths {
    /// Replaces all depths.
    pub(super) fn sample(&self, queues: &[QueueCounts]) {
        let depths = queues.iter().map(|queue| (queue.name.clone(), queue.depth));
        *self.0.borrow_mut() = depths.collect();
    }

    /// Returns the depth of a queue; 0 for one that did not exist.
    pub(crate) fn get(&self, queue: &str) -> u64 {
        self.0.borrow().get(queue).copied().unwrap_or_default()
    }

    /// Counts a job that is pushed now.
    pub(crate) fn add(&self, queue: &QueueName) {
        *self.0.borrow_mut().entry(queue.clone()).or_default() += 1;
    }
}
