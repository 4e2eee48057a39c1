//! What the server says: each function appends one message to a buffer.
//!
//! `data` is a JSON **string**, whatever is in it; only in `pusher:error` it is an object, as with
//! the original: pysher reads fields from it without parsing. Fields stand in the original's
//! order: event, channel, data, then what is optional.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::close_code::CloseCode;
use super::json::{AsText, List, Map, write};
use super::position::{ChannelPosition, Epoch};
use super::socket_id::SocketId;

#[derive(Serialize)]
struct MessageEnvelope<'a, T> {
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<&'a str>,
    data: T,
}

/// The name of [`subscription_succeeded`]'s message.
pub const SUBSCRIPTION_SUCCEEDED: &str = "pusher_internal:subscription_succeeded";
/// The name of [`subscription_count`]'s message.
pub const SUBSCRIPTION_COUNT: &str = "pusher_internal:subscription_count";
/// The name of [`member_added`]'s message.
pub const MEMBER_ADDED: &str = "pusher_internal:member_added";
/// The name of [`member_removed`]'s message.
pub const MEMBER_REMOVED: &str = "pusher_internal:member_removed";
/// The name of [`members_changed`]'s message.
pub const MEMBERS_CHANGED: &str = "weir:members_changed";

/// `data` of messages that have nothing to say.
const NOTHING: &str = "{}";

/// The first message of a connection. `activity_timeout`, in whole seconds and at least one: after
/// that much silence the client should ping. (pusher-js takes 0 for "none given" and gives up.)
pub fn connection_established(out: &mut Vec<u8>, socket_id: SocketId, activity_timeout: Duration) {
    #[derive(Serialize)]
    struct Data {
        socket_id: SocketId,
        activity_timeout: u64,
    }
    let data = Data { socket_id, activity_timeout: activity_timeout.as_secs().max(1) };
    let event = "pusher:connection_established";
    write(out, &MessageEnvelope { event, channel: None, data: AsText(data) });
}

/// Asks whether the client is there.
pub fn ping(out: &mut Vec<u8>) {
    write(out, &MessageEnvelope { event: "pusher:ping", channel: None, data: NOTHING });
}

/// Answers a ping.
pub fn pong(out: &mut Vec<u8>) {
    write(out, &MessageEnvelope { event: "pusher:pong", channel: None, data: NOTHING });
}

/// Says what went wrong. A `code` only where the protocol has one; see [`super::client_message`].
pub fn error(out: &mut Vec<u8>, code: Option<CloseCode>, message: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        code: Option<u16>,
        message: &'a str,
    }
    let data = Data { code: code.map(CloseCode::number), message };
    write(out, &MessageEnvelope { event: "pusher:error", channel: None, data });
}

/// What became of a wish to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Recovery {
    /// All `events` that were missed follow this message.
    Recovered { events: u64 },
    /// Some events are not there any more: the client must load its state anew.
    Gap,
}

/// Weir's additions to `subscription_succeeded`, where an old client doesn't look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The channel's last event at the time of joining.
    pub position: Option<ChannelPosition>,
    /// The answer, if recovery was asked for.
    pub recovery: Option<Recovery>,
    /// The version of a presence channel's members, if differences were asked for.
    pub members_version: Option<u64>,
}

#[derive(Serialize)]
struct Succeeded<'a, T> {
    event: &'a str,
    channel: &'a str,
    data: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<Epoch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members_version: Option<u64>,
}

/// The subscription to a channel without members holds.
pub fn subscription_succeeded(out: &mut Vec<u8>, channel: &str, joined: &Joined) {
    write(out, &succeeded(channel, joined, NOTHING));
}

/// A member of a presence channel.
#[derive(Clone, Copy, Debug)]
pub struct MemberData<'a> {
    /// Who.
    pub user_id: &'a str,
    /// What the application says about them.
    pub user_info: Option<&'a RawValue>,
}

/// The subscription to a presence channel holds. `members` yields each user once; `count` is how
/// many there are, also where fewer are listed.
pub fn presence_subscription_succeeded<'a>(
    out: &mut Vec<u8>,
    channel: &str,
    joined: &Joined,
    count: usize,
    members: impl Iterator<Item = MemberData<'a>> + Clone,
) {
    #[derive(Serialize)]
    struct Data<T> {
        presence: T,
    }
    #[derive(Serialize)]
    struct Presence<I, H> {
        ids: I,
        hash: H,
        count: usize,
    }
    let presence = Presence {
        ids: List(members.clone().map(|member| member.user_id)),
        hash: Map(members.map(|member| (member.user_id, member.user_info))),
        count,
    };
    write(out, &succeeded(channel, joined, AsText(Data { presence })));
}

fn succeeded<'a, T>(channel: &'a str, joined: &Joined, data: T) -> Succeeded<'a, T> {
    Succeeded {
        event: SUBSCRIPTION_SUCCEEDED,
        channel,
        data,
        epoch: joined.position.map(|position| position.epoch),
        offset: joined.position.map(|position| position.offset),
        recovery: joined.recovery,
        members_version: joined.members_version,
    }
}

