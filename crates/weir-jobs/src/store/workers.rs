//! What a store and the server tell each other about workers.

use std::fmt;
use std::rc::Rc;

use crate::model::Wid;

/// A place in the order in which a store has reserved jobs: behind all that were reserved before
/// [`Store::reservation_mark`](super::Store::reservation_mark) returned it. A worker that was given up may return under
/// its wid and reserve others while the first ones are being released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationMark(Box<[u64]>);

impl ReservationMark {
    /// Makes a mark of the numbers of the last reservations: one for each part of the store that numbers its own.
    #[must_use]
    pub fn new(last: impl IntoIterator<Item = u64>) -> Self {
        Self(last.into_iter().collect())
    }

    /// Returns the number of the last reservation in a part of the store.
    #[must_use]
    pub fn last_in(&self, part: usize) -> u64 {
        self.0.get(part).copied().unwrap_or(0)
    }
}

/// Knows which workers are lost: they ran jobs, their last connection was cut, and they have not returned.
#[derive(Clone)]
pub struct LostWorkers(Rc<dyn Fn(&Wid) -> bool>);

impl LostWorkers {
    /// Makes it of a function that says of a worker whether it is lost.
    #[must_use]
    pub fn new(is_lost: impl Fn(&Wid) -> bool + 'static) -> Self {
        Self(Rc::new(is_lost))
    }

    /// Returns whether the holder of a reservation is lost.
    #[must_use]
    pub fn has(&self, holder: Option<&Wid>) -> bool {
        holder.is_some_and(|wid| (self.0)(wid))
    }
}

impl Default for LostWorkers {
    /// Without a server, no worker is lost.
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl fmt::Debug for LostWorkers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LostWorkers")
    }
}
