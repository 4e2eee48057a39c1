//! Receipts of events that another node repeats if this one ends before they are settled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Follows an event through the queues, each of which has a copy. An event is settled when it was
/// delivered to all endpoints, or dropped because a limit was reached.
#[derive(Clone, Debug, Default)]
pub struct Receipt {
    /// Whether the event was dropped because this process stops.
    is_abandoned: Arc<AtomicBool>,
}

impl Receipt {
    /// Returns whether the event is settled, if this is the copy that the sender kept.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        Arc::strong_count(&self.is_abandoned) == 1 && !self.is_abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }
}
