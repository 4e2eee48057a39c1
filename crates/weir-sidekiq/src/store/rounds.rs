//! Rounds: in each, every waiting FETCH asks Redis once.
//!
//! One round runs at a time. A round that begins after a request serves it, so many requests that
//! arrive during one round share the next one.

use std::cell::{Cell, RefCell};

use tokio::sync::Mutex;
use weir_jobs::store::StoreError;

/// Counts requests and rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) requested: Cell<u64>,
    /// The last request that a finished round has served.
    pub(super) served: Cell<u64>,
    pub(super) outcome: RefCell<Result<(), StoreError>>,
    /// Held during a round. Across awaits, so tokio's.
    pub(super) lock: Mutex<()>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            requested: Cell::new(0),
            served: Cell::new(0),
            outcome: RefCell::new(Ok(())),
            lock: Mutex::default(),
        }
    }
}

impl Rounds {
    /// Returns whether a round is running.
    pub(super) fn is_running(&self) -> bool {
        self.lock.try_lock().is_err()
    }

    /// Returns the number of a new request.
    pub(super) fn request(&self) -> u64 {
        let request = self.requested.get() + 1;
        self.requested.set(request);
        request
    }
}
