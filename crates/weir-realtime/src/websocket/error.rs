//! What a peer can do wrong.

use thiserror::Error;

use super::close::{CloseCode, CloseFrame};
use super::header::Opcode;

/// The peer broke the protocol or passed a limit: the connection is to be closed with
/// [`close_code`](Self::close_code). Each text fits into a close frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// One of the three bits that only extensions use.
    #[error("reserved bits set in a frame: no extension was agreed on, send it uncompressed")]
    ReservedBits,
    /// An opcode that RFC 6455 keeps for later.
    #[error("unknown opcode {opcode}")]
    UnknownOpcode {
        /// 3 - 7 or 11 - 15.
        opcode: u8,
    },
    /// A ping, pong or close without the final bit.
    #[error("{opcode} frame in fragments: control frames come whole")]
    ControlFragmented {
        /// Which one.
        opcode: Opcode,
    },
    /// A ping, pong or close of more than 125 bytes.
    #[error("{opcode} frame of more than 125 bytes")]
    ControlTooLarge {
        /// Which one.
        opcode: Opcode,
    },
    /// A client's frame without a mask.
    #[error("frame without a mask: clients mask every frame")]
    NotMasked,
    /// A server's frame with a mask.
    #[error("frame with a mask: servers mask none")]
    Masked,
    /// A length in more bytes than it needs.
    #[error("payload length of {bytes} in a longer form than needed")]
    LengthNotMinimal {
        /// The length.
        bytes: u64,
    },
    /// A length of 2^63 or more.
    #[error("payload length with its top bit set")]
    LengthTopBit,
    /// A continuation of nothing.
    #[error("continuation frame without a message to continue")]
    ContinuationOfNothing,
    /// A new message before the last fragment of the one before.
    #[error("{opcode} frame in the middle of a fragmented message")]
    MessageInterrupted {
        /// The new message's kind.
        opcode: Opcode,
    },
    /// A text message whose bytes are not UTF-8.
    #[error("text message that is not UTF-8")]
    TextNotUtf8,
    /// A close frame with half a code.
    #[error("close frame of one byte: a code has two")]
    CloseOfOneByte,
    /// A code that may not be sent.
    #[error("close code {code} must not be sent")]
    CloseCodeInvalid {
        /// The code.
        code: u16,
    },
    /// A reason whose bytes are not UTF-8.
    #[error("close reason that is not UTF-8")]
    CloseReasonNotUtf8,
    /// A frame above [`WebsocketLimits::frame_bytes_max`](super::Limits::frame_bytes_max).
    #[error(
        "frame of {bytes} bytes: more than {bytes_max} (realtime.limits.advanced.frame_bytes_max)"
    )]
    FrameTooLarge {
        /// Its length, as announced.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
    /// A message above [`WebsocketLimits::message_bytes_max`](super::Limits::message_bytes_max).
    #[error("message of more than {bytes_max} bytes (realtime.limits.message_bytes_max)")]
    MessageTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// A message above [`WebsocketLimits::message_fragments_max`](super::Limits::message_fragments_max).
    #[error(
        "message in more than {fragments_max} frames (realtime.limits.advanced.message_fragments_max)"
    )]
    TooManyFragments {
        /// The limit.
        fragments_max: u32,
    },
}

impl ProtocolError {
    /// The code of the close frame that answers it: 1002, 1007 or 1009.
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

    /// The close frame that answers it; `reason` is the error's own text.
    #[must_use]
    pub const fn close_frame<'a>(&self, reason: &'a str) -> CloseFrame<'a> {
        CloseFrame { code: self.close_code(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_texts_fit_into_a_close_frame() {
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
