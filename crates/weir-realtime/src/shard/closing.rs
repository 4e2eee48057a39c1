//! How connections end. Whoever ends has left all channels first.

use std::sync::atomic::Ordering;

use super::{Shard, State};
use crate::fanout::SessionKey;
use crate::frame::append_text;
use crate::metrics::Closed;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::session::{Sent, State as Life};
use crate::websocket::{self, CloseFrame, Message, ProtocolError};

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The client or the network is gone: nothing can be said.
    Gone,
    /// It reads too slowly.
    Slow,
    /// It neither subscribed nor signed in in time: it may come back when it wants to.
    Unused,
    /// The application's server did not authorise it in time.
    Unauthorized,
    /// It broke the WebSocket protocol.
    Protocol(ProtocolError),
    /// For a reason of Pusher's protocol.
    Code(CloseCode),
}

impl Why {
    fn counted_as(self) -> Closed {
        match self {
            Self::Gone => Closed::Client,
            Self::Slow => Closed::Slow,
            Self::Unused => Closed::Unused,
            Self::Unauthorized => Closed::Unauthorized,
            Self::Protocol(_) => Closed::Protocol,
            Self::Code(CloseCode::NoPong) => Closed::NoPong,
            Self::Code(CloseCode::Unauthorized) => Closed::Terminated,
            Self::Code(CloseCode::NoSuchApp | CloseCode::AppDisabled) => Closed::App,
            Self::Code(_) => Closed::Drain,
        }
    }
}

impl Shard {
    /// Ends a connection: it leaves its channels at once; the client is told why and has
    /// `close_timeout` to take that.
    pub(super) fn close(&self, state: &mut State, key: SessionKey, why: Why) {
        let session = state.session(key);
        if session.is_closing() {
            if why == Why::Gone {
                self.remove(state, key);
            }
            return;
        }
        self.hub.metrics.closed(why.counted_as());
        let until = self.hub.clock.now() + self.hub.settings().limits.close_timeout;
        session.state = Life::Closing { until };
        self.leave_all(state, key);
        if why == Why::Gone {
            return self.remove(state, key);
        }
        let session = state.session(key);
        if why == Why::Slow {
            let before = session.waiting_bytes();
            if let Some(outbox) = &mut session.outbox {
                outbox.clear();
            }
            self.hub.metrics.queue_changed(before, session.waiting_bytes());
        }
        let mut last_words = Vec::new();
        say_why(&mut last_words, why);
        self.send(state, key, &last_words);
    }

    /// The client closes: it is answered, and that is the end.
    pub(super) fn answer_close(
        &self,
        state: &mut State,
        key: SessionKey,
        frame: Option<CloseFrame<'_>>,
    ) {
        let until = self.hub.clock.now() + self.hub.settings().limits.close_timeout;
        let was_closing = state.session(key).is_closing();
        state.session(key).state = Life::Leaving { until };
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
    pub(super) fn send(&self, state: &mut State, key: SessionKey, bytes: &[u8]) {
        let session = state.session(key);
        let before = session.waiting_bytes();
        let sent = session.send(bytes);
        self.hub.metrics.queue_changed(before, session.waiting_bytes());
        match sent {
            Sent::Written | Sent::Waits { .. } => {}
            // Its last words, behind a long message that is begun: it has `close_timeout` for both.
            Sent::TooSlow if session.is_closing() => {}
            Sent::TooSlow => self.close(state, key, Why::Slow),
            Sent::Broken => self.close(state, key, Why::Gone),
        }
    }

    /// Forgets a connection, which closes its socket. Its task ends.
    pub(super) fn remove(&self, state: &mut State, key: SessionKey) {
        let session = state.sessions.remove(key as usize);
        self.hub.metrics.removed(session.waiting_bytes());
        self.hub.cores.get(self.index).connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(waker) = &session.waker {
            waker.wake_by_ref();
        }
    }

    /// Ends the connections that took too long to close.
    pub(super) fn remove_overdue(&self, state: &mut State, key: SessionKey) {
        state.session(key).stream.forget_unsent();
        self.remove(state, key);
    }
}

fn say_why(out: &mut Vec<u8>, why: Why) {
    match why {
        Why::Gone => {}
        Why::Slow => {
            say_code(out, CloseCode::OverCapacity, "Too slow: more waits for this client than may");
        }
        Why::Unused => {
            say_code(out, CloseCode::OverCapacity, "Neither subscribed nor signed in in time");
        }
        // As the original says it.
        Why::Unauthorized => {
            let reason = "Connection not authorized within timeout.";
            say_code(out, CloseCode::Unauthorized, reason);
        }
        Why::Protocol(error) => {
            let reason = error.to_string();
            Message::Close(Some(error.close_frame(&reason))).encode(out, None);
        }
        Why::Code(code) => say_code(out, code, code.reason()),
    }
}

/// The error as a message, for who shows it, and the close frame.
pub(crate) fn say_code(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    append_text(out, |out| server_message::error(out, Some(code), reason));
    let number = websocket::CloseCode::new(code.number());
    let frame = number.map(|code| CloseFrame { code, reason });
    Message::Close(frame).encode(out, None);
}
