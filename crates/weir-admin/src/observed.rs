//! What is observed all the time (`[observe]`): the newest look, and what is said about it.
//!
//! One thread looks (the binary's `compose/observer.rs`), everybody else reads: metrics, the console, the admin API.
//! Nobody waits for a source.

pub mod json;
pub mod metrics;

use std::sync::{Arc, Mutex, PoisonError};

use weir_advisor::{ObservedSnapshot, advise};
use weir_observe::Round;

/// Where the newest look is left. Cheap to clone; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Observed(Arc<Mutex<Option<Arc<ObservedSnapshot>>>>);

impl Observed {
    /// The newest look, with what is to be said about it. None: there was none yet.
    pub fn latest(&self) -> Option<Arc<ObservedSnapshot>> {
        // Held for a moment, for a pointer.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn publish(&self, round: Round) {
        let Round { at, took, observation, sources } = round;
        let advice = advise(&observation);
        let snapshot = ObservedSnapshot { at, took, observation, advice, sources };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
    }
}
