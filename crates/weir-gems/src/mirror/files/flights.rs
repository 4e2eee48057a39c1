//! Deduplicates concurrent fetches of the same file.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use tokio::sync::OnceCell;

use super::FileError;
use crate::release::Checksum;
use crate::store::StoredFile;

/// The fetch of a file. The first task that waits for it runs it; if that task is cancelled,
/// another one that waits takes over.
pub(super) type Flight = Arc<OnceCell<Result<StoredFile, FileError>>>;

#[derive(Debug, Default)]
pub(in crate::mirror) struct Flights {
    /// A std mutex: it is locked only for one lookup.
    flights: Mutex<HashMap<Checksum, Flight>>,
}

impl Flights {
    pub(super) fn flight(&self, checksum: Checksum) -> Flight {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Drop entries that no task waits for any more.
        flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        Arc::clone(flights.entry(checksum).or_default())
    }

    /// Ends a fetch. Later requests start a new one; after a success they find the stored file
    /// instead.
    pub(super) fn landed(&self, checksum: Checksum, flight: &Flight) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if flights.get(&checksum).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            flights.remove(&checksum);
        }
    }
}
