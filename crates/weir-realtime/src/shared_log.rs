//! The log that several nodes share: it orders events and stores their history.
//!
//! A node appends events to the log and delivers nothing by itself. The log's client passes every
//! appended event, from any node, to [`Hub::deliver`](crate::hub::Hub::deliver) in the order of its
//! channel. A channel with local subscribers is a copy of the end of the log's: same epoch, same
//! offsets. A copy that may lack events is compared with the log
//! ([`Hub::synchronize`](crate::hub::Hub::synchronize)); what the log no longer has is reported to
//! the subscribers as a gap.
//!
//! The subscriptions of a channel and the members of a presence channel are those of all nodes. A node
//! tells the log how many subscriptions it has, and which users came to it or left it. The log tells all
//! nodes, which notify their subscribers.

mod channel_key;
mod connections;
mod counts;
mod members;
mod node_figures;
mod shard_view;
mod webhooks;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::Timestamp;

pub use self::channel_key::ChannelKey;
pub use self::connections::{ConnectionGrant, ConnectionUse};
pub use self::counts::{CountChange, NodeSubscriptions, SharedCounts};
pub use self::members::{
    HeldMembers, MemberChanges, MembersMessage, MembersState, SharedMember, UnsentMembers,
};
pub use self::node_figures::{NodeFigures, NodeReport, NodeState, NodeView};
pub use self::shard_view::LogShardView;
pub use self::webhooks::{SharedChange, SharedWebhook};
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;
use crate::settings::HistoryLimits;

/// The result of [`SharedLog::append`].
pub type Appending<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<ChannelPosition>, AppendError>> + Send + 'a>>;

/// The result of [`SharedLog::terminate`].
pub type Terminating<'a> = Pin<Box<dyn Future<Output = Result<(), AppendError>> + Send + 'a>>;

/// The result of [`SharedLog::counts`].
pub type Counting<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<SharedCounts>, AppendError>> + Send + 'a>>;

/// The result of [`SharedLog::channels`]: names and counts.
pub type Listing<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<(String, SharedCounts)>, AppendError>> + Send + 'a>>;

/// A log of events that several nodes share.
pub trait SharedLog: fmt::Debug + Send + Sync {
    /// Appends all of these events, or none of them. Returns their positions. If their channels are on
    /// several servers, an error may be [`AppendError::Partial`].
    fn append(&self, events: Vec<NewEvent>) -> Appending<'_>;

    /// Requests the log's state of a channel, which is passed to
    /// [`Hub::synchronize`](crate::hub::Hub::synchronize) later. Returns false if the log does not
    /// respond at present.
    fn request(&self, channel: ChannelKey, history: HistoryLimits) -> bool;

    /// Closes a user's connections to the other nodes, each within a second or when it reaches the log
    /// again.
    fn terminate(&self, app: Arc<str>, user: Box<str>) -> Terminating<'_>;

    /// Sends a client's event to the subscribers of the other nodes, at most once: it has no position
    /// and no history. Where it can't be sent, it is counted and dropped.
    fn broadcast(&self, event: ClientBroadcast);

    /// Notes that subscribers of a channel came to this node or left it.
    /// [`Hub::node_subscriptions`](crate::hub::Hub::node_subscriptions) returns their number, and
    /// [`Hub::take_member_changes`](crate::hub::Hub::take_member_changes) the members.
    fn subscribers_changed(&self, channel: ChannelKey);

    /// Returns the counts of some channels on all nodes.
    fn counts(&self, channels: Vec<ChannelKey>) -> Counting<'_>;

    /// Returns all channels of an app that have subscribers on any node, and whose names begin with
    /// `prefix`. The users are counted only if `counts_users`.
    fn channels(&self, app: Arc<str>, prefix: Box<str>, counts_users: bool) -> Listing<'_>;

    /// Returns whether the members of this channel are sent to the log at present.
    fn takes_members(&self, channel: &ChannelKey) -> bool;

    /// Requests a larger part of apps' limits of connections, soon.
    /// [`Hub::begin_connection_exchange`](crate::hub::Hub::begin_connection_exchange) returns for which.
    fn request_connections(&self);

    /// Returns the state of each server of the log.
    fn shards(&self) -> Vec<LogShardView>;

    /// Returns the nodes that share the log, as they reported themselves, by hostname.
    fn node_states(&self) -> Vec<NodeState>;
}

