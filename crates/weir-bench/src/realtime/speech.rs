//! What is said on a connection, in either protocol: a small vocabulary for both.

use super::members::{MemberNews, PageWish};
use super::target::{Protocol, Target};
use super::{centrifugo, pusher};

/// Channels of a run are numbered; their names have the same length in all runs of one size.
pub(crate) fn channel_name(channel: usize) -> String {
    format!("weir-bench-{channel}")
}

/// Members of a run's presence channel are numbered.
pub(crate) fn presence_channel() -> &'static str {
    "presence-weir-bench"
}

/// The last event that a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) epoch: Epoch,
    pub(crate) offset: u64,
}

/// A server's name for one life of a channel: a few letters, filled up with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch([u8; Epoch::BYTES_MAX]);

impl Epoch {
    const BYTES_MAX: usize = 16;

    pub(crate) fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        let plain = text.iter().all(u8::is_ascii_alphanumeric) && !text.is_empty();
        bytes.get_mut(..text.len()).filter(|_| plain)?.copy_from_slice(text);
        Some(Self(bytes))
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::BYTES_MAX);
        std::str::from_utf8(&self.0[..bytes]).expect("only ASCII letters and digits are taken")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// All that was missed comes.
    Recovered,
    /// Something is gone for good.
    Gap,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The connection is there; in the Pusher protocol it has a name.
    Greeted {
        socket_id: String,
    },
    Subscribed {
        position: Option<Position>,
        recovery: Option<Recovery>,
        members: Option<u64>,
        /// Differences of the members will come.
        has_member_changes: bool,
    },
    Members(MemberNews),
    /// Wants [`Speech::pong`].
    Ping,
    /// The server says that something is wrong.
    Refused(String),
    Other,
}

/// What a client wants to join, as whom, and from where on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) channel: &'a str,
    pub(crate) socket_id: &'a str,
    /// Presence channels only.
    pub(crate) member: Option<usize>,
    /// Differences of the members instead of one event for each.
    pub(crate) member_changes: bool,
    pub(crate) recover: Option<Position>,
}

/// One target's protocol.
#[derive(Debug, Clone)]
pub(crate) struct Speech {
    target: Target,
    host: String,
    upgrade: Vec<u8>,
}

impl Speech {
    pub(crate) fn new(target: &Target) -> Self {
        let host = target.url.address.to_string();
        let path = match target.protocol {
            Protocol::Pusher => pusher::path(&target.app),
            Protocol::Centrifugo => centrifugo::PATH.to_owned(),
        };
        let upgrade = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d2Vpci1iZW5jaC0wMDAwMA==\r\n\r\n"
        );
        Self { target: target.clone(), host, upgrade: upgrade.into_bytes() }
    }

    /// The HTTP request that opens a WebSocket.
    pub(crate) fn upgrade(&self) -> &[u8] {
        &self.upgrade
    }

    /// What a client says first, if it is the client that begins.
    pub(crate) fn greeting(&self) -> Option<&'static str> {
        match self.target.protocol {
            Protocol::Pusher => None,
            Protocol::Centrifugo => Some(centrifugo::CONNECT),
        }
    }

    pub(crate) fn subscribe(&self, wish: &Wish<'_>) -> String {
        match self.target.protocol {
            Protocol::Pusher => pusher::subscribe(&self.target.app, wish),
            Protocol::Centrifugo => centrifugo::subscribe(wish),
        }
    }

    /// Asks for a page of a channel's members: an extension of the Pusher protocol, which alone has members.
    pub(crate) fn members(&self, channel: &str, wish: PageWish) -> String {
        pusher::members(channel, wish)
    }

    pub(crate) fn pong(&self) -> &'static str {
        match self.target.protocol {
            Protocol::Pusher => pusher::PONG,
            Protocol::Centrifugo => centrifugo::PONG,
        }
    }

    /// A whole HTTP request that publishes `data`.
    pub(crate) fn publish(&self, channel: &str, data: &str, at_unix_seconds: u64) -> Vec<u8> {
        let app = &self.target.app;
        match self.target.protocol {
            Protocol::Pusher => pusher::publish(app, &self.host, channel, data, at_unix_seconds),
            Protocol::Centrifugo => centrifugo::publish(app, &self.host, channel, data),
        }
    }

    /// What a message other than an event means.
    pub(crate) fn hear(&self, message: &[u8]) -> Heard {
        match self.target.protocol {
            Protocol::Pusher => pusher::hear(message),
            Protocol::Centrifugo => centrifugo::hear(message),
        }
    }

    /// The messages of one frame.
    pub(crate) fn messages<'a>(&self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let joined = self.target.protocol == Protocol::Centrifugo;
        text.split(move |byte| joined && *byte == b'\n')
    }

    /// Whether a frame may hold several messages, so that one with events may hold a ping too.
    pub(crate) fn is_batch(&self, text: &[u8]) -> bool {
        self.target.protocol == Protocol::Centrifugo && memchr::memchr(b'\n', text).is_some()
    }
}

/// The value after the first `key` in JSON, also in JSON within a JSON string. Good enough for values without
/// quotes or backslashes in them: names, numbers, epochs.
pub(crate) fn value_after<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let after = &text[memchr::memmem::find(text, key.as_bytes())? + key.len()..];
    let start = after.iter().position(|byte| !br#"\": "#.contains(byte))?;
    let value = &after[start..];
    let end = value.iter().position(|byte| br#"\",}] "#.contains(byte)).unwrap_or(value.len());
    Some(&value[..end])
}

pub(crate) fn number_after(text: &[u8], key: &str) -> Option<u64> {
    std::str::from_utf8(value_after(text, key)?).ok()?.parse().ok()
}

/// A message for people: not all of a long one.
pub(crate) fn excerpt(message: &[u8]) -> String {
    const BYTES_MAX: usize = 200;
    String::from_utf8_lossy(&message[..message.len().min(BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_json_and_in_json_within_a_string() {
        for text in [
            r#"{"event":"e","epoch":"00ff","offset":12}"#,
            r#"{"data":"{\"epoch\":\"00ff\",\"offset\":12}"}"#,
            r#"{ "epoch" : "00ff" , "offset" : 12 }"#,
        ] {
            let text = text.as_bytes();
            assert_eq!(value_after(text, "epoch"), Some(&b"00ff"[..]));
            assert_eq!(number_after(text, "offset"), Some(12));
            assert_eq!(number_after(text, "epoch"), None);
            assert_eq!(number_after(text, "elsewhere"), None);
        }
    }

    #[test]
    fn an_epoch_is_a_short_name() {
        assert_eq!(Epoch::new(b"00ff").expect("short").as_str(), "00ff");
        assert_eq!(Epoch::new(b"0123456789abcdef").expect("16 letters").as_str().len(), 16);
        for text in ["", "0123456789abcdefg", "a\"b"] {
            assert_eq!(Epoch::new(text.as_bytes()), None, "{text}");
        }
    }
}
