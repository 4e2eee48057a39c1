//! What the store's timer and the reaper have done since the start: `tasks` in INFO.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::model::SetName;

/// Counters of the work that time brings.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    passes: AtomicU64,
    pass_micros: AtomicU64,
    due: [AtomicU64; SetName::ALL.len()],
    lapsed_reservations: AtomicU64,
    reaped_workers: AtomicU64,
}

impl Tasks {
    /// The timer has checked all sets and reservations, which took this long.
    pub(crate) fn passed(&self, took: Duration) {
        self.passes.fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.pass_micros.fetch_add(micros, Relaxed);
    }

    /// A job of this set was due: it went to its queue, or, of the dead, is forgotten.
    pub(crate) fn was_due(&self, set: SetName) {
        self.due[set as usize].fetch_add(1, Relaxed);
    }

    /// A reservation lapsed, which counts as a failure.
    pub(crate) fn reservation_lapsed(&self) {
        self.lapsed_reservations.fetch_add(1, Relaxed);
    }

    /// A worker stopped beating.
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
