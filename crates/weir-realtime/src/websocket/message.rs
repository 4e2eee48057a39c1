//! Messages that a session receives and sends.

use super::close::CloseFrame;
use super::error::ProtocolError;
use super::header::{FrameHeader, Opcode};
use super::mask::MaskKey;

/// The most bytes of the payload of a ping, pong or close frame (RFC 6455, 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// A complete message, or a control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A text message.
    Text(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
    /// A ping of at most [`CONTROL_BYTES_MAX`]. The receiver must send a pong with the same
    /// payload.
    Ping(&'a [u8]),
    /// A pong, sent for a ping or unsolicited.
    Pong(&'a [u8]),
    /// The last message of its sender. The receiver must send a close frame too, unless it already
    /// has.
    Close(Option<CloseFrame<'a>>),
}

impl<'a> Message<'a> {
    /// Builds a message from the payload of a frame or of all fragments. `opcode` is that of the
    /// first.
    #[inline]
    pub(super) fn parse(opcode: Opcode, payload: &'a [u8]) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            Opcode::Text => {
                Self::Text(std::str::from_utf8(payload).map_err(|_| ProtocolError::TextNotUtf8)?)
            }
            Opcode::Binary | Opcode::Continuation => Self::Binary(payload),
            Opcode::Ping => Self::Ping(payload),
            Opcode::Pong => Self::Pong(payload),
            Opcode::Close => Self::Close(CloseFrame::parse(payload)?),
        })
    }

    /// Appends the message as one frame. Clients must mask it with a key, servers must not. A
    /// reason that is too long for a close frame is cut.
    ///
    /// # Panics
    /// Panics if a ping or a pong is longer than [`CONTROL_BYTES_MAX`].
    #[inline]
    pub fn encode(&self, output: &mut Vec<u8>, mask: Option<MaskKey>) {
        match self {
            Self::Text(text) => append(output, Opcode::Text, &[text.as_bytes()], mask),
            Self::Binary(bytes) => append(output, Opcode::Binary, &[bytes], mask),
            Self::Ping(payload) => append_control(output, Opcode::Ping, payload, mask),
            Self::Pong(payload) => append_control(output, Opcode::Pong, payload, mask),
            Self::Close(None) => append(output, Opcode::Close, &[], mask),
            Self::Close(Some(frame)) => {
                let code = frame.code.get().to_be_bytes();
                let reason = frame.reason_that_fits().as_bytes();
                append(output, Opcode::Close, &[&code, reason], mask);
            }
        }
    }
}

fn append_control(output: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: Option<MaskKey>) {
    assert!(
        payload.len() <= CONTROL_BYTES_MAX,
        "{opcode} of {} bytes: more than {CONTROL_BYTES_MAX}",
        payload.len()
    );
    append(output, opcode, &[payload], mask);
}

#[inline]
fn append(output: &mut Vec<u8>, opcode: Opcode, payload: &[&[u8]], mask: Option<MaskKey>) {
    let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
    let header =
        FrameHeader { is_final: true, opcode, payload_bytes: payload_bytes as u64, mask }.encode();
    output.reserve(header.len() + payload_bytes);
    output.extend_from_slice(&header);
    let payload_start = output.len();
    for part in payload {
        output.extend_from_slice(part);
    }
    if let Some(mut key) = mask {
        key.apply(&mut output[payload_start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::close::CloseCode;
    use super::*;

    fn encoded(message: Message<'_>) -> Vec<u8> {
        let mut output = Vec::new();
        message.encode(&mut output, None);
        output
    }

    /// The examples of RFC 6455, 5.7.
    #[test]
    fn header_examples_of_the_standard_are_encoded() {
        assert_eq!(encoded(Message::Text("Hello")), b"\x81\x05Hello");
        assert_eq!(encoded(Message::Ping(b"Hello")), b"\x89\x05Hello");
        assert_eq!(encoded(Message::Binary(&[0; 256]))[..4], *b"\x82\x7e\x01\x00");
        assert_eq!(
            encoded(Message::Binary(&[0; 65_536]))[..10],
            *b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"
        );
        let mut masked = Vec::new();
        let key = MaskKey::new([0x37, 0xfa, 0x21, 0x3d]);
        Message::Text("Hello").encode(&mut masked, Some(key));
        assert_eq!(masked, b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
    }

    #[test]
    fn a_frame_is_appended_to_existing_bytes() {
        let mut output = b"before".to_vec();
        Message::Pong(b"x").encode(&mut output, None);
        assert_eq!(output, b"before\x8a\x01x");
    }

    #[test]
    fn a_close_frame_is_empty_or_has_a_code_and_a_truncated_reason() {
        assert_eq!(encoded(Message::Close(None)), b"\x88\x00");
        let reason = "x".repeat(200);
        let frame = CloseFrame { code: CloseCode::GOING_AWAY, reason: &reason };
        let bytes = encoded(Message::Close(Some(frame)));
        assert_eq!(bytes[..4], *b"\x88\x7d\x03\xe9");
        assert_eq!(bytes.len(), 2 + CONTROL_BYTES_MAX);
    }

    #[test]
    #[should_panic(expected = "ping of 126 bytes")]
    fn an_overlong_ping_panics() {
        encoded(Message::Ping(&[0; 126]));
    }
}
