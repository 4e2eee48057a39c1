//! What a core is told.

use std::sync::Arc;

use tokio::sync::oneshot;
use weir_base::clock::Timestamp;

use super::room::Reservation;
use crate::app::App;
use crate::frame::Frame;
use crate::pusher::close_code::CloseCode;
use crate::pusher::socket_id::SocketId;

/// A letter to a core. All but the last hold room that was reserved on it.
#[derive(Debug)]
pub(crate) enum Letter {
    /// For subscribers of a channel.
    Broadcast(Broadcast),
    /// For some connections.
    Direct(Direct),
    /// End one connection if it is this app's; answers whether it was there.
    Disconnect { to: SocketId, app: Arc<App>, answer: oneshot::Sender<bool>, room: Reservation },
    /// An app is gone or off: its connections end. Without room, as it can't be refused: there is
    /// one for each app that an operator's reload ends, and a core keeps one for each app at most.
    CloseApp { app: Arc<App> },
}

/// The same for some connections of one core, as far as they are still there.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) to: Vec<SocketId>,
    pub(crate) what: What,
    /// Given back when all of them have it.
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) room: Reservation,
}

/// What connections get.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Frame(Frame),
    /// Their end.
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
    pub(crate) room: Reservation,
}

/// The channel's number: unique while the process lives.
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
