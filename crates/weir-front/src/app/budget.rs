//! The memory limit of an app for bodies of clients that are slower than its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit of bytes that all cores share; clones refer to the same budget.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    used: AtomicUsize,
    max: usize,
}

/// Bytes taken from a budget, which its drop returns.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Account { used: AtomicUsize::new(0), max }))
    }

    /// Takes `bytes` from the budget. Returns None if fewer are left.
    pub(crate) fn take(&self, bytes: usize) -> Option<Lease> {
        let used = self.0.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        // Its drop returns the bytes if they exceed the limit.
        let lease = Lease { budget: self.clone(), bytes };
        (used <= self.0.max).then_some(lease)
    }

    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Lease {
    /// Takes `bytes` more, and returns whether the budget had them.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let Some(mut more) = self.budget.take(bytes) else { return false };
        // `self` now owns these bytes, so the drop of `more` must not return them.
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
    fn the_budget_returns_leases_and_rejects_the_excess() {
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
