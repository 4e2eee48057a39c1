//! Counters of the store's timer and the reaper since the start: `tasks` in INFO.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::model::SetName;

/// Counters of work that was due.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    passes: AtomicU64,
    pass_micros: AtomicU64,
    due: [AtomicU64; SetName::ALL.len()],
    lapsed_reservations: AtomicU64,
    reaped_workers: AtomicU64,
}

impl Tasks {
    /// Counts a check of all sets and reservations by the timer, and its duration.
    pub(crate) fn passed(&self, took: Duration) {
        self.passes.fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.pass_micros.fetch_add(micros, Relaxed);
    }

    /// Counts a job of this set that was due: it moved to its queue or, in the dead set, was
    /// deleted.
    pub(crate) fn was_due(&self, set: SetName) {
        self.due[set as usize].fetch_add(1, Relaxed);
    }

    /// Counts an expired reservation, which is a failure.
    pub(crate) fn reservation_lapsed(&self) {
        self.lapsed_reservations.fetch_add(1, Relaxed);
    }

    /// Counts a worker that was reaped.
    pub(crate) fn worker_reaped(&self) {
        self.reaped_workers.fetch_add(1, Relaxed);
    }

    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Relaxed)
    }

    pub(crate) fn pass_time(&self) -> Duration {
        Duration::from_micros(self.pass_micros.load(Relaxed))
    }

    pub(crate) fn due(&self, set: SetName) -> u64 {
        self.due[set as usize].load(Relaxed)
    }

    pub(crate) fn lapsed_reservations(&self) -> u64 {
        self.lapsed_reservations.load(Relaxed)
    }

    pub(crate) fn reaped_workers(&self) -> u64 {
        self.reaped_workers.load(Relaxed)
    }
}
