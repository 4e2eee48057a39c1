//! Why connections end, and how clients are told.

use crate::frame::append_text;
use crate::metrics::Closed;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::websocket::{self, CloseFrame, Message, ProtocolError};

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
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

impl CloseReason {
    pub(super) fn counted_as(self) -> Closed {
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

    /// Appends what the client is told: an error and a close frame.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Gone => {}
            Self::Slow => {
                say_code(
                    out,
                    CloseCode::OverCapacity,
                    "Too slow: more waits for this client than may",
                );
            }
            Self::Unused => {
                say_code(out, CloseCode::OverCapacity, "Neither subscribed nor signed in in time");
            }
            // As the original says it.
            Self::Unauthorized => {
                let reason = "Connection not authorized within timeout.";
                say_code(out, CloseCode::Unauthorized, reason);
            }
            Self::Protocol(error) => {
                let reason = error.to_string();
                Message::Close(Some(error.close_frame(&reason))).encode(out, None);
            }
            Self::Code(code) => say_code(out, code, code.reason()),
        }
    }
}

/// The error as a message, for who shows it, and the close frame.
pub(crate) fn say_code(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    append_text(out, |out| server_message::error(out, Some(code), reason));
    let number = websocket::CloseCode::new(code.number());
    let frame = number.map(|code| CloseFrame { code, reason });
    Message::Close(frame).encode(out, None);
}
