//! Frame headers: the first 2 - 14 bytes of a frame (RFC 6455, 5.2).

use std::fmt;
use std::ops::Deref;

use super::error::ProtocolError;
use super::limits::Role;
use super::mask::MaskKey;
use super::message::CONTROL_BYTES_MAX;

/// Two bytes, a length of eight bytes, and a mask of four.
pub const HEADER_BYTES_MAX: usize = 14;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
/// Marks a length in two extra bytes. Lengths below this value need none.
const LENGTH_IN_TWO: u8 = 126;
/// Marks a length in eight extra bytes, for lengths above 65,535.
const LENGTH_IN_EIGHT: u8 = 127;

/// A frame's opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation = 0,
    /// A text message, or its first fragment.
    Text = 1,
    /// A binary message, or its first fragment.
    Binary = 2,
    /// The last frame of its sender.
    Close = 8,
    /// A ping. The receiver must send a pong with the same payload.
    Ping = 9,
    /// A pong, sent for a ping or unsolicited.
    Pong = 10,
}

impl Opcode {
    #[inline]
    fn parse(opcode: u8) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return Err(ProtocolError::UnknownOpcode { opcode }),
        })
    }

    /// Returns whether the frame is a close, ping or pong: small, never fragmented, and allowed
    /// between the fragments of a message.
    #[inline]
    #[must_use]
    pub const fn is_control(self) -> bool {
        self as u8 >= Self::Close as u8
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Continuation => "continuation",
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Close => "close",
            Self::Ping => "ping",
            Self::Pong => "pong",
        })
    }
}

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Whether the frame is the last one of its message.
    pub is_final: bool,
    /// The frame's opcode.
    pub opcode: Opcode,
    /// The payload's length.
    pub payload_bytes: u64,
    /// The mask of the payload: always `Some` from a client, never from a server.
    pub mask: Option<MaskKey>,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`. Returns it with its length, or `None` while it is
    /// incomplete. Reports an error as soon as the wrong byte has arrived.
    #[inline]
    pub(crate) fn parse(bytes: &[u8], role: Role) -> Result<Option<(Self, usize)>, ProtocolError> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(ProtocolError::ReservedBits);
        }
        let opcode = Opcode::parse(first & OPCODE)?;
        let is_final = first & FINAL != 0;
        if opcode.is_control() && !is_final {
            return Err(ProtocolError::ControlFragmented { opcode });
        }
        let Some(&second) = bytes.get(1) else { return Ok(None) };
        match (role, second & MASKED != 0) {
            (Role::Server, false) => return Err(ProtocolError::NotMasked),
            (Role::Client, true) => return Err(ProtocolError::Masked),
            _ => {}
        }
        if opcode.is_control() && usize::from(second & LENGTH) > CONTROL_BYTES_MAX {
            return Err(ProtocolError::ControlTooLarge { opcode });
        }
        let Some((payload_bytes, length_end)) = parse_length(bytes, second & LENGTH)? else {
            return Ok(None);
        };
        if role == Role::Client {
            return Ok(Some((Self { is_final, opcode, payload_bytes, mask: None }, length_end)));
        }
        let Some(key) = bytes[length_end..].first_chunk() else { return Ok(None) };
        let mask = Some(MaskKey::new(*key));
        Ok(Some((Self { is_final, opcode, payload_bytes, mask }, length_end + key.len())))
    }

    /// Returns the header's bytes. The payload follows them, masked with `mask` if there is one.
    #[inline]
    #[must_use]
    pub fn encode(&self) -> EncodedHeader {
        let mut encoded = EncodedHeader { bytes: [0; HEADER_BYTES_MAX], length: 0 };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        encoded.push([if self.is_final { FINAL } else { 0 } | self.opcode as u8]);
        let short = u8::try_from(self.payload_bytes).ok().filter(|bytes| *bytes < LENGTH_IN_TWO);
        match (short, u16::try_from(self.payload_bytes)) {
            (Some(bytes), _) => encoded.push([masked | bytes]),
            (None, Ok(bytes)) => {
                encoded.push([masked | LENGTH_IN_TWO]);
                encoded.push(bytes.to_be_bytes());
            }
            (None, Err(_)) => {
                encoded.push([masked | LENGTH_IN_EIGHT]);
                encoded.push(self.payload_bytes.to_be_bytes());
            }
        }
        if let Some(key) = self.mask {
            encoded.push(key.bytes());
        }
        encoded
    }
}

/// Returns the payload's length, and the index after the bytes that hold it.
#[inline]
fn parse_length(bytes: &[u8], short: u8) -> Result<Option<(u64, usize)>, ProtocolError> {
    let (length, least, end) = match short {
        LENGTH_IN_TWO => {
            let Some(length) = bytes[2..].first_chunk() else { return Ok(None) };
            (u64::from(u16::from_be_bytes(*length)), u64::from(LENGTH_IN_TWO), 4)
        }
        LENGTH_IN_EIGHT => {
            let Some(length) = bytes[2..].first_chunk() else { return Ok(None) };
            (u64::from_be_bytes(*length), u64::from(u16::MAX) + 1, 10)
        }
        short => return Ok(Some((u64::from(short), 2))),
    };
    if length >> 63 == 1 {
        return Err(ProtocolError::LengthTopBit);
    }
    if length < least {
        return Err(ProtocolError::LengthNotMinimal { bytes: length });
    }
    Ok(Some((length, end)))
}

/// An encoded header: 2 - 14 bytes, without the heap.
#[derive(Clone, Copy, Debug)]
pub struct EncodedHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    length: usize,
}

impl EncodedHeader {
    #[inline]
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.length..self.length + N].copy_from_slice(&bytes);
        self.length += N;
    }
}

impl Deref for EncodedHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: MaskKey = MaskKey::new([1, 2, 3, 4]);

    fn text(payload_bytes: u64, mask: Option<MaskKey>) -> FrameHeader {
        FrameHeader { is_final: true, opcode: Opcode::Text, payload_bytes, mask }
    }

    fn error(bytes: &[u8]) -> ProtocolError {
        FrameHeader::parse(bytes, Role::Client).expect_err("refused")
    }

    #[test]
    fn lengths_are_encoded_minimally_and_round_trip() {
        let lengths = [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (u64::MAX >> 1, 10)];
        for (payload_bytes, header_bytes) in lengths {
            for (mask, role, more) in [(None, Role::Client, 0), (Some(KEY), Role::Server, 4)] {
                let header = text(payload_bytes, mask);
                let encoded = header.encode();
                assert_eq!(encoded.len(), header_bytes + more);
                assert_eq!(FrameHeader::parse(&encoded, role), Ok(Some((header, encoded.len()))));
                for cut in 0..encoded.len() {
                    assert_eq!(FrameHeader::parse(&encoded[..cut], role), Ok(None));
                }
            }
        }
    }

    #[test]
    fn each_bit_of_the_first_byte_is_interpreted() {
        for first in 0..=u8::MAX {
            let parsed = FrameHeader::parse(&[first, 0], Role::Client);
            let is_final = first & 0x80 != 0;
            match first & 0x0f {
                _ if first & 0x70 != 0 => assert_eq!(parsed, Err(ProtocolError::ReservedBits)),
                opcode @ (3..=7 | 11..=15) => {
                    assert_eq!(parsed, Err(ProtocolError::UnknownOpcode { opcode }));
                }
                8..=10 if !is_final => {
                    assert!(matches!(parsed, Err(ProtocolError::ControlFragmented { .. })));
                }
                opcode => {
                    let (header, _) = parsed.unwrap().expect("whole");
                    assert_eq!((header.opcode as u8, header.is_final), (opcode, is_final));
                }
            }
        }
    }

    #[test]
    fn an_invalid_first_byte_is_rejected_at_once() {
        assert_eq!(error(&[0xc1]), ProtocolError::ReservedBits);
        assert_eq!(error(&[0x83]), ProtocolError::UnknownOpcode { opcode: 3 });
        assert_eq!(error(&[0x09]), ProtocolError::ControlFragmented { opcode: Opcode::Ping });
    }

    #[test]
    fn a_mask_is_required_from_clients_and_forbidden_for_servers() {
        assert_eq!(FrameHeader::parse(&[0x81, 0], Role::Server), Err(ProtocolError::NotMasked));
        assert_eq!(FrameHeader::parse(&[0x81, 0x80], Role::Client), Err(ProtocolError::Masked));
    }

    #[test]
    fn non_minimal_lengths_are_rejected() {
        assert_eq!(error(&[0x82, 126, 0, 125]), ProtocolError::LengthNotMinimal { bytes: 125 });
        let bytes = [0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        assert_eq!(error(&bytes), ProtocolError::LengthNotMinimal { bytes: 65_535 });
        let bytes = [0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(error(&bytes), ProtocolError::LengthTopBit);
    }

    #[test]
    fn a_control_frame_has_a_short_length() {
        let too_large = ProtocolError::ControlTooLarge { opcode: Opcode::Ping };
        assert_eq!(error(&[0x89, 126]), too_large);
        assert_eq!(error(&[0x89, 127]), too_large);
    }
}
