//! Files that are being fetched: each once, however many wait for it.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use tokio::sync::OnceCell;

use super::FileError;
use crate::release::Checksum;
use crate::store::StoredFile;

/// Who comes first fetches; when they go away, who waits goes on in their place.
pub(super) type Flight = Arc<OnceCell<Result<StoredFile, FileError>>>;

#[derive(Debug, Default)]
pub(in crate::mirror) struct Flights {
    /// std: held to look one up.
    flights: Mutex<HashMap<Checksum, Flight>>,
}

impl Flights {
    pub(super) fn flight(&self, checksum: Checksum) -> Flight {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        // Of those whose waiters all went away nothing is left but a place.
        flights.retain(|_, flight| Arc::strong_count(flight) > 1);
        Arc::clone(flights.entry(checksum).or_default())
    }

    /// Who comes from now on asks anew: after a success they find the file.
    pub(super) fn landed(&self, checksum: Checksum, flight: &Flight) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if flights.get(&checksum).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            flights.remove(&checksum);
        }
    }
}
