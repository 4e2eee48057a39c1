//! Codes and reasons of close frames (RFC 6455, 7.4).

use super::error::ProtocolError;

/// The most bytes of a reason: the 125 of a control frame, minus two for the code.
const REASON_BYTES_MAX: usize = 123;

/// A code that is valid in a close frame: 1000 - 1003, 1007 - 1014, or 3000 - 4999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server shuts down, or the user left the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// The endpoint does not accept this kind of message.
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// A text message is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// The message violates a rule outside the protocol.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// The message exceeds a limit.
    pub const MESSAGE_TOO_LARGE: Self = Self(1009);
    /// The server met an unexpected condition.
    pub const INTERNAL_ERROR: Self = Self(1011);

    /// Returns the code if it is valid in a frame. 1005, 1006 and 1015 are not: they exist for APIs
    /// to report that there was no code.
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// Returns the number on the wire.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The code and reason of a close frame that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// The code, for the peer's program.
    pub code: CloseCode,
    /// The reason, for people. When sent, it is cut to 123 bytes, at a character boundary.
    pub reason: &'a str,
}

impl<'a> CloseFrame<'a> {
    /// Parses a payload. It is empty, a code, or a code and a reason.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Option<Self>, ProtocolError> {
        let Some((code, reason)) = payload.split_first_chunk() else {
            return if payload.is_empty() { Ok(None) } else { Err(ProtocolError::CloseOfOneByte) };
        };
        let code = u16::from_be_bytes(*code);
        let code = CloseCode::new(code).ok_or(ProtocolError::CloseCodeInvalid { code })?;
        let reason = std::str::from_utf8(reason).map_err(|_| ProtocolError::CloseReasonNotUtf8)?;
        Ok(Some(Self { code, reason }))
    }

    /// Returns as much of the reason as fits into a frame.
    pub(super) fn reason_that_fits(&self) -> &'a str {
        &self.reason[..self.reason.floor_char_boundary(REASON_BYTES_MAX)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_sendable_close_codes_are_accepted() {
        let valid: Vec<u16> =
            (0..=u16::MAX).filter(|code| CloseCode::new(*code).is_some()).collect();
        let expected: Vec<u16> = (1000..=1003).chain(1007..=1014).chain(3000..=4999).collect();
        assert_eq!(valid, expected);
    }

    #[test]
    fn a_close_payload_is_empty_a_code_or_a_code_with_a_reason() {
        let frame = |code, reason| Ok(Some(CloseFrame { code, reason }));
        assert_eq!(CloseFrame::parse(b""), Ok(None));
        assert_eq!(CloseFrame::parse(b"\x03\xe8"), frame(CloseCode::NORMAL, ""));
        assert_eq!(CloseFrame::parse(b"\x03\xe9bye"), frame(CloseCode::GOING_AWAY, "bye"));
        assert_eq!(CloseFrame::parse(b"\x03"), Err(ProtocolError::CloseOfOneByte));
        assert_eq!(
            CloseFrame::parse(b"\x03\xed"),
            Err(ProtocolError::CloseCodeInvalid { code: 1005 })
        );
        assert_eq!(CloseFrame::parse(b"\x03\xe8\xff"), Err(ProtocolError::CloseReasonNotUtf8));
    }

    #[test]
    fn a_long_close_reason_ends_at_a_character_boundary() {
        let reason = format!("{}{}", "x".repeat(122), "é".repeat(3));
        let frame = CloseFrame { code: CloseCode::NORMAL, reason: &reason };
        assert_eq!(frame.reason_that_fits(), "x".repeat(122));
    }
}
