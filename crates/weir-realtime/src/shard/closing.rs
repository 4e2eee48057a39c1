//! How connections end. Whoever ends has left all channels first.

use std::sync::atomic::Ordering;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::metrics::Closed;
use crate::session::{ConnectionState, SendOutcome};
use crate::websocket::{CloseFrame, Message};

impl Shard {
    /// Ends a connection: it leaves its channels at once; the client is told why and has
    /// `close_timeout` to take that.
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

    /// The client closes: it is answered, and that is the end.
    pub(super) fn answer_close(
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
        let mut answer = Vec::new();
        Message::Close(frame).encode(&mut answer, None);
        self.send(state, key, &answer);
    }

    /// Messages for one client. A client that can't be written to is removed.
    pub(super) fn send(&self, state: &mut ShardState, key: SessionKey, bytes: &[u8]) {
        let session = state.session(key);
        let before = session.waiting_bytes();
        let sent = session.send(bytes);
        self.hub.metrics.queue_changed(before, session.waiting_bytes());
        match sent {
            SendOutcome::Written | SendOutcome::Waits { .. } => {}
            // Its last words, behind a long message that is begun: it has `close_timeout` for both.
            SendOutcome::TooSlow if session.is_closing() => {}
            SendOutcome::TooSlow => self.close(state, key, CloseReason::Slow),
            SendOutcome::Broken => self.close(state, key, CloseReason::Gone),
        }
    }

    /// Forgets a connection, which closes its socket. Its task ends.
    pub(super) fn remove(&self, state: &mut ShardState, key: SessionKey) {
        let session = state.sessions.remove(key as usize);
        self.hub.metrics.removed(session.waiting_bytes());
        self.hub.cores.get(self.index).connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(waker) = &session.waker {
            waker.wake_by_ref();
        }
    }

    /// Ends the connections that took too long to close.
    pub(super) fn remove_overdue(&self, state: &mut ShardState, key: SessionKey) {
        state.session(key).stream.forget_unsent();
        self.remove(state, key);
    }
}
