//! Closing connections. A connection leaves all of its channels before it closes.

use std::sync::atomic::Ordering;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::metrics::Closed;
use crate::session::{ConnectionState, SendOutcome};
use crate::websocket::{CloseFrame, Message};

impl Shard {
    /// Closes a connection. It leaves its channels at once. The client gets the reason, and must
    /// close too within `close_timeout`.
    pub(super) fn close(&self, state: &mut ShardState, key: SessionKey, reason: CloseReason) {
        let session = state.session(key);
        if session.is_closing() {
            if reason == CloseReason::Gone {
                self.remove(state, key);
            }
            return;
        }
        self.hub.metrics.closed(reason.counted_as());
        let until = self.hub.clock.now() + self.hub.settings().limits.close_timeout;
        session.state = ConnectionState::Closing { until };
        self.leave_all(state, key);
        if reason == CloseReason::Gone {
            return self.remove(state, key);
        }
        let session = state.session(key);
        if reason == CloseReason::Slow {
            let before = session.waiting_bytes();
            if let Some(outbox) = &mut session.outbox {
                outbox.clear();
            }
            self.hub.metrics.queue_changed(before, session.waiting_bytes());
        }
        let mut last_words = Vec::new();
        reason.write(&mut last_words);
        self.send(state, key, &last_words);
    }

    /// Answers a client's close frame and closes the connection.
    pub(super) fn reply_to_close(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        frame: Option<CloseFrame<'_>>,
    ) {
        let until = self.hub.clock.now() + self.hub.settings().limits.close_timeout;
        let was_closing = state.session(key).is_closing();
        state.session(key).state = ConnectionState::Leaving { until };
        if was_closing {
            return;
        }
        self.hub.metrics.closed(Closed::Client);
        self.leave_all(state, key);
        let mut reply = Vec::new();
        Message::Close(frame).encode(&mut reply, None);
        self.send(state, key, &reply);
    }

    /// Sends messages to one client. Closes the connection if they can't be written.
    pub(super) fn send(&self, state: &mut ShardState, key: SessionKey, bytes: &[u8]) {
        let session = state.session(key);
        let before = session.waiting_bytes();
        let sent = session.send(bytes);
        self.hub.metrics.queue_changed(before, session.waiting_bytes());
        match sent {
            SendOutcome::Written | SendOutcome::Waits { .. } => {}
            // The close frame is queued behind a message that is partly written. `close_timeout`
            // applies to both.
            SendOutcome::TooSlow if session.is_closing() => {}
            SendOutcome::TooSlow => self.close(state, key, CloseReason::Slow),
            SendOutcome::Broken => self.close(state, key, CloseReason::Gone),
        }
    }

    /// Removes a connection, which closes its socket and ends its task.
    pub(super) fn remove(&self, state: &mut ShardState, key: SessionKey) {
        let session = state.sessions.remove(key as usize);
        self.hub.metrics.removed(session.waiting_bytes());
        self.hub.cores.get(self.index).connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(waker) = &session.waker {
            waker.wake_by_ref();
        }
    }

    /// Removes a connection that took too long to close, and discards its unsent data.
    pub(super) fn remove_overdue(&self, state: &mut ShardState, key: SessionKey) {
        state.session(key).stream.forget_unsent();
        self.remove(state, key);
    }
}
