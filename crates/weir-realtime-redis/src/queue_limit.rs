//! Limits of what waits: its number, and its bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::gauge::Gauge;

/// Counts what waits, and applies its limits. The counts are metrics.
#[derive(Clone, Debug)]
pub(crate) struct QueueLimit(Arc<QueueCounts>);

#[derive(Debug)]
struct QueueCounts {
    waiting: Gauge<i64, AtomicI64>,
    bytes: Gauge<i64, AtomicI64>,
    waiting_max: i64,
    bytes_max: i64,
}

/// Room for one item, returned on drop.
#[derive(Debug)]
pub(crate) struct QueueRoom {
    counts: Arc<QueueCounts>,
    bytes: i64,
}

/// The limit that an item would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFull {
    Items,
    Bytes,
}

impl QueueLimit {
    pub(crate) fn new(gauges: &QueueGauges, waiting_max: usize, bytes_max: usize) -> Self {
        let QueueGauges { waiting, bytes } = gauges.clone();
        let (waiting_max, bytes_max) = (number(waiting_max), number(bytes_max));
        Self(Arc::new(QueueCounts { waiting, bytes, waiting_max, bytes_max }))
    }

    /// Reserves room, or returns the limit that is reached. An item larger than the limit is accepted if
    /// nothing else waits.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<QueueRoom, QueueFull> {
        let (counts, bytes) = (Arc::clone(&self.0), number(bytes));
        let waiting = counts.waiting.inc() + 1;
        let waiting_bytes = counts.bytes.inc_by(bytes) + bytes;
        let has_too_many = waiting > counts.waiting_max;
        let is_full = has_too_many || waiting_bytes > counts.bytes_max;
        // Dropping the room returns it.
        let room = QueueRoom { counts, bytes };
        match has_too_many {
            _ if !is_full || waiting == 1 => Ok(room),
            true => Err(QueueFull::Items),
            false => Err(QueueFull::Bytes),
        }
    }
}

impl Drop for QueueRoom {
    fn drop(&mut self) {
        self.counts.waiting.dec();
        self.counts.bytes.dec_by(self.bytes);
    }
}

/// The gauges of a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueGauges {
    pub(crate) waiting: Gauge<i64, AtomicI64>,
    pub(crate) bytes: Gauge<i64, AtomicI64>,
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_the_bytes_are_limited_and_room_is_returned() {
        let gauges = QueueGauges::default();
        let limit = QueueLimit::new(&gauges, 2, 100);
        let first = limit.reserve(60).unwrap();
        assert_eq!(limit.reserve(41).unwrap_err(), QueueFull::Bytes);
        let second = limit.reserve(40).unwrap();
        assert_eq!(limit.reserve(0).unwrap_err(), QueueFull::Items);
        assert_eq!((gauges.waiting.get(), gauges.bytes.get()), (2, 100));
        drop((first, second));
        assert_eq!((gauges.waiting.get(), gauges.bytes.get()), (0, 0));
        let large = limit.reserve(1_000).unwrap();
        assert!(limit.reserve(1).is_err(), "a large item passes alone");
        drop(large);
        assert!(limit.reserve(1).is_ok());
    }
}
