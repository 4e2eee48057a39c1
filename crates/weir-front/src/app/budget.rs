//! What an app holds in memory for clients that are slower than its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes for all cores; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    used: AtomicUsize,
    max: usize,
}

/// Bytes that were taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Account { used: AtomicUsize::new(0), max }))
    }

    /// None: so much is not left.
    pub(crate) fn take(&self, bytes: usize) -> Option<Lease> {
        let used = self.0.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // Dropped if it was too much, so it gives back what it took.
        let lease = Lease { budget: self.clone(), bytes };
        (used <= self.0.max).then_some(lease)
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Lease {
    /// Whether so much more was left, and is taken.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Some(mut more) = self.budget.take(bytes) else { return false };
        // It gives nothing back by itself any more.
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_and_too_much_is_not_given() {
        let budget = ByteBudget::new(100);
        let first = budget.take(60);
        assert!(first.is_some() && budget.take(41).is_none());
        assert_eq!(budget.used(), 60, "the refused bytes are not counted");
        let second = budget.take(40);
        assert!(second.is_some());
        drop(first);
        assert_eq!(budget.used(), 40);
        let mut grown = second.expect("taken");
        assert!(grown.grow(50) && !grown.grow(11));
        assert_eq!(budget.used(), 90);
        drop(grown);
        assert_eq!(budget.used(), 0);
    }
}
