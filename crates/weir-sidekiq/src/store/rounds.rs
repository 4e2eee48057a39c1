//! Rounds: in each, every waiting FETCH asks Redis once.
//!
//! One round runs at a time. A round that begins after a request serves it, so many requests that
//! arrive during one round share the next one. Where the way to Redis is long, that would make most
//! FETCHes wait for two round trips, so each asks alone first. So do batches.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::Mutex;
use weir_jobs::store::{BatchSize, StoreError};

/// Round trips whose shortest one decides. A busy processor makes single ones longer.
const TRIPS: u32 = 64;

/// Counts requests and rounds.
#[derive(Debug)]
pub(super) struct Rounds {
    pub(super) requested: Cell<u64>,
    /// The last request that a finished round has served.
    pub(super) served: Cell<u64>,
    pub(super) outcome: RefCell<Result<(), StoreError>>,
    /// Held during a round. Across awaits, so tokio's.
    pub(super) lock: Mutex<()>,
    /// For each script that is reserving jobs: a number that is not above those of its jobs, and the
    /// script's own number.
    reserving: RefCell<BTreeSet<(u64, u64)>>,
    scripts: Cell<u64>,
    shortest: Cell<ShortestTrip>,
    /// From this time for a round trip on, FETCHes do not share rounds.
    far_from: Duration,
}

/// The shortest of the last round trips to Redis.
#[derive(Clone, Copy, Debug)]
struct ShortestTrip {
    before: Duration,
    now: Duration,
    count: u32,
}

impl Default for ShortestTrip {
    fn default() -> Self {
        Self { before: Duration::ZERO, now: Duration::MAX, count: 0 }
    }
}

/// Ends with the script that reserves jobs, when they are in the table of reservations.
#[derive(Debug)]
pub(super) struct Reserving<'r> {
    rounds: &'r Rounds,
    entry: (u64, u64),
}

impl Drop for Reserving<'_> {
    fn drop(&mut self) {
        self.rounds.reserving.borrow_mut().remove(&self.entry);
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new(Duration::MAX)
    }
}

impl Rounds {
    pub(super) fn new(far_from: Duration) -> Self {
        Self {
            requested: Cell::new(0),
            served: Cell::new(0),
            outcome: RefCell::new(Ok(())),
            lock: Mutex::default(),
            reserving: RefCell::default(),
            scripts: Cell::new(0),
            shortest: Cell::default(),
            far_from,
        }
    }

    /// Notes that a script reserves jobs with numbers from `next_number` on.
    pub(super) fn reserve(&self, next_number: u64) -> Reserving<'_> {
        let script = self.scripts.get();
        self.scripts.set(script + 1);
        let entry = (next_number, script);
        self.reserving.borrow_mut().insert(entry);
        Reserving { rounds: self, entry }
    }

    /// Returns a number that is not above those of the jobs that scripts are reserving.
    pub(super) fn reserving_from(&self) -> Option<u64> {
        self.reserving.borrow().first().map(|(number, _)| *number)
    }

    /// Notes the time of a command that does next to nothing in Redis.
    pub(super) fn note_trip(&self, took: Duration) {
        let mut trips = self.shortest.get();
        trips.now = trips.now.min(took);
        trips.count += 1;
        if trips.count == TRIPS {
            trips = ShortestTrip { before: trips.now, ..ShortestTrip::default() };
        }
        self.shortest.set(trips);
    }

    /// Reports whether a FETCH of so many jobs asks alone first. One of a single job shares rounds until
    /// the time of a round trip is known. Batches never do: while Redis reserves one, this node reads
    /// another.
    pub(super) fn asks_alone(&self, max: BatchSize) -> bool {
        let trips = self.shortest.get();
        max.jobs > BatchSize::ONE.jobs || trips.before.min(trips.now) >= self.far_from
    }

    /// Returns the number of a new request.
    pub(super) fn request(&self) -> u64 {
        let request = self.requested.get() + 1;
        self.requested.set(request);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_last_round_trips_decides() {
        let rounds = Rounds::new(Duration::from_micros(300));
        let note = |micros: u64, times: u32| {
            (0..times).for_each(|_| rounds.note_trip(Duration::from_micros(micros)));
        };
        assert!(!rounds.asks_alone(BatchSize::ONE));
        note(900, TRIPS);
        assert!(rounds.asks_alone(BatchSize::ONE));
        note(100, 1);
        assert!(!rounds.asks_alone(BatchSize::ONE));
        note(900, 2 * TRIPS - 1);
        assert!(rounds.asks_alone(BatchSize::ONE));
    }

    #[test]
    fn the_oldest_script_decides_from_where_jobs_are_being_reserved() {
        let rounds = Rounds::default();
        let (first, second) = (rounds.reserve(5), rounds.reserve(5));
        let third = rounds.reserve(8);
        drop(first);
        assert_eq!(rounds.reserving_from(), Some(5));
        drop(second);
        assert_eq!(rounds.reserving_from(), Some(8));
        drop(third);
        assert_eq!(rounds.reserving_from(), None);
    }
}
