//! Lets tasks wait until the log is durable up to a position.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

use weir_log::Lsn;

use crate::store::StoreError;

/// Tasks that wait for durability. Used on one thread only.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    kept_up_to: Cell<u64>,
    /// Waits up to this position that were not resolved by then have failed.
    broken_up_to: Cell<u64>,
    broken: RefCell<Option<StoreError>>,
    /// Nearly sorted: positions only grow, but futures may be polled late.
    waiting: RefCell<VecDeque<(u64, Waker)>>,
}

impl Promises {
    /// Waits until the log is durable up to `lsn`. Returns an error if that fails.
    pub(crate) fn until(&self, lsn: Lsn) -> impl Future<Output = Result<(), StoreError>> + '_ {
        let mut registered = false;
        poll_fn(move |context| {
            if self.kept_up_to.get() >= lsn.0 {
                return Poll::Ready(Ok(()));
            }
            if self.broken_up_to.get() >= lsn.0
                && let Some(error) = self.broken.borrow().clone()
            {
                return Poll::Ready(Err(error));
            }
            if !registered {
                registered = true;
                self.waiting.borrow_mut().push_back((lsn.0, context.waker().clone()));
            }
            Poll::Pending
        })
    }

    /// Resolves the waits up to `lsn`, up to which the log is durable.
    pub(crate) fn keep(&self, lsn: Lsn) {
        if lsn.0 <= self.kept_up_to.get() {
            return;
        }
        self.kept_up_to.set(lsn.0);
        let mut waiting = self.waiting.borrow_mut();
        while waiting.front().is_some_and(|(wanted, _)| *wanted <= lsn.0) {
            if let Some((_, waker)) = waiting.pop_front() {
                waker.wake();
            }
        }
    }

    /// Fails all waits up to `end` that are not resolved, because they won't be in reasonable time.
    pub(crate) fn break_up_to(&self, end: Lsn, error: StoreError) {
        self.broken_up_to.set(end.0);
        *self.broken.borrow_mut() = Some(error);
        for (_, waker) in self.waiting.borrow_mut().drain(..) {
            waker.wake();
        }
    }
}
