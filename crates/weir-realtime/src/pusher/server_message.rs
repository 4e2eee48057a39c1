//! Messages of the server. Each function appends one to a buffer.
//!
//! `data` is always a JSON **string**, except in `pusher:error`, where it is an object, as in
//! Pusher: pysher reads its fields without parsing it first. Fields are in Pusher's order: event,
//! channel, data, then optional ones.

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

/// The name of the message of [`subscription_succeeded`].
pub const SUBSCRIPTION_SUCCEEDED: &str = "pusher_internal:subscription_succeeded";
/// The name of the message of [`subscription_count`].
pub const SUBSCRIPTION_COUNT: &str = "pusher_internal:subscription_count";
/// The name of the message of [`member_added`].
pub const MEMBER_ADDED: &str = "pusher_internal:member_added";
/// The name of the message of [`member_removed`].
pub const MEMBER_REMOVED: &str = "pusher_internal:member_removed";
/// The name of the message of [`members_changed`].
pub const MEMBERS_CHANGED: &str = "weir:members_changed";
/// Notifies subscribers that events may be lost to them.
pub const GAP: &str = "weir:gap";

/// `data` of messages without data.
const NOTHING: &str = "{}";

/// Writes the first message of a connection. After `activity_timeout` without messages, the client
/// should ping; it is written in whole seconds, and at least one, because pusher-js treats 0 as
/// missing and fails.
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

/// Writes a ping.
pub fn ping(out: &mut Vec<u8>) {
    write(out, &MessageEnvelope { event: "pusher:ping", channel: None, data: NOTHING });
}

/// Writes a pong.
pub fn pong(out: &mut Vec<u8>) {
    write(out, &MessageEnvelope { event: "pusher:pong", channel: None, data: NOTHING });
}

/// Writes an error. `code` is only for errors with a code of the protocol; see
/// [`super::client_message`].
pub fn error(out: &mut Vec<u8>, code: Option<CloseCode>, message: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        code: Option<u16>,
        message: &'a str,
    }
    let data = Data { code: code.map(CloseCode::number), message };
    write(out, &MessageEnvelope { event: "pusher:error", channel: None, data });
}

/// The outcome of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Recovery {
    /// All `events` that were missed follow this message.
    Recovered { events: u64 },
    /// Some missed events are no longer stored: the client must reload its state.
    Gap,
}

/// Weir's extensions of `subscription_succeeded`, in fields that other clients ignore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The channel's position at the time of the subscription.
    pub position: Option<ChannelPosition>,
    /// The outcome, if recovery was requested.
    pub recovery: Option<Recovery>,
    /// The version of a presence channel's members, if changes were requested.
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

/// Writes the confirmation of a subscription to a channel without members.
pub fn subscription_succeeded(out: &mut Vec<u8>, channel: &str, joined: &Joined) {
    write(out, &succeeded(channel, joined, NOTHING));
}

/// A member of a presence channel.
#[derive(Clone, Copy, Debug)]
pub struct MemberData<'a> {
    /// The user's id.
    pub user_id: &'a str,
    /// Information about the user from the application.
    pub user_info: Option<&'a RawValue>,
}

/// Writes the confirmation of a subscription to a presence channel. `members` must yield each user
/// once. `count` is the number of all users, even if fewer are listed.
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

/// Writes the error of a rejected subscription. `kind` is the `type` of pusher-js, such as
/// "AuthError" for a wrong signature. `status` is the corresponding HTTP status.
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

/// Writes the number of subscribed connections.
pub fn subscription_count(out: &mut Vec<u8>, channel: &str, subscription_count: usize) {
    #[derive(Serialize)]
    struct Data {
        subscription_count: usize,
    }
    let event = SUBSCRIPTION_COUNT;
    let data = AsText(Data { subscription_count });
    write(out, &MessageEnvelope { event, channel: Some(channel), data });
}

/// Writes that a user joined a presence channel.
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

/// Writes that a user left a presence channel.
pub fn member_removed(out: &mut Vec<u8>, channel: &str, user_id: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        user_id: &'a str,
    }
    let data = AsText(Data { user_id });
    let event = MEMBER_REMOVED;
    write(out, &MessageEnvelope { event, channel: Some(channel), data });
}

/// Writes the confirmation of a sign-in. `user_data` is the text that the application's server
/// signed.
pub fn signin_success(out: &mut Vec<u8>, user_data: &str) {
    #[derive(Serialize)]
    struct Data<'a> {
        user_data: &'a str,
    }
    let data = AsText(Data { user_data });
    write(out, &MessageEnvelope { event: "pusher:signin_success", channel: None, data });
}

/// Writes that a cache channel has no cached event.
pub fn cache_miss(out: &mut Vec<u8>, channel: &str) {
    write(
        out,
        &MessageEnvelope { event: "pusher:cache_miss", channel: Some(channel), data: NOTHING },
    );
}

/// A change of users on a watchlist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchlistChange {
    /// Their first connection signed in.
    Online,
    /// Their last connection closed.
    Offline,
}

/// Writes that users on the watchlist went online or offline.
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
    /// The event's name.
    pub event: &'a str,
    /// The channel's name.
    pub channel: &'a str,
    /// The event's data, as in [`super::payload::Payload`]. None only in a client event without
    /// data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a str>,
    /// The sender's user id, for client events on presence channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<&'a str>,
    /// The position in the channel's history. This is an extension of Weir, written as two fields
    /// of the message.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<ChannelPosition>,
}

/// Writes an event on a channel, encoded once for all subscribers.
pub fn channel_event(out: &mut Vec<u8>, event: &ChannelEvent<'_>) {
    write(out, event);
}

/// Appends the two fields of a position, with a comma before each, to an object that is not closed
/// yet. Equivalent to [`ChannelEvent::position`], for a position that is known last.
pub(crate) fn write_position_fields(out: &mut Vec<u8>, position: ChannelPosition) {
    use std::io::Write as _;
    let ChannelPosition { epoch, offset } = position;
    write!(out, r#","epoch":"{epoch}","offset":{offset}"#).expect("a Vec takes everything");
}

/// Writes that subscribers of a channel may lack events before `position`. This is an extension of
/// Weir, for nodes that share a log.
pub fn gap(out: &mut Vec<u8>, channel: &str, position: ChannelPosition) {
    let data = AsText(position);
    write(out, &MessageEnvelope { event: GAP, channel: Some(channel), data });
}

/// A page of a list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembersPage {
    /// The list's version. Changes with a later version apply to it.
    pub version: u64,
    /// The index in the list at which the page begins.
    pub start: usize,
    /// Number of members in the list.
    pub count: usize,
}

/// Writes a page of a presence channel's members, in response to `weir:members`. This is an
/// extension of Weir for large channels.
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

/// Writes the changes of a presence channel's members between two versions, for subscribers that
/// requested them instead of `member_added` and `member_removed`. This is an extension of Weir.
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
