//! How a connection ends, and when a client library connects again after it.

use std::time::Duration;

use super::speech::excerpt;
use crate::event_loop::LoadError;

/// How long client libraries wait after a connection that did not come about, and the longest that they are spread
/// over after one that was cut.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest answer to the request for a WebSocket.
const UPGRADE_BYTES_MAX: usize = 16 * 1024;

/// Why a connection is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Without a word.
    HungUp,
    /// A close frame.
    Code(u16),
    /// Another answer than 101.
    Status(u16),
    /// The subscription was refused, or what came is not the protocol.
    Refused(String),
}

impl Ending {
    /// For a tally of them.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::HungUp => "without a close frame".to_owned(),
            Self::Code(code) => format!("closed with {code}"),
            Self::Status(status) => format!("answered {status}"),
            Self::Refused(_) => "refused".to_owned(),
        }
    }
}

impl From<LoadError> for Ending {
    fn from(error: LoadError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// When a client library connects again (pusher-js): at once after 42xx, never after 40xx and 43xx, else within a
/// second or after one. `None`: never.
pub(crate) fn wait_after(ending: &Ending, was_live: bool) -> Option<Duration> {
    let spread = RETRY_AFTER.mul_f64(fastrand::f64());
    match ending {
        Ending::Code(4200..=4299) => Some(Duration::ZERO),
        Ending::Code(4000..=4099 | 4300..) | Ending::Refused(_) => None,
        Ending::Status(400..=428 | 430..=499) => None,
        Ending::HungUp | Ending::Code(_) | Ending::Status(_) if was_live => Some(spread),
        Ending::HungUp | Ending::Code(_) | Ending::Status(_) => Some(RETRY_AFTER),
    }
}

/// How long the answer to the request for a WebSocket is, once all of it is there.
pub(crate) fn upgraded(input: &[u8]) -> Result<Option<usize>, Ending> {
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else {
        return match input.len() {
            0..UPGRADE_BYTES_MAX => Ok(None),
            _ => Err(Ending::Refused(format!("no end of the HTTP head: {}", excerpt(input)))),
        };
    };
    let status = input.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    match status {
        Some(101) => Ok(Some(end + 4)),
        Some(status) => Err(Ending::Status(status)),
        None => Err(Ending::Refused(format!("not an HTTP answer: {}", excerpt(input)))),
    }
}
