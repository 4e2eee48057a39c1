//! Messages to a core.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use weir_base::clock::Timestamp;

use super::budget::BudgetReservation;
use crate::frame::Frame;
use crate::pusher::close_code::CloseCode;
use crate::pusher::socket_id::SocketId;
use crate::trace::FanoutSpan;

/// A message to a core. All but the last kind hold room that was reserved on that core.
#[derive(Debug)]
pub(crate) enum CoreMessage {
    /// A message for the subscribers of a channel.
    Broadcast(Broadcast),
    /// A message for single connections.
    Direct(DirectMessage),
    /// Closes a connection of this app. Replies whether there was one.
    Disconnect {
        to: SocketId,
        app: AppNumber,
        reply: oneshot::Sender<bool>,
        budget: BudgetReservation,
    },
    /// Closes the connections of an app that was removed or disabled. Needs no room, as it can't be
    /// rejected: a reload sends one for each app that it ends, and a core keeps one per app.
    CloseApp { app: AppNumber },
}

/// Messages in the order of arrival.
pub(crate) type CoreMessages = VecDeque<CoreMessage>;

/// One payload for several connections of one core. Connections that no longer exist are skipped.
#[derive(Debug)]
pub(crate) struct DirectMessage {
    pub(crate) recipients: Vec<SocketId>,
    pub(crate) payload: DirectPayload,
    /// Returned when the payload is sent to, or queued for, all connections.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) budget: BudgetReservation,
}

/// The payload of a message to single connections.
#[derive(Clone, Debug)]
pub(crate) enum DirectPayload {
    Frame(Frame),
    /// Closes the connection with this code.
    Close(CloseCode),
}

/// One message for the subscribers of one channel on one core.
#[derive(Debug)]
pub(crate) struct Broadcast {
    /// The channel's id.
    pub(crate) channel: ChannelId,
    /// Its number among the channel's messages. Subscribers that joined later do not receive it.
    pub(crate) sequence: u64,
    pub(crate) frame: Frame,
    pub(crate) audience: Audience,
    /// The key by which a newer event replaces it. None if it must not be replaced.
    pub(crate) event: Option<EventKey>,
    pub(crate) published_at: Timestamp,
    /// None: it is not traced. Ends like `budget`.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) trace: Option<FanoutSpan>,
    /// Returned when the message is sent to, or queued for, every subscriber on the core.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) budget: BudgetReservation,
}

/// An app's number, unique within the process. An app that is removed and added again gets a new
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppNumber(pub(crate) u64);

/// A channel's number, unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChannelId(pub(crate) u64);

/// The subscribers that receive a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    Everyone,
    /// All subscribers except the sender.
    Except(SocketId),
    /// Subscribers of a presence channel that receive an event for each member.
    MemberEvents,
    /// Subscribers of a presence channel that receive batched changes of the members instead.
    MemberChanges,
}

/// A hash of a channel and an event's name. An event may replace an older one with an equal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventKey(u64);

impl EventKey {
    pub(crate) fn new(channel: ChannelId, event: &str) -> Self {
        // With 64 bits of a good hash, collisions of names within a channel are negligible.
        Self(xxhash_rust::xxh3::xxh3_64_with_seed(event.as_bytes(), channel.0))
    }
}
