//! Messages to a core.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use weir_base::clock::Timestamp;

use super::room::RoomReservation;
use crate::frame::Frame;
use crate::pusher::close_code::CloseCode;
use crate::pusher::socket_id::SocketId;

/// A message to a core. All but the last hold room that was reserved on it.
#[derive(Debug)]
pub(crate) enum CoreMessage {
    /// For subscribers of a channel.
    Broadcast(Broadcast),
    /// For some connections.
    Direct(DirectMessage),
    /// Close one connection if it is this app's; replies whether there was one.
    Disconnect { to: SocketId, app: AppNumber, reply: oneshot::Sender<bool>, room: RoomReservation },
    /// An app was removed or disabled: its connections are closed. Needs no room, as it can't be
    /// rejected: a reload sends one for each app that it ends, and a core keeps one per app.
    CloseApp { app: AppNumber },
}

/// Messages in their order.
pub(crate) type CoreMessages = VecDeque<CoreMessage>;

/// The same for several connections of one core, as far as they still exist.
#[derive(Debug)]
pub(crate) struct DirectMessage {
    pub(crate) to: Vec<SocketId>,
    pub(crate) payload: DirectPayload,
    /// Returned when all of them have it.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) room: RoomReservation,
}

/// What single connections receive.
#[derive(Clone, Debug)]
pub(crate) enum DirectPayload {
    Frame(Frame),
    /// The connection is closed with this code.
    Close(CloseCode),
}

/// One message for the subscribers of one channel on one core.
#[derive(Debug)]
pub(crate) struct Broadcast {
    /// The channel.
    pub(crate) channel: ChannelId,
    /// Its place among all messages of this channel: who joined later doesn't get it.
    pub(crate) sequence: u64,
    pub(crate) frame: Frame,
    pub(crate) audience: Audience,
    /// What it may be conflated with; None: it is never dropped by itself.
    pub(crate) event: Option<EventKey>,
    pub(crate) published_at: Timestamp,
    /// Given back when every subscriber on the core has it or has it waiting.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) room: RoomReservation,
}

/// An app's number: unique while the process lives. An app that is removed and added again has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppNumber(pub(crate) u64);

/// A channel's number: unique while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChannelId(pub(crate) u64);

/// For whom of the subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Everyone,
    /// All but the one who sent it.
    Except(SocketId),
    /// Who is told of each member of a presence channel.
    MemberEvents,
    /// Who is told of differences of the members instead.
    MemberChanges,
}

/// A channel and an event's name, as a number: two that are equal may stand for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventKey(u64);

impl EventKey {
    pub(crate) fn new(channel: ChannelId, event: &str) -> Self {
        // 64 bits of a good hash: two names of one channel that meet are not to be expected.
        Self(xxhash_rust::xxh3::xxh3_64_with_seed(event.as_bytes(), channel.0))
    }
}
