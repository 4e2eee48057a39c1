//! Who got which job: numbers are handed out once, and every job that comes back is ticked off once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers 0 .. limit, each given to one caller.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: AtomicU64,
    limit: u64,
}

impl Numbers {
    pub(crate) fn new(limit: u64) -> Self {
        Self { next: AtomicU64::new(0), limit }
    }

    /// Up to `count` numbers in a row; empty when all are given out.
    pub(crate) fn take(&self, count: u64) -> std::ops::Range<u64> {
        // The load keeps connections that ask in vain from moving `next` for ever.
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

/// What a delivery was.
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

    pub(crate) fn tick_off(&self, number: u64) -> Delivery {
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

    /// How many different jobs came back.
    pub(crate) fn delivered(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_out_once_and_end_at_the_limit() {
        let numbers = Numbers::new(25);
        let ranges: Vec<_> = (0..4).map(|_| numbers.take(10)).collect();
        assert_eq!(ranges, [0..10, 10..20, 20..25, 25..25]);
        assert!(numbers.is_exhausted());
    }

    #[test]
    fn a_second_delivery_and_a_foreign_number_are_told_apart() {
        let ledger = Ledger::new(70);
        assert_eq!(ledger.tick_off(69), Delivery::First);
        assert_eq!(ledger.tick_off(69), Delivery::Repeated);
        assert_eq!(ledger.tick_off(70), Delivery::Unknown);
        assert_eq!(ledger.delivered(), 1);
    }
}
