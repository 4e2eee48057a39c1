//! Messages to one core from all cores: in order and never lost. The queue itself is unlimited:
//! senders first reserve room in [`CoreBudget`](super::budget::CoreBudget).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// A queue with many writers and one reader.
#[derive(Debug)]
pub(crate) struct Mailbox<T>(Mutex<MailboxQueue<T>>);

/// A lock of std guards it: held for a push or a swap, never across an await.
#[derive(Debug)]
struct MailboxQueue<T> {
    messages: VecDeque<T>,
    reader: Option<Waker>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self(Mutex::new(MailboxQueue { messages: VecDeque::new(), reader: None }))
    }
}

impl<T> Mailbox<T> {
    /// Adds a message.
    pub(crate) fn push(&self, message: T) {
        let reader = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.messages.push_back(message);
            state.reader.take()
        };
        // Wake outside the lock: the reader may be another thread, which would wait for the lock.
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Swaps all messages into `messages`, which must be empty. Pending while the mailbox is empty.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        messages: &mut VecDeque<T>,
    ) -> Poll<()> {
        debug_assert!(messages.is_empty(), "messages would be lost");
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.messages.is_empty() {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut state.messages, messages);
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
    fn a_mailbox_reader_is_woken_once() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (mailbox, mut messages) = (Mailbox::default(), VecDeque::new());
        assert!(mailbox.poll_take(&mut context, &mut messages).is_pending());
        mailbox.push(1);
        mailbox.push(2);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(mailbox.poll_take(&mut context, &mut messages).is_ready());
        assert_eq!(messages, [1, 2]);
    }
}