/// A subscription was refused: `kind` is what pusher-js calls `type` ("AuthError" for a wrong
/// signature), `status` the HTTP status that says the same.
pub fn subscription_error(
    out: &mut Vec<u8>,
    channel: &str,
    kind: &str,
    message: &str,
    status: u16,
) {
    #[derive(Serialize)]
    struct Data<'a> {
        r#type: &'a str,
        error: &'a str,
        status: u16,
    }
    let data = AsText(Data { r#type: kind, error: message, status });
    write(
        out,
        &MessageEnvelope { event: "pusher:subscription_error", channel: Some(channel), data },
    );
}

/// How many connections are subscribed.
pub fn subscription_count(out: &mut Vec<u8>, channel: &str, subscription_count: usize) {
    #[derive(Serialize)]
    struct Data {
        subscription_count: usize,
    }
    let event = SUBSCRIPTION_COUNT;
    let data = AsText(Data { subscription_count });
    write(out, &MessageEnvelope { event, channel: Some(channel), data });
}

/// A user came.
pub fn member_added(out: &mut Vec<u8>, channel: &str, member: MemberData<'_>) {
    #[derive(Serialize)]
    struct Data<'a> {
        user_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        user_info: Option<&'a RawValue>,
    }
    let data = AsText(Data { user_id: member.user_id, user_info: member.user_info });
    let event = MEMBER_ADDED;
    write(out, &MessageEnvelope { event, channel: Some(channel), data });
}

/// A user went.
pub fn member_removed(out: &mut Vec<u8>, channel: &str, user_id: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        user_id: &'a str,
    }
    let data = AsText(Data { user_id });
    let event = MEMBER_REMOVED;
    write(out, &MessageEnvelope { event, channel: Some(channel), data });
}

/// The connection is signed in; `user_data` as the application's server signed it.
pub fn signin_success(out: &mut Vec<u8>, user_data: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        user_data: &'a str,
    }
    let data = AsText(Data { user_data });
    write(out, &MessageEnvelope { event: "pusher:signin_success", channel: None, data });
}

/// The cache channel that was subscribed to has nothing cached.
pub fn cache_miss(out: &mut Vec<u8>, channel: &str) {
    write(
        out,
        &MessageEnvelope { event: "pusher:cache_miss", channel: Some(channel), data: NOTHING },
    );
}

/// What users on a watchlist did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchlistChange {
    /// Their first connection signed in.
    Online,
    /// Their last one is gone.
    Offline,
}

/// Users on the watchlist came or went.
pub fn watchlist_events<'a, U>(
    out: &mut Vec<u8>,
    changes: impl Iterator<Item = (WatchlistChange, U)> + Clone,
) where
    U: IntoIterator<Item = &'a str, IntoIter: Clone>,
{
    #[derive(Serialize)]
    struct Data<T> {
        events: T,
    }
    #[derive(Serialize)]
    struct Change<T> {
        name: WatchlistChange,
        user_ids: T,
    }
    let events = changes.map(|(name, users)| Change { name, user_ids: List(users.into_iter()) });
    let data = AsText(Data { events: List(events) });
    write(out, &MessageEnvelope { event: "pusher_internal:watchlist_events", channel: None, data });
}

/// An event on a channel.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChannelEvent<'a> {
    /// Its name.
    pub event: &'a str,
    /// Where.
    pub channel: &'a str,
    /// Its data, as [`super::payload::Payload`] has it. None only in a client event without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a str>,
    /// Who sent it: on client events of presence channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<&'a str>,
    /// Its place in the channel's history: Weir's extension, in two fields of the message.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<ChannelPosition>,
}

/// An event on a channel, for all of its subscribers: encoded once.
pub fn channel_event(out: &mut Vec<u8>, event: &ChannelEvent<'_>) {
    write(out, event);
}

/// Appends the two fields of a position, with a comma before each, to an object that is still open:
/// what [`ChannelEvent::position`] becomes, for who learns the position last.
pub(crate) fn write_position_fields(out: &mut Vec<u8>, position: ChannelPosition) {
    use std::io::Write as _;
    let ChannelPosition { epoch, offset } = position;
    write!(out, r#","epoch":"{epoch}","offset":{offset}"#).expect("a Vec takes everything");
}

/// Which part of which list of members is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembersPage {
    /// Of the list: differences with a later version are to be applied to it.
    pub version: u64,
    /// Where in the list the page begins.
    pub start: usize,
    /// How many members the list has.
    pub count: usize,
}

/// A page of the members of a presence channel: Weir's extension for large ones. It answers
/// `weir:members`.
pub fn members_page<'a>(
    out: &mut Vec<u8>,
    channel: &str,
    page: MembersPage,
    members: impl Iterator<Item = MemberData<'a>> + Clone,
) {
    #[derive(Serialize)]
    struct Data<T> {
        version: u64,
        start: usize,
        count: usize,
        members: T,
    }
    let MembersPage { version, start, count } = page;
    let members = Map(members.map(|member| (member.user_id, member.user_info)));
    let data = AsText(Data { version, start, count, members });
    write(out, &MessageEnvelope { event: "weir:members", channel: Some(channel), data });
}

/// How the members of a presence channel changed from one version to another: Weir's extension, for
/// subscribers who asked for it instead of `member_added` and `member_removed`.
pub fn members_changed<'a>(
    out: &mut Vec<u8>,
    channel: &str,
    versions: std::ops::RangeInclusive<u64>,
    count: usize,
    added: impl Iterator<Item = MemberData<'a>> + Clone,
    removed: impl Iterator<Item = &'a str> + Clone,
) {
    #[derive(Serialize)]
    struct Data<T, U> {
        from: u64,
        version: u64,
        count: usize,
        added: T,
        removed: U,
    }
    let added = Map(added.map(|member| (member.user_id, member.user_info)));
    let (from, version) = versions.into_inner();
    let data = AsText(Data { from, version, count, added, removed: List(removed) });
    write(out, &MessageEnvelope { event: MEMBERS_CHANGED, channel: Some(channel), data });
}
