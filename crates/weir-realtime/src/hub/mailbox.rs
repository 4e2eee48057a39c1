//! What one core is told by the others, and by itself: in order, never lost. Its bound is
//! [`Room`](super::room::Room), which is reserved before.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A queue with many writers and one reader.
#[derive(Debug)]
pub(crate) struct Mailbox<T>(Mutex<Inner<T>>);

/// std's lock: held for a push or a swap, never across an await.
#[derive(Debug)]
struct Inner<T> {
    letters: VecDeque<T>,
    reader: Option<Waker>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self(Mutex::new(Inner { letters: VecDeque::new(), reader: None }))
    }
}

impl<T> Mailbox<T> {
    /// Adds a letter.
    pub(crate) fn push(&self, letter: T) {
        let reader = {
            let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            inner.letters.push_back(letter);
            inner.reader.take()
        };
        // Outside the lock: the reader may be another thread, which would wait for it at once.
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Swaps everything that is there into `letters`, which is empty. Pending while nothing is.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        letters: &mut VecDeque<T>,
    ) -> Poll<()> {
        debug_assert!(letters.is_empty(), "letters would be lost");
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.letters.is_empty() {
            inner.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut inner.letters, letters);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_reader_sleeps_until_something_is_there_and_is_woken_once() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (mailbox, mut letters) = (Mailbox::default(), VecDeque::new());
        assert!(mailbox.poll_take(&mut context, &mut letters).is_pending());
        mailbox.push(1);
        mailbox.push(2);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(mailbox.poll_take(&mut context, &mut letters).is_ready());
        assert_eq!(letters, [1, 2]);
    }
}
