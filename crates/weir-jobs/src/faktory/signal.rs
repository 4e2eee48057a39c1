//! Signals from the server to one connection, which notices them wherever it waits.
//!
//! Everything runs on one thread, so a signal is a `Cell` and a waker: it costs nothing while a
//! connection waits for its client.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// How a connection continues. The level only increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SignalLevel {
    /// The connection is served normally.
    Serve,
    /// The worker gets no more jobs.
    Quiet,
    /// A waiting FETCH returns null, all commands received are run, then the connection is closed.
    Close,
}

/// The signal of one connection.
#[derive(Debug)]
pub(crate) struct Signal {
    order: Cell<SignalLevel>,
    waker: RefCell<Option<Waker>>,
}

impl Default for Signal {
    fn default() -> Self {
        Self { order: Cell::new(SignalLevel::Serve), waker: RefCell::default() }
    }
}

impl Signal {
    /// Returns the present level.
    pub(crate) fn order(&self) -> SignalLevel {
        self.order.get()
    }

    /// Raises the level. A level that is not higher changes nothing.
    pub(crate) fn give(&self, order: SignalLevel) {
        if order > self.order.get() {
            self.order.set(order);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    /// Returns ready once the level is `order` or higher.
    pub(crate) fn poll_at_least(&self, order: SignalLevel, context: &Context<'_>) -> Poll<()> {
        if self.order.get() >= order {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_level_only_increases() {
        let signal = Signal::default();
        signal.give(SignalLevel::Close);
        signal.give(SignalLevel::Quiet);
        assert_eq!(signal.order(), SignalLevel::Close);
        let context = Context::from_waker(Waker::noop());
        assert!(signal.poll_at_least(SignalLevel::Quiet, &context).is_ready());
    }

    #[test]
    fn lower_signal_level_does_not_end_the_wait() {
        let signal = Signal::default();
        let context = Context::from_waker(Waker::noop());
        signal.give(SignalLevel::Quiet);
        assert!(signal.poll_at_least(SignalLevel::Close, &context).is_pending());
        assert!(signal.poll_at_least(SignalLevel::Quiet, &context).is_ready());
    }
}
