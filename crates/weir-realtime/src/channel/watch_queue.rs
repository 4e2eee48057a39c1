//! Messages queued for one live view of a channel. When the queue is full, the oldest message is
//! dropped and counted, so that a view never slows down publishers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use weir_base::clock::Timestamp;

use crate::frame::Frame;

/// The queue of one live view.
#[derive(Debug)]
pub(crate) struct WatchQueue {
    /// A lock of std: held for a push or a swap, never across an await.
    state: Mutex<WaitingFrames>,
    events_max: usize,
}

#[derive(Debug, Default)]
struct WaitingFrames {
    waiting: VecDeque<(Timestamp, Frame)>,
    dropped: u64,
    reader: Option<Waker>,
}

impl WatchQueue {
    pub(crate) fn new(events_max: usize) -> Self {
        Self { state: Mutex::default(), events_max: events_max.max(1) }
    }

    fn state(&self) -> MutexGuard<'_, WaitingFrames> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message; drops the oldest if the queue is full.
    pub(crate) fn offer(&self, at: Timestamp, frame: &Frame) {
        let reader = {
            let mut state = self.state();
            if state.waiting.len() >= self.events_max {
                state.waiting.pop_front();
                state.dropped += 1;
            }
            state.waiting.push_back((at, frame.clone()));
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<(u64, VecDeque<(Timestamp, Frame)>)> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready((std::mem::take(&mut state.dropped), std::mem::take(&mut state.waiting)))
    }
}
