//! The buffers for incomplete lines and unsent replies, over all connections.
//!
//! A connection holds a buffer only while there is something in it, so an idle one needs no memory.
//! Buffers start with [`BUFFER_BYTES`]; one that grew for a large line is freed afterwards. All
//! capacity in use is counted. Growing beyond `limits.buffered_bytes_max` is rejected, but a small
//! buffer is always granted (at most two per connection), so that ordinary commands keep working.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The initial capacity of a buffer: a few dozen ordinary commands.
pub(crate) const BUFFER_BYTES: usize = 16 << 10;
/// Maximum number of free buffers: 1 MiB in all. Only as many are in use as commands are in
/// progress.
const FREE_BUFFERS_MAX: usize = 64;

/// The free buffers, and the count of bytes in use.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    used_bytes: Cell<usize>,
}

/// A buffer in use. Dropping it returns it to the free buffers.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    counted_bytes: usize,
    home: Rc<Buffers>,
}

/// The error that growing a buffer would exceed `limits.buffered_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Buffers {
    /// Returns an empty buffer.
    pub(crate) fn take(self: &Rc<Self>) -> Buffer {
        let bytes = self.free.borrow_mut().pop();
        let bytes = bytes.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        let mut buffer = Buffer { bytes, counted_bytes: 0, home: Rc::clone(self) };
        buffer.count();
        buffer
    }

    /// Returns the capacity of all buffers in use, in bytes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }
}

impl Buffer {
    /// Grows the capacity up to `bytes_max`, if all buffers together stay within `total_max`.
    /// Quadruples it, so that a large line is rarely copied.
    pub(crate) fn grow(&mut self, bytes_max: usize, total_max: usize) -> Result<(), NoRoom> {
        let target = (self.bytes.capacity() * 4).min(bytes_max).max(self.bytes.len() + 1);
        let more = target.saturating_sub(self.bytes.capacity());
        if self.home.used_bytes.get() + more > total_max {
            return Err(NoRoom);
        }
        self.bytes.reserve_exact(target - self.bytes.len());
        self.count();
        Ok(())
    }

    /// Updates the count to the buffer's present capacity.
    pub(crate) fn count(&mut self) {
        let used = self.home.used_bytes.get() - self.counted_bytes + self.bytes.capacity();
        self.counted_bytes = self.bytes.capacity();
        self.home.used_bytes.set(used);
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.used_bytes.set(self.home.used_bytes.get() - self.counted_bytes);
        let mut free = self.home.free.borrow_mut();
        if self.bytes.capacity() == BUFFER_BYTES && free.len() < FREE_BUFFERS_MAX {
            self.bytes.clear();
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_stops_at_the_total_until_buffers_are_dropped() {
        let buffers = Rc::new(Buffers::default());
        let mut large = buffers.take();
        let total = 100 * BUFFER_BYTES;
        while large.grow(1 << 30, total).is_ok() {}
        assert!(buffers.used_bytes() <= total);
        assert!(large.capacity() * 4 > total);
        let mut second = buffers.take();
        second.resize(BUFFER_BYTES, 0);
        drop(large);
        assert_eq!(buffers.used_bytes(), BUFFER_BYTES);
        assert_eq!(second.grow(1 << 30, total), Ok(()));
    }

    #[test]
    fn only_small_buffers_are_kept() {
        let buffers = Rc::new(Buffers::default());
        let mut one = buffers.take();
        one.extend_from_slice(&[0; BUFFER_BYTES + 1]);
        one.count();
        drop(one);
        assert!(buffers.free.borrow().is_empty());
        drop(buffers.take());
        assert_eq!(buffers.free.borrow().len(), 1);
        assert!(buffers.take().is_empty());
        assert_eq!(buffers.used_bytes(), 0);
    }
}