/// An event of a client, for the other subscribers of its channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientBroadcast {
    /// Its channel.
    pub key: ChannelKey,
    /// The event's name.
    pub name: Box<str>,
    /// The event's data.
    pub data: Option<Box<str>>,
    /// The connection that sends it.
    pub sender: SocketId,
    /// The sender's user, on a presence channel.
    pub user_id: Option<Box<str>>,
}

/// An event to append.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Where it is published.
    pub key: ChannelKey,
    /// The event.
    pub event: LogEvent,
    /// An event of the same channel with the same key was appended before: it is not appended again.
    pub idempotency_key: Option<Box<str>>,
    /// What the log keeps of the channel.
    pub history: HistoryLimits,
    /// How long the log keeps the channel's last event, if it is a cache channel.
    pub cache_age: Option<Duration>,
}

/// An event, without its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The event's name.
    pub name: Box<str>,
    /// The event's data.
    pub data: Box<str>,
    /// The connection that does not receive the event, on any node.
    pub except: Option<SocketId>,
}

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its position in the channel's history.
    pub position: ChannelPosition,
    /// The last event of the previous epoch, if this is the first one of an epoch that began only
    /// because events may have been lost. Where that one was delivered last, none was.
    pub continues: Option<ChannelPosition>,
    /// When it was appended, by the log's clock.
    pub at: Timestamp,
    /// The event.
    pub event: LogEvent,
}

/// The log's state of a channel.
#[derive(Clone, Debug)]
pub struct ChannelState {
    /// The position of its last event.
    pub position: ChannelPosition,
    /// Its last events, those after the local copy's offset, with increasing offsets. An offset that is
    /// missing is that of an event that the log no longer has, or that can't be read.
    pub records: Vec<LogRecord>,
    /// The last event of a cache channel, unless it is too old.
    pub cached: Option<LogRecord>,
    /// The members of a presence channel, unless they are those that the copy has.
    pub members: Option<MembersState>,
}

impl ChannelState {
    /// Returns the events behind the last missing offset, which are all up to that of `position`.
    pub(crate) fn newest_records(&self) -> &[LogRecord] {
        let newest = self.records.iter().rev().zip((0..=self.position.offset).rev());
        let count = newest.take_while(|(record, offset)| record.position.offset == *offset).count();
        &self.records[self.records.len() - count..]
    }
}

/// Why events were not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Nothing was appended: there is no connection to the log.
    #[error("Redis does not respond, so nothing was done (realtime.broker); try again")]
    Away,
    /// Nothing was appended: a Redis Cluster moves the slot of the channel, or no node has it.
    #[error(
        "the Redis Cluster is moving the channel to another node, or no node has its slot (realtime.broker), so nothing was done; try again"
    )]
    Moving,
    /// Nothing was appended: the log has no memory left.
    #[error(
        "Redis has reached its maxmemory (realtime.broker), so nothing was done; free memory there, or raise maxmemory"
    )]
    Full,
    /// Nothing was appended: too many requests wait for the log.
    #[error(
        "too many publications wait for Redis (realtime.redis.appends_max, append_bytes_max), so this one is rejected; try again"
    )]
    Busy,
    /// Too many lists of channels are being read.
    #[error("other lists of channels are being read at the moment; try again")]
    TooManyLists,
    /// The connection broke, or no reply came in time.
    #[error(
        "Redis did not reply, so the event may be published or not; repeat it with the same idempotency_key to be sure"
    )]
    Unknown,
    /// Some of the events were appended, but not all: their channels are on several servers.
    #[error(
        "the event is published on some of its channels only, because a Redis of the others did not accept it (realtime.broker); repeat it with the same idempotency_key to publish it on all of them"
    )]
    Partial,
    /// Nothing was appended: the log rejected the request.
    #[error("Redis rejected the event; see Weir's log")]
    Rejected,
}

/// The result of comparing a copy with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Events that were delivered late.
    pub late: u64,
    /// False: a core has too much waiting. Compare the channel again later.
    pub is_complete: bool,
}

/// What became of an event that was passed to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is on its way to the subscribers.
    Delivered,
    /// No subscriber of this node needs it.
    NotNeeded,
    /// Events before it are missing: the channel must be compared with the log.
    Hole,
    /// A core has too much waiting. Compare the channel with the log later.
    Busy,
}
