//! Continuous observation (`[observe]`): the newest snapshot and the advice about it.
//!
//! One thread takes snapshots (the binary's `compose/observer.rs`); metrics, the console and the
//! admin API read them, so none of these waits for a source.

pub mod json;
pub mod metrics;

use std::sync::{Arc, Mutex, PoisonError};

use weir_advisor::{ObservedSnapshot, advise};
use weir_observe::Round;

/// Holds the newest snapshot. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Mutex<Option<Arc<ObservedSnapshot>>>>);

impl Observed {
    /// Returns the newest snapshot with its advice. None: there is none yet.
    pub fn latest(&self) -> Option<Arc<ObservedSnapshot>> {
        // Held only to copy a pointer.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn publish(&self, round: Round) {
        let Round { at, took, observation, sources } = round;
        let advice = advise(&observation);
        let snapshot = ObservedSnapshot { at, took, observation, advice, sources };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
    }
}
