//! The deadlines of a core's exchanges, with one timer for all.
//!
//! A tokio timer in each request's future makes the future some 400 bytes larger and aligns it to
//! two cache lines, which costs time whenever it is moved or allocated. Together with arming the
//! timer that took 0.2 µs for each request. Limits here are seconds, so a tick is exact enough.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

/// The resolution of deadlines, and of waits in queues.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// The deadlines of a core.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// How many ticks have passed.
    now: Cell<u64>,
    /// One entry for each waiting future.
    waiting: RefCell<Slab<DeadlineWaker>>,
}

#[derive(Debug)]
struct DeadlineWaker {
    until: u64,
    waker: Waker,
}

/// The error when a deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

impl Deadlines {
    /// Advances the time by one [`TICK`] and wakes the futures whose deadline has passed.
    pub(super) fn tick(&self) {
        self.now.set(self.now.get() + 1);
        for (_, waiting) in &*self.waiting.borrow() {
            if waiting.until <= self.now.get() {
                waiting.waker.wake_by_ref();
            }
        }
    }

    /// Limits `future` to `time_limit`, or at most one tick more.
    pub(super) fn within<F>(&self, time_limit: Duration, future: F) -> Within<'_, F>
    where
        F: Future + Unpin,
    {
        let ticks = u64::try_from(time_limit.as_nanos().div_ceil(TICK.as_nanos()));
        // One more, because part of the present tick has passed.
        let until = self.now.get().saturating_add(ticks.unwrap_or(u64::MAX)).saturating_add(1);
        Within { deadlines: self, until, key: None, future }
    }
}

/// A future with a deadline, created by [`Deadlines::within`].
#[derive(Debug)]
pub(super) struct Within<'a, F> {
    deadlines: &'a Deadlines,
    until: u64,
    /// None: it was never pending.
    key: Option<usize>,
    future: F,
}

impl<F: Future + Unpin> Future for Within<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.future).poll(context) {
            return Poll::Ready(Ok(output));
        }
        if self.until <= self.deadlines.now.get() {
            return Poll::Ready(Err(Elapsed));
        }
        let mut waiting = self.deadlines.waiting.borrow_mut();
        match self.key {
            Some(key) => waiting[key].waker.clone_from(context.waker()),
            None => {
                let waker = context.waker().clone();
                let key = waiting.insert(DeadlineWaker { until: self.until, waker });
                drop(waiting);
                self.key = Some(key);
            }
        }
        Poll::Pending
    }
}

impl<F> Drop for Within<'_, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.deadlines.waiting.borrow_mut().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_deadline_wakes_its_waiter_once_it_has_passed() {
        let deadlines = Deadlines::default();
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut late = pin!(deadlines.within(3 * TICK, pending::<()>()));
        assert!(late.as_mut().poll(&mut context).is_pending());
        for _ in 0..3 {
            deadlines.tick();
            assert!(late.as_mut().poll(&mut context).is_pending(), "a tick may be short");
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        deadlines.tick();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(Err(Elapsed)));
    }

    #[test]
    fn finished_deadlines_are_removed() {
        let deadlines = Deadlines::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut quick = deadlines.within(TICK, ready(7));
        assert_eq!(Pin::new(&mut quick).poll(&mut context), Poll::Ready(Ok(7)));
        let mut given_up = deadlines.within(TICK, pending::<()>());
        assert!(Pin::new(&mut given_up).poll(&mut context).is_pending());
        assert_eq!(deadlines.waiting.borrow().len(), 1);
        drop(given_up);
        assert!(deadlines.waiting.borrow().is_empty());
    }
}
