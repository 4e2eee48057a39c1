//! One atomic word with the limit in its high half and the permits in use in its low half.
//!
//! All changes are read-modify-writes of this word, so they have one order, and each decision is
//! based on the newest state. In this crate's unit tests the atomics are shuttle's, which explores
//! their interleavings; all other builds (integration tests, benches, other crates) use std's.

#[cfg(not(test))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
pub(super) use shuttle::sync::atomic::{AtomicU64, Ordering};

use super::Usage;

const IN_USE_BITS: u32 = 32;

#[derive(Debug)]
pub(super) struct Permits(AtomicU64);

impl Permits {
    pub(super) fn new(limit: u32) -> Self {
        Self(AtomicU64::new(pack(Usage { in_use: 0, limit })))
    }

    /// Counts one more permit in use, or returns the limit that forbids it.
    ///
    /// Acquire, to pair with [`Permits::give_back`]: what the last holder did under its permit
    /// happened before the next holder continues.
    pub(super) fn take(&self) -> Result<(), u32> {
        let one_more = |word| {
            let usage = unpack(word);
            // Below the limit, hence below u32::MAX: the sum stays in the low half.
            (usage.in_use < usage.limit).then_some(word + 1)
        };
        match self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(word) => Err(unpack(word).limit),
        }
    }

    /// Counts one permit less. Only the drop of a permit calls this, so the low half is not 0.
    pub(super) fn release(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn set_limit(&self, limit: u32) {
        let limited = |word| Some(pack(Usage { limit, ..unpack(word) }));
        // Never an error, because `limited` always returns Some.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, limited);
    }

    pub(super) fn usage(&self) -> Usage {
        unpack(self.0.load(Ordering::Relaxed))
    }
}

const fn pack(usage: Usage) -> u64 {
    (usage.limit as u64) << IN_USE_BITS | usage.in_use as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
const fn unpack(word: u64) -> Usage {
    Usage { in_use: word as u32, limit: (word >> IN_USE_BITS) as u32 }
}
