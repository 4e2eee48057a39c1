//! The format of events in Redis.
//!
//! A record is `EPOCH OFFSET MILLISECONDS`, a newline, and a JSON array: app, channel, name, data,
//! excepted socket. The first record of an epoch that continues another one has the position of the
//! last event of that one as a fourth word. Readers ignore further words and elements. A message on a sharded channel is the
//! partition's sequence number, a space, and a record.
//!
//! A client's event is another message on a sharded channel: `client NODE`, a newline, and a JSON
//! array: app, channel, name, data, sending socket, user.
//!
//! Changes of a channel's members are a third one: the partition's sequence number, `members NODE
//! VERSION`, a newline, and a JSON array: app, channel, a list of added users, each followed by its
//! information (JSON as a text, or empty), and a list of removed users.
//!
//! `switches -` reports that a switch was changed.
//!
//! The subscriptions of a channel on all nodes are a fourth one: the partition's sequence number, `count
//! NUMBER`, a newline, and a JSON array: app, channel.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::pusher::socket_id::SocketId;
use weir_realtime::shared_log::{
    ChannelKey, ClientBroadcast, LogEvent, LogRecord, MemberChanges, MembersMessage, SharedMember,
};

/// The first word of the message for a client's event.
const CLIENT: &str = "client";
/// The first word of the message about a changed switch.
const SWITCHES: &str = "switches";
/// The word after the sequence number of a message about members.
const MEMBERS: &str = "members ";
/// Likewise, of a message about subscriptions.
const COUNT: &str = "count ";

/// What is sent on a sharded channel.
#[derive(Clone, Debug)]
pub(crate) enum ShardPayload {
    Event(ShardMessage),
    /// An event of a client of this node.
    Client {
        node: String,
        event: ClientBroadcast,
    },
    /// Changes of members.
    Members {
        sequence: u64,
        message: MembersMessage,
    },
    /// A switch was changed.
    Switches,
    /// The subscriptions of a channel on all nodes.
    Count {
        sequence: u64,
        key: ChannelKey,
        count: usize,
    },
}

/// An appended event, with its number in the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardMessage {
    pub(crate) sequence: u64,
    pub(crate) key: ChannelKey,
    pub(crate) record: LogRecord,
}

/// Returns the JSON of an event.
pub(crate) fn encode(key: &ChannelKey, event: &LogEvent) -> String {
    let except = event.except.map(|socket_id| socket_id.to_string());
    serde_json::json!([*key.app, *key.channel, event.name, event.data, except]).to_string()
}

/// Returns the message for a client's event.
pub(crate) fn encode_client_event(node: &str, event: &ClientBroadcast) -> String {
    let ClientBroadcast { key, name, data, sender, user_id } = event;
    let sender = sender.to_string();
    let json = serde_json::json!([*key.app, *key.channel, name, data, sender, user_id]);
    format!("{CLIENT} {node}\n{json}")
}

/// Parses a message of a sharded channel.
pub(crate) fn parse_message(text: &[u8]) -> Option<ShardPayload> {
    let (word, rest) = str::from_utf8(text).ok()?.split_once(' ')?;
    if word == CLIENT {
        return parse_client_event(rest);
    }
    if word == SWITCHES {
        return Some(ShardPayload::Switches);
    }
    let sequence = word.parse().ok()?;
    if let Some(text) = rest.strip_prefix(MEMBERS) {
        return Some(ShardPayload::Members { sequence, message: parse_members(text)? });
    }
    if let Some(text) = rest.strip_prefix(COUNT) {
        let (key, count) = parse_count(text)?;
        return Some(ShardPayload::Count { sequence, key, count });
    }
    let (key, record) = parse(rest)?;
    Some(ShardPayload::Event(ShardMessage { sequence, key, record }))
}

fn parse_client_event(text: &str) -> Option<ShardPayload> {
    type Fields = (String, String, Box<str>, Option<Box<str>>, String, Option<Box<str>>);
    let (head, json) = text.split_once('\n')?;
    let (app, channel, name, data, sender, user_id): Fields = parse_elements(json)?;
    let node = head.split(' ').next()?.to_owned();
    let key = ChannelKey { app: app.into(), channel: channel.into() };
    let event = ClientBroadcast { key, name, data, sender: sender.parse().ok()?, user_id };
    Some(ShardPayload::Client { node, event })
}

fn parse_members(text: &str) -> Option<MembersMessage> {
    type Fields = (String, String, Vec<String>, Vec<String>);
    let (head, json) = text.split_once('\n')?;
    let mut head = head.split(' ');
    let (node, version) = (Arc::from(head.next()?), head.next()?.parse().ok()?);
    let (app, channel, added, removed): Fields = parse_elements(json)?;
    let key = ChannelKey { app: app.into(), channel: channel.into() };
    let removed = removed.into_iter().map(Arc::from).collect();
    let changes = MemberChanges { added: parse_users(&added), removed };
    Some(MembersMessage { key, node, version, changes })
}

fn parse_count(text: &str) -> Option<(ChannelKey, usize)> {
    let (head, json) = text.split_once('\n')?;
    let count = head.split(' ').next()?.parse().ok()?;
    let (app, channel): (String, String) = parse_elements(json)?;
    Some((ChannelKey { app: app.into(), channel: channel.into() }, count))
}

/// Reads users, each followed by its information. Information that is not JSON is left out.
pub(crate) fn parse_users(words: &[String]) -> Vec<SharedMember> {
    let user = |pair: &[String]| SharedMember {
        user_id: Arc::from(&*pair[0]),
        user_info: RawValue::from_string(pair[1].clone()).ok().map(Arc::from),
    };
    words.chunks_exact(2).map(user).collect()
}

