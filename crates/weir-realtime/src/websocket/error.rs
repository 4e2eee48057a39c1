//! Errors of the peer.

use thiserror::Error;

use super::close::{CloseCode, CloseFrame};
use super::header::Opcode;

/// The peer violated the protocol or exceeded a limit. The connection must be closed with
/// [`close_code`](Self::close_code). The text of each error fits into a close frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// A reserved bit is set, which only extensions use.
    #[error("reserved bits set in a frame: no extension was agreed on, send it uncompressed")]
    ReservedBits,
    /// The opcode is reserved by RFC 6455.
    #[error("unknown opcode {opcode}")]
    UnknownOpcode {
        /// The opcode: 3 - 7 or 11 - 15.
        opcode: u8,
    },
    /// A ping, pong or close frame is not final.
    #[error("{opcode} frame in fragments: control frames come whole")]
    ControlFragmented {
        /// The frame's opcode.
        opcode: Opcode,
    },
    /// A ping, pong or close frame has more than 125 bytes.
    #[error("{opcode} frame of more than 125 bytes")]
    ControlTooLarge {
        /// The frame's opcode.
        opcode: Opcode,
    },
    /// A client's frame has no mask.
    #[error("frame without a mask: clients mask every frame")]
    NotMasked,
    /// A server's frame has a mask.
    #[error("frame with a mask: servers mask none")]
    Masked,
    /// A length uses more bytes than necessary.
    #[error("payload length of {bytes} in a longer form than needed")]
    LengthNotMinimal {
        /// The length.
        bytes: u64,
    },
    /// A length is 2^63 or more.
    #[error("payload length with its top bit set")]
    LengthTopBit,
    /// A continuation frame has no message to continue.
    #[error("continuation frame without a message to continue")]
    ContinuationOfNothing,
    /// A new message began before the previous one ended.
    #[error("{opcode} frame in the middle of a fragmented message")]
    MessageInterrupted {
        /// The kind of the new message.
        opcode: Opcode,
    },
    /// A text message is not UTF-8.
    #[error("text message that is not UTF-8")]
    TextNotUtf8,
    /// A close frame has only half of a code.
    #[error("close frame of one byte: a code has two")]
    CloseOfOneByte,
    /// A close code is not valid in a frame.
    #[error("close code {code} must not be sent")]
    CloseCodeInvalid {
        /// The code.
        code: u16,
    },
    /// A close reason is not UTF-8.
    #[error("close reason that is not UTF-8")]
    CloseReasonNotUtf8,
    /// A frame exceeds
    /// [`WebsocketLimits::frame_bytes_max`](super::WebsocketLimits::frame_bytes_max).
    #[error(
        "frame of {bytes} bytes: more than {bytes_max} (realtime.limits.advanced.frame_bytes_max)"
    )]
    FrameTooLarge {
        /// The announced length of the frame.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// A message exceeds
    /// [`WebsocketLimits::message_bytes_max`](super::WebsocketLimits::message_bytes_max).
    #[error("message of more than {bytes_max} bytes (realtime.limits.message_bytes_max)")]
    MessageTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// A message has more frames than
    /// [`message_fragments_max`](super::WebsocketLimits::message_fragments_max).
    #[error(
        "message in more than {fragments_max} frames (realtime.limits.advanced.message_fragments_max)"
    )]
    TooManyFragments {
        /// The limit.
        fragments_max: u32,
    },
}

impl ProtocolError {
    /// Returns the code of the close frame to send: 1002, 1007 or 1009.
    #[must_use]
    pub const fn close_code(&self) -> CloseCode {
        match self {
            Self::TextNotUtf8 | Self::CloseReasonNotUtf8 => CloseCode::INVALID_DATA,
            Self::FrameTooLarge { .. }
            | Self::MessageTooLarge { .. }
            | Self::TooManyFragments { .. } => CloseCode::MESSAGE_TOO_LARGE,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }

    /// Returns the close frame to send. `reason` is the text of the error.
    #[must_use]
    pub const fn close_frame<'a>(&self, reason: &'a str) -> CloseFrame<'a> {
        CloseFrame { code: self.close_code(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_error_texts_fit_into_a_close_frame() {
        let longest = [
            ProtocolError::ReservedBits,
            ProtocolError::LengthNotMinimal { bytes: u64::from(u16::MAX) },
            ProtocolError::FrameTooLarge { bytes: u64::MAX >> 1, bytes_max: usize::MAX },
            ProtocolError::MessageTooLarge { bytes_max: usize::MAX },
            ProtocolError::TooManyFragments { fragments_max: u32::MAX },
        ];
        for error in longest {
            let text = error.to_string();
            assert!(text.len() <= 123, "{} bytes: {text}", text.len());
        }
    }
}
