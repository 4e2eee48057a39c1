//! Why a connection was closed, and when a client library reconnects.

use std::time::Duration;

use super::codec::excerpt;
use crate::event_loop::LoadError;

/// How long client libraries wait after a failed attempt to connect, and the longest random delay after a lost
/// connection.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Largest response to the WebSocket upgrade.
const UPGRADE_BYTES_MAX: usize = 16 * 1024;

/// Why a connection was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Without a close frame.
    ConnectionLost,
    /// A close frame.
    Code(u16),
    /// A response other than 101.
    Status(u16),
    /// The subscription was rejected, or the server violated the protocol.
    Rejected(String),
}

impl CloseReason {
    /// Returns the name under which the reason is counted.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::ConnectionLost => "without a close frame".to_owned(),
            Self::Code(code) => format!("closed with {code}"),
            Self::Status(status) => format!("answered {status}"),
            Self::Rejected(_) => "refused".to_owned(),
        }
    }
}

impl From<LoadError> for CloseReason {
    fn from(error: LoadError) -> Self {
        Self::Rejected(error.to_string())
    }
}

/// Returns the delay after which a client library reconnects (pusher-js): none after 42xx, at most a second after a
/// lost connection, a second after a failed attempt. `None` after 40xx and 43xx: it does not reconnect.
pub(crate) fn reconnect_delay(close_reason: &CloseReason, was_live: bool) -> Option<Duration> {
    let spread = RETRY_AFTER.mul_f64(fastrand::f64());
    match close_reason {
        CloseReason::Code(4200..=4299) => Some(Duration::ZERO),
        CloseReason::Code(4000..=4099 | 4300..) | CloseReason::Rejected(_) => None,
        CloseReason::Status(400..=428 | 430..=499) => None,
        CloseReason::ConnectionLost | CloseReason::Code(_) | CloseReason::Status(_) if was_live => {
            Some(spread)
        }
        CloseReason::ConnectionLost | CloseReason::Code(_) | CloseReason::Status(_) => {
            Some(RETRY_AFTER)
        }
    }
}

/// Returns the length of the response to the WebSocket upgrade, or `None` while it is incomplete.
pub(crate) fn parse_upgrade_response(input: &[u8]) -> Result<Option<usize>, CloseReason> {
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else {
        return match input.len() {
            0..UPGRADE_BYTES_MAX => Ok(None),
            _ => Err(CloseReason::Rejected(format!("no end of the HTTP head: {}", excerpt(input)))),
        };
    };
    let status = input.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    match status {
        Some(101) => Ok(Some(end + 4)),
        Some(status) => Err(CloseReason::Status(status)),
        None => Err(CloseReason::Rejected(format!("not an HTTP answer: {}", excerpt(input)))),
    }
}
