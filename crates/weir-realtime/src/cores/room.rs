//! How much may wait for one core.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Room for events on their way to the sockets of one core.
#[derive(Clone, Debug)]
pub(crate) struct CoreRoom(Arc<RoomCounters>);

#[derive(Debug)]
struct RoomCounters {
    events: AtomicUsize,
    bytes: AtomicUsize,
    events_max: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// Room for one event, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct RoomReservation {
    room: CoreRoom,
    bytes: usize,
}

/// The core has as much to deliver as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many events wait to be delivered; try again later, or raise realtime.limits.core_queue_events_max or core_queue_bytes_max"
)]
pub struct CoreBusy;

impl CoreRoom {
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Self {
        Self(Arc::new(RoomCounters {
            events: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            events_max: AtomicUsize::new(events_max),
            bytes_max: AtomicUsize::new(bytes_max),
        }))
    }

    /// Other limits from now on; what is reserved stays.
    pub(crate) fn set_limits(&self, events_max: usize, bytes_max: usize) {
        self.0.events_max.store(events_max, Ordering::Relaxed);
        self.0.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Room for one event of `bytes`, or not. An event larger than all the room has it alone.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<RoomReservation, CoreBusy> {
        let reservation = self.reserve_always(bytes);
        // Dropping the reservation takes it back.
        if self.is_full_with(1) { Err(CoreBusy) } else { Ok(reservation) }
    }

    /// Whether more waits than may, and not only these `own` events of somebody who asks this after
    /// having reserved them.
    pub(crate) fn is_full_with(&self, own: usize) -> bool {
        let ((events, bytes), (events_max, bytes_max)) = (self.waiting(), self.limits());
        (events > events_max || bytes > bytes_max) && events > own
    }

    /// Room for what can't be refused: somebody left, for instance. What is waiting of that kind is
    /// bounded by the number of connections.
    pub(crate) fn reserve_always(&self, bytes: usize) -> RoomReservation {
        // Relaxed: the figures guard memory, they order nothing.
        self.0.events.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        RoomReservation { room: self.clone(), bytes }
    }

    /// Events and bytes that may wait.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.0.events_max.load(Ordering::Relaxed), self.0.bytes_max.load(Ordering::Relaxed))
    }

    /// Events and bytes that are waiting.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.0.events.load(Ordering::Relaxed), self.0.bytes.load(Ordering::Relaxed))
    }
}

impl Drop for RoomReservation {
    fn drop(&mut self) {
        self.room.0.events.fetch_sub(1, Ordering::Relaxed);
        self.room.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_ends_with_events_or_bytes_and_comes_back() {
        let room = CoreRoom::new(2, 100);
        let first = room.reserve(60).unwrap();
        assert_eq!(room.reserve(41).unwrap_err(), CoreBusy);
        let second = room.reserve(40).unwrap();
        assert_eq!(room.reserve(0).unwrap_err(), CoreBusy);
        drop(first);
        let third = room.reserve(0).unwrap();
        assert_eq!(room.waiting(), (2, 40));
        drop((second, third));
        assert_eq!(room.waiting(), (0, 0));
    }

    #[test]
    fn what_is_larger_than_the_room_passes_alone() {
        let room = CoreRoom::new(9, 10);
        let large = room.reserve(1_000).unwrap();
        assert!(room.reserve(1).is_err());
        drop(large);
        assert!(room.reserve(1).is_ok());
    }

    #[test]
    fn what_cannot_be_refused_is_counted() {
        let room = CoreRoom::new(1, 10);
        let kept = [room.reserve_always(9), room.reserve_always(9)];
        assert_eq!(room.waiting(), (2, 18));
        assert!(room.reserve(1).is_err());
        drop(kept);
    }
}
