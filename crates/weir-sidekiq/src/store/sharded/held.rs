//! Jobs of several shards on their way to a FETCH.

use std::rc::Rc;

use tokio::sync::Notify;
use weir_jobs::model::Delivery;
use weir_jobs::store::BatchSize;

use crate::store::handover::Handover;

/// Reserved jobs that nobody has received yet. If it is dropped, they return to their queues, and
/// other FETCHes may have them.
#[derive(Debug)]
pub(super) struct HeldJobs {
    parts: Vec<Handover>,
    work_arrived: Rc<Notify>,
}

impl HeldJobs {
    pub(super) const fn new(work_arrived: Rc<Notify>) -> Self {
        Self { parts: Vec::new(), work_arrived }
    }

    pub(super) fn add(&mut self, part: Handover) {
        self.parts.push(part);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the number of jobs and the bytes of their JSON.
    pub(super) fn size(&self) -> BatchSize {
        let sizes = self.parts.iter().map(Handover::size);
        sizes.fold(BatchSize { jobs: 0, bytes: 0 }, |sum, part| BatchSize {
            jobs: sum.jobs + part.jobs,
            bytes: sum.bytes + part.bytes,
        })
    }

    /// Returns the jobs: from now on they are the worker's.
    pub(super) fn deliver(mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.parts).into_iter().flat_map(Handover::deliver).collect()
    }
}

impl Drop for HeldJobs {
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            self.parts.clear();
            self.work_arrived.notify_one();
        }
    }
}
