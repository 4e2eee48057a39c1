//! A reserved job on its way back to its queue.

use weir_jobs::model::QueueName;

use super::features::FreedLock;

/// A reserved job that nobody has received.
#[derive(Debug)]
pub(super) struct UndeliveredJob {
    pub(super) queue: QueueName,
    pub(super) number: u64,
    pub(super) lock: Option<FreedLock>,
}
