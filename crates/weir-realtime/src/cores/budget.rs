//! Limits of what may wait for delivery by one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts events that wait to be written by one core, and applies its limits.
#[derive(Clone, Debug)]
pub(crate) struct CoreBudget(Arc<BudgetCounters>);

#[derive(Debug)]
struct BudgetCounters {
    events: AtomicUsize,
    bytes: AtomicUsize,
    events_max: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// Room for one event, returned on drop.
#[derive(Debug)]
pub(crate) struct BudgetReservation {
    budget: CoreBudget,
    bytes: usize,
}

/// The core has as many events waiting as its limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many events wait to be delivered; try again later, or raise realtime.limits.core_queue_events_max or core_queue_bytes_max"
)]
pub struct CoreBusy;

impl CoreBudget {
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Self {
        Self(Arc::new(BudgetCounters {
            events: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            events_max: AtomicUsize::new(events_max),
            bytes_max: AtomicUsize::new(bytes_max),
        }))
    }

    /// Replaces the limits. Existing reservations stay.
    pub(crate) fn set_limits(&self, events_max: usize, bytes_max: usize) {
        self.0.events_max.store(events_max, Ordering::Relaxed);
        self.0.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Reserves room for one event of `bytes`. An event larger than the limit is accepted if
    /// nothing else waits.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<BudgetReservation, CoreBusy> {
        let reservation = self.reserve_always(bytes);
        // On an error, dropping the reservation returns its room.
        if self.is_full_with(1) { Err(CoreBusy) } else { Ok(reservation) }
    }

    /// Returns whether the limits are exceeded and other events wait besides the `reserved` events
    /// that the caller has just reserved.
    pub(crate) fn is_full_with(&self, reserved: usize) -> bool {
        let ((events, bytes), (events_max, bytes_max)) = (self.waiting(), self.limits());
        (events > events_max || bytes > bytes_max) && events > reserved
    }

    /// Returns whether at most half of each limit is in use, so that several events have room.
    pub(crate) fn is_half_empty(&self) -> bool {
        let ((events, bytes), (events_max, bytes_max)) = (self.waiting(), self.limits());
        events <= events_max / 2 && bytes <= bytes_max / 2
    }

    /// Reserves room regardless of the limits, for messages that can't be rejected, such as that a
    /// member left. The number of connections limits how many of those wait.
    pub(crate) fn reserve_always(&self, bytes: usize) -> BudgetReservation {
        // Relaxed: the counters limit memory and order nothing.
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        BudgetReservation { budget: self.clone(), bytes }
    }

    /// Returns the limits of events and bytes.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.0.events_max.load(Ordering::Relaxed), self.0.bytes_max.load(Ordering::Relaxed))
    }

    /// Returns the events and bytes that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.0.events.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        self.budget.0.events.fetch_sub(1, Ordering::Relaxed);
        self.budget.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_limits_events_and_bytes_and_is_returned() {
        let budget = CoreBudget::new(2, 100);
        let first = budget.reserve(60).unwrap();
        assert_eq!(budget.reserve(41).unwrap_err(), CoreBusy);
        let second = budget.reserve(40).unwrap();
        assert_eq!(budget.reserve(0).unwrap_err(), CoreBusy);
        drop(first);
        let third = budget.reserve(0).unwrap();
        assert_eq!(budget.waiting(), (2, 40));
        assert!(!budget.is_half_empty());
        drop((second, third));
        assert_eq!(budget.waiting(), (0, 0));
        let half = budget.reserve(50).unwrap();
        assert!(budget.is_half_empty());
        drop(half);
    }

    #[test]
    fn a_message_larger_than_the_budget_passes_alone() {
        let budget = CoreBudget::new(9, 10);
        let large = budget.reserve(1_000).unwrap();
        assert!(budget.reserve(1).is_err());
        drop(large);
        assert!(budget.reserve(1).is_ok());
    }

    #[test]
    fn messages_that_cannot_be_rejected_are_counted() {
        let budget = CoreBudget::new(1, 10);
        let kept = [budget.reserve_always(9), budget.reserve_always(9)];
        assert_eq!(budget.waiting(), (2, 18));
        assert!(budget.reserve(1).is_err());
        drop(kept);
    }
}
