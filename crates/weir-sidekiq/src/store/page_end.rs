//! Where a page of a list ended, so that the walk goes on there without a search.

use weir_jobs::model::{EntryKey, QueueName};

/// The end of the last page.
#[derive(Debug)]
pub(super) struct PageEnd {
    pub(super) queue: QueueName,
    pub(super) key: EntryKey,
    pub(super) newest_first: bool,
    /// Behind the key, in the direction of the walk. It counts from the end that is served first.
    pub(super) position: usize,
}
