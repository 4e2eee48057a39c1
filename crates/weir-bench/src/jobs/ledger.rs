//! Which jobs were delivered: each number is assigned once, and each delivery is recorded.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers 0 .. limit, each of which is assigned once.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicU64,
    limit: u64,
}

impl Numbers {
    pub(crate) fn new(limit: u64) -> Self {
        Self { next: AtomicU64::new(0), limit }
    }

    /// Returns up to `count` consecutive numbers, or none when all are assigned.
    pub(crate) fn take(&self, count: u64) -> std::ops::Range<u64> {
        // Without this check `next` would grow on every call.
        if self.next.load(Ordering::Relaxed) >= self.limit {
            return self.limit..self.limit;
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed).min(self.limit);
        first..(first + count).min(self.limit)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit
    }
}

/// One bit per job of the run.
#[derive(Debug)]
pub(crate) struct Ledger {
    bits: Vec<AtomicU64>,
    jobs: u64,
}

/// Kinds of deliveries.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Delivery {
    First,
    Repeated,
    /// A number that was never pushed.
    Unknown,
}

impl Ledger {
    pub(crate) fn new(jobs: u64) -> Self {
        let words = usize::try_from(jobs.div_ceil(64)).unwrap_or(usize::MAX);
        Self { bits: (0..words).map(|_| AtomicU64::new(0)).collect(), jobs }
    }

    pub(crate) fn mark_delivered(&self, number: u64) -> Delivery {
        if number >= self.jobs {
            return Delivery::Unknown;
        }
        let word = &self.bits[usize::try_from(number / 64).unwrap_or(0)];
        let bit = 1_u64 << (number % 64);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            Delivery::First
        } else {
            Delivery::Repeated
        }
    }

    /// Returns how many different jobs were delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_assigned_once_up_to_the_limit() {
        let numbers = Numbers::new(25);
        let ranges: Vec<_> = (0..4).map(|_| numbers.take(10)).collect();
        assert_eq!(ranges, [0..10, 10..20, 20..25, 25..25]);
        assert!(numbers.is_exhausted());
    }

    #[test]
    fn repeated_and_unknown_deliveries_differ() {
        let ledger = Ledger::new(70);
        assert_eq!(ledger.mark_delivered(69), Delivery::First);
        assert_eq!(ledger.mark_delivered(69), Delivery::Repeated);
        assert_eq!(ledger.mark_delivered(70), Delivery::Unknown);
        assert_eq!(ledger.delivered(), 1);
    }
}
