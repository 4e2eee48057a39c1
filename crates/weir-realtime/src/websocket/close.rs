//! Why a connection is closed (RFC 6455, 7.4).

use super::error::ProtocolError;

/// Bytes of a reason: a control frame's 125 without the code.
const REASON_BYTES_MAX: usize = 123;

/// A code that may stand in a close frame: 1000 - 1003, 1007 - 1014, or 3000 - 4999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseCode(u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: Self = Self(1000);
    /// The server goes down, or the page was left.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1002);
    /// The endpoint can't take this kind of message.
    pub const UNSUPPORTED_DATA: Self = Self(1003);
    /// Text that is not UTF-8.
    pub const INVALID_DATA: Self = Self(1007);
    /// The message breaks a rule that is not the protocol's.
    pub const POLICY_VIOLATION: Self = Self(1008);
    /// The message passes a limit.
    pub const MESSAGE_TOO_LARGE: Self = Self(1009);
    /// The server met something that it did not expect.
    pub const INTERNAL_ERROR: Self = Self(1011);

    /// The code, if it may stand in a frame. 1005, 1006 and 1015 may not: they are for an API to
    /// say that there was none.
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// What a close frame says, if it says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// For the program at the other end.
    pub code: CloseCode,
    /// For people. What is sent ends after 123 bytes, at a character's boundary.
    pub reason: &'a str,
}

impl<'a> CloseFrame<'a> {
    /// The payload's meaning: none, a code, or a code and a reason.
    pub(super) fn parse(payload: &'a [u8]) -> Result<Option<Self>, ProtocolError> {
        let Some((code, reason)) = payload.split_first_chunk() else {
            return if payload.is_empty() { Ok(None) } else { Err(ProtocolError::CloseOfOneByte) };
        };
        let code = u16::from_be_bytes(*code);
        let code = CloseCode::new(code).ok_or(ProtocolError::CloseCodeInvalid { code })?;
        let reason = std::str::from_utf8(reason).map_err(|_| ProtocolError::CloseReasonNotUtf8)?;
        Ok(Some(Self { code, reason }))
    }

    /// As much of the reason as fits.
    pub(super) fn reason_that_fits(&self) -> &'a str {
        &self.reason[..self.reason.floor_char_boundary(REASON_BYTES_MAX)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_codes_that_may_be_sent_are_codes() {
        let valid: Vec<u16> =
            (0..=u16::MAX).filter(|code| CloseCode::new(*code).is_some()).collect();
        let expected: Vec<u16> = (1000..=1003).chain(1007..=1014).chain(3000..=4999).collect();
        assert_eq!(valid, expected);
    }

    #[test]
    fn a_payload_is_nothing_or_a_code_or_a_code_with_a_reason() {
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
    fn a_long_reason_ends_before_the_character_that_does_not_fit() {
        let reason = format!("{}{}", "x".repeat(122), "é".repeat(3));
        let frame = CloseFrame { code: CloseCode::NORMAL, reason: &reason };
        assert_eq!(frame.reason_that_fits(), "x".repeat(122));
    }
}
