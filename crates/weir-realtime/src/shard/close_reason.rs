//! Reasons for closing connections, and the messages about them to clients.

use crate::frame::append_text;
use crate::metrics::Closed;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::websocket::{self, CloseFrame, Message, ProtocolError};

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The client or the network is gone, so nothing can be sent.
    Gone,
    /// The client reads too slowly.
    Slow,
    /// The client neither subscribed nor signed in in time. It may reconnect.
    Unused,
    /// The application's server did not authorize the connection in time.
    Unauthorized,
    /// The client violated the WebSocket protocol.
    Protocol(ProtocolError),
    /// A reason with a code of the Pusher protocol.
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

    /// Appends the messages for the client: an error and a close frame.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Gone => {}
            Self::Slow => {
                write_close(
                    out,
                    CloseCode::OverCapacity,
                    "Too slow: more waits for this client than may",
                );
            }
            Self::Unused => {
                write_close(
                    out,
                    CloseCode::OverCapacity,
                    "Neither subscribed nor signed in in time",
                );
            }
            // The text that Pusher sends.
            Self::Unauthorized => {
                let reason = "Connection not authorized within timeout.";
                write_close(out, CloseCode::Unauthorized, reason);
            }
            Self::Protocol(error) => {
                let reason = error.to_string();
                Message::Close(Some(error.close_frame(&reason))).encode(out, None);
            }
            Self::Code(code) => write_close(out, code, code.reason()),
        }
    }
}

/// Appends an error message, which some clients show, and the close frame.
pub(crate) fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str) {
    append_text(out, |out| server_message::error(out, Some(code), reason));
    let number = websocket::CloseCode::new(code.number());
    let frame = number.map(|code| CloseFrame { code, reason });
    Message::Close(frame).encode(out, None);
}