/// Parses the first elements of a JSON array: later versions may have more.
fn parse_elements<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok().map(|FirstElements(elements)| elements)
}

/// The first elements of an array, as a tuple. Others are skipped.
struct FirstElements<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FirstElements<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstElementsVisitor(PhantomData))
    }
}

struct FirstElementsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FirstElementsVisitor<T> {
    type Value = FirstElements<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let known = T::deserialize(SeqAccessDeserializer::new(&mut elements))?;
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstElements(known))
    }
}

/// Parses an entry of a stream.
pub(crate) fn parse(text: &str) -> Option<(ChannelKey, LogRecord)> {
    type Fields = (String, String, Box<str>, Box<str>, Option<String>);
    let (head, json) = text.split_once('\n')?;
    let mut head = head.split(' ');
    let (epoch, offset, at) = (head.next()?, head.next()?, head.next()?);
    let (app, channel, name, data, except): Fields = parse_elements(json)?;
    let except: Option<SocketId> = except.map(|text| text.parse()).transpose().ok()?;
    let position = ChannelPosition { epoch: epoch.parse().ok()?, offset: offset.parse().ok()? };
    let continues = head.next().and_then(|position| position.parse().ok());
    let at = Timestamp::from_millis(at.parse().ok()?);
    let key = ChannelKey { app: app.into(), channel: channel.into() };
    Some((key, LogRecord { position, continues, at, event: LogEvent { name, data, except } }))
}

#[cfg(test)]
mod tests {
    use weir_realtime::pusher::position::Epoch;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let key = ChannelKey { app: "1".into(), channel: "room".into() };
        let except = Some(SocketId { first: 1, second: 2 });
        for (data, except) in [("{\"a\":\"line\\nbreak\"}", None), ("\n \u{0}ü", except)] {
            let event = LogEvent { name: "e".into(), data: data.into(), except };
            let position = ChannelPosition { epoch: Epoch(0xab), offset: 7 };
            let text = format!("9 {} {} 1000\n{}", position.epoch, 7, encode(&key, &event));
            let at = Timestamp::from_millis(1_000);
            let record = LogRecord { position, continues: None, at, event };
            let expected = ShardMessage { sequence: 9, key: key.clone(), record };
            let Some(ShardPayload::Event(found)) = parse_message(text.as_bytes()) else { panic!() };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_clients_event_is_read_as_it_was_written() {
        let key = ChannelKey { app: "1".into(), channel: "private-room".into() };
        let sender = SocketId { first: 1, second: 2 };
        for (data, user_id) in [(Some("{\"a\":1}\n"), Some("7")), (None, None)] {
            let (data, user_id) = (data.map(Box::from), user_id.map(Box::from));
            let name = "client-e".into();
            let event = ClientBroadcast { key: key.clone(), name, data, sender, user_id };
            let text = encode_client_event("ab", &event).replace("]", ",{\"new\":1}]");
            let found = parse_message(text.as_bytes());
            let Some(ShardPayload::Client { node, event: found }) = found else { panic!() };
            assert_eq!((&*node, found), ("ab", event));
        }
    }

    #[test]
    fn later_versions_may_add_elements() {
        let text = "1 00000000000000ab 7 1000 more\n[\"1\",\"c\",\"e\",\"d\",null,{\"new\":1}]";
        let continues = |text: &str| match parse_message(text.as_bytes()) {
            Some(ShardPayload::Event(message)) => message.record.continues,
            other => panic!("{other:?}"),
        };
        assert_eq!(continues(text), None);
        let last = ChannelPosition { epoch: Epoch(0xaa), offset: 3 };
        assert_eq!(continues(&text.replace("more", "00000000000000aa:3 more")), Some(last));
        for broken in ["", "1", "1 x 7 1000\n[]", "1 00000000000000ab 7 1000\n[1]"] {
            assert!(parse_message(broken.as_bytes()).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn counts_are_read() {
        let text = "7 count 12 more\n[\"1\",\"room\",{}]";
        let Some(ShardPayload::Count { sequence, key, count }) = parse_message(text.as_bytes())
        else {
            panic!("a message about subscriptions")
        };
        assert_eq!((sequence, &*key.channel, count), (7, "room", 12));
        assert!(parse_message(b"7 count -1\n[\"1\",\"room\"]").is_none());
    }

    #[test]
    fn changes_of_members_are_read() {
        let text = "7 members ab 00000000000000ab:3 more\n\
                    [\"1\",\"presence-a\",[\"u\",\"{\\\"name\\\":1}\",\"v\",\"\"],[\"w\"],{}]";
        let Some(ShardPayload::Members { sequence, message }) = parse_message(text.as_bytes())
        else {
            panic!("a message about members")
        };
        let MembersMessage { key, node, version, changes } = message;
        assert_eq!((sequence, &*node, &*key.channel, version.offset), (7, "ab", "presence-a", 3));
        let added: Vec<_> = changes
            .added
            .iter()
            .map(|it| (&*it.user_id, it.user_info.as_ref().map(|info| info.get())))
            .collect();
        assert_eq!(added, [("u", Some("{\"name\":1}")), ("v", None)]);
        assert_eq!(changes.removed, [Arc::<str>::from("w")]);
        for broken in ["7 members ab\n[]", "7 members ab 1:2\n[\"1\"]"] {
            assert!(parse_message(broken.as_bytes()).is_none(), "{broken:?}");
        }
    }
}
