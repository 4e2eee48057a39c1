//! Messages of a connection, in types that both protocols share.

use super::members::{MemberMessage, PageRequest};
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

/// The epoch of a channel: a few letters, padded with zeros.
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
    /// The server sends all missed events.
    Recovered,
    /// Some missed events are lost.
    Gap,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerMessage {
    /// The connection is established; in the Pusher protocol it has a name.
    Connected {
        socket_id: String,
    },
    Subscribed {
        position: Option<Position>,
        recovery: Option<Recovery>,
        members: Option<u64>,
        /// The server will send changes of the member list.
        has_member_changes: bool,
    },
    Members(MemberMessage),
    /// Wants [`Speech::pong`].
    Ping,
    /// The server reports an error.
    Rejected(String),
    Other,
}

/// A request to subscribe to a channel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SubscribeRequest<'a> {
    pub(crate) channel: &'a str,
    pub(crate) socket_id: &'a str,
    /// Presence channels only.
    pub(crate) member: Option<usize>,
    /// Request changes of the member list instead of one event for each member.
    pub(crate) member_changes: bool,
    pub(crate) recover: Option<Position>,
}

/// One target's protocol.
#[derive(Debug, Clone)]
pub(crate) struct ProtocolCodec {
    target: Target,
    host: String,
    upgrade: Vec<u8>,
}

impl ProtocolCodec {
    pub(crate) fn new(target: &Target) -> Self {
        let host = target.url.address(0).to_string();
        let path = match target.protocol {
            Protocol::Pusher => pusher::websocket_path(&target.app),
            Protocol::Centrifugo => centrifugo::PATH.to_owned(),
        };
        let upgrade = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: d2Vpci1iZW5jaC0wMDAwMA==\r\n\r\n"
        );
        Self { target: target.clone(), host, upgrade: upgrade.into_bytes() }
    }

    /// The HTTP request that opens a WebSocket.
    pub(crate) fn upgrade_request(&self) -> &[u8] {
        &self.upgrade
    }

    /// The first message of a connection, if the client sends it.
    pub(crate) fn greeting(&self) -> Option<&'static str> {
        match self.target.protocol {
            Protocol::Pusher => None,
            Protocol::Centrifugo => Some(centrifugo::CONNECT),
        }
    }

    pub(crate) fn subscribe_message(&self, request: &SubscribeRequest<'_>) -> String {
        match self.target.protocol {
            Protocol::Pusher => pusher::subscribe_message(&self.target.app, request),
            Protocol::Centrifugo => centrifugo::subscribe_message(request),
        }
    }

    /// Returns a request for a page of a channel's members, an extension of the Pusher protocol. Centrifugo has no
    /// members.
    pub(crate) fn members_request(&self, channel: &str, request: PageRequest) -> String {
        pusher::members_request(channel, request)
    }

    pub(crate) fn pong(&self) -> &'static str {
        match self.target.protocol {
            Protocol::Pusher => pusher::PONG,
            Protocol::Centrifugo => centrifugo::PONG,
        }
    }

    /// Returns an HTTP request that publishes `data`.
    pub(crate) fn publish_request(
        &self,
        channel: &str,
        data: &str,
        at_unix_seconds: u64,
    ) -> Vec<u8> {
        let app = &self.target.app;
        match self.target.protocol {
            Protocol::Pusher => {
                pusher::publish_request(app, &self.host, channel, data, at_unix_seconds)
            }
            Protocol::Centrifugo => centrifugo::publish_request(app, &self.host, channel, data),
        }
    }

    /// Parses a message that is not an event.
    pub(crate) fn parse_message(&self, message: &[u8]) -> ServerMessage {
        match self.target.protocol {
            Protocol::Pusher => pusher::parse_message(message),
            Protocol::Centrifugo => centrifugo::parse_message(message),
        }
    }

    /// The messages of one frame.
    pub(crate) fn messages<'a>(&self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let is_line_separated = self.target.protocol == Protocol::Centrifugo;
        text.split(move |byte| is_line_separated && *byte == b'\n')
    }

    /// Whether a frame may hold several messages, so that one with events may hold a ping too.
    pub(crate) fn is_batch(&self, text: &[u8]) -> bool {
        self.target.protocol == Protocol::Centrifugo && memchr::memchr(b'\n', text).is_some()
    }
}

/// Returns the value after the first `key` in JSON, also in JSON within a JSON string. Works for values without
/// quotes or backslashes: names, numbers, epochs.
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

/// Returns the beginning of a message, for error texts.
pub(crate) fn excerpt(message: &[u8]) -> String {
    const BYTES_MAX: usize = 200;
    String::from_utf8_lossy(&message[..message.len().min(BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_plain_and_nested_json() {
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
    fn epochs_are_short_names() {
        assert_eq!(Epoch::new(b"00ff").expect("short").as_str(), "00ff");
        assert_eq!(Epoch::new(b"0123456789abcdef").expect("16 letters").as_str().len(), 16);
        for text in ["", "0123456789abcdefg", "a\"b"] {
            assert_eq!(Epoch::new(text.as_bytes()), None, "{text}");
        }
    }
}
