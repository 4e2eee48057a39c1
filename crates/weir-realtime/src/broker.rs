//! The broker: what gives events their order, keeps their history and knows who is subscribed.
//!
//! Everything that happens on channels passes through [`Broker`]. [`LocalBroker`] keeps all of it in
//! the memory of this process.
//!
//! # What a broker over several nodes needs
//! - **Publishing** is a future up to the HTTP API and the admin API, so it may wait for a reply. It
//!   keeps the order of reservation and position (invariant 12): events from other nodes arrive on each
//!   node in the broker's order and are distributed by the channel's local home, which then uses the
//!   broker's position instead of its own.
//! - **Client events and subscriptions** are synchronous: they are called while the shard's state is
//!   borrowed, which must not happen across an await. A client event can be queued, in a bounded queue
//!   that reports [`CoreBusy`] when it is full.
//! - **Subscribing** must be able to finish later, which the shard can't do yet. Its postponed
//!   subscriptions (`Postponed::Subscribe`) come close: the connection is not read from meanwhile, so
//!   its messages keep their order, and the subscription is tried again. But they are tried again by
//!   time, and each attempt starts anew. A pending subscription needs a state of its own in the session
//!   that holds the request, the broker wakes the connection's task when the reply is there, and
//!   `leave_all` cancels it. Broadcasts that arrive in between must wait for its sequence.
//! - **Members and history** are read synchronously from this process. A remote broker either keeps a
//!   copy of each channel that has local subscribers, or these methods become futures too: their
//!   callers are the HTTP API, except for pages of members, which need the pending state above.
//! - Numbers for operators and for `GET /channels` come from the apps' registries of local channels.

mod local;

use std::sync::Arc;

pub(crate) use self::local::LocalBroker;
use crate::app::App;
use crate::channel::{
    Channel, HistoryEntry, Join, Joining, Leaving, Left, Published, TooManyChannels,
    TooManyMembers, VersionedList,
};
use crate::cores::CoreBusy;
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;

/// Orders events, keeps history and knows subscribers and members.
///
/// All subscribers of a channel see its events in one order. Whoever subscribes gets the position of
/// the last event before its first one, so history and live events join without a gap.
pub(crate) trait Broker {
    /// Publishes an event of the application's server. Resolves when the event has its position;
    /// it never waits for a client's socket.
    fn publish(
        &self,
        app: &App,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> impl Future<Output = Result<Published, PublishError>> + Send;

    /// Publishes all of these events, or none: if one of their channels can't be created, or a core
    /// has no room for all that it would get. More than a core's whole room passes if nothing else
    /// waits.
    fn publish_all<'a>(
        &self,
        app: &App,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)>,
    ) -> impl Future<Output = Result<(), PublishError>> + Send;

    /// Sends an event of a client to the other subscribers of a channel that it is subscribed to.
    fn publish_client_event(
        &self,
        channel: &Channel,
        event: ClientPublication<'_>,
    ) -> Result<(), CoreBusy>;

    /// Adds a subscriber, and creates the channel if it does not exist. `on_join` is called in the
    /// order in which subscribers come and go on all cores, before any other can.
    fn subscribe(
        &self,
        app: &App,
        channel: &ChannelName,
        joining: &Joining,
        on_join: impl Fn(&Channel, &Join),
    ) -> Result<(Arc<Channel>, Join), SubscribeError>;

    /// Removes a subscriber. `on_leave` is called as on [`Broker::subscribe`].
    fn unsubscribe(
        &self,
        app: &App,
        channel: &Channel,
        leaving: Leaving<'_>,
        on_leave: impl FnOnce(Left),
    ) -> Left;

    /// Sends subscribers the number of subscriptions, or the changes of a large presence channel's
    /// members, if they changed. `subscribers` is the present number of subscriptions.
    fn announce_changes(&self, app: &App, channel: &Channel, subscribers: usize) -> Announcement;

    /// The users of a presence channel: those of `version` if that list is still kept, otherwise the
    /// present ones. The list of a large channel may be as old as changes are gathered.
    fn members(&self, app: &App, channel: &str, version: Option<u64>) -> Option<VersionedList>;

    /// The channel's position, and its newest events above `after`, oldest first.
    fn history(
        &self,
        app: &App,
        channel: &str,
        after: u64,
        events_max: usize,
    ) -> Option<(ChannelPosition, Vec<HistoryEntry>)>;
}

/// An event of the application's server for one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerEvent<'a> {
    pub(crate) name: &'a str,
    pub(crate) data: &'a str,
    /// The connection that doesn't receive it.
    pub(crate) except: Option<SocketId>,
}

/// An event of a client for the other subscribers of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientPublication<'a> {
    pub(crate) name: &'a str,
    pub(crate) data: Option<&'a str>,
    pub(crate) sender: SocketId,
    /// The sender's user, on a presence channel.
    pub(crate) user_id: Option<&'a str>,
}

/// Whether subscribers know all changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Nothing is left to announce.
    Done,
    /// It is too early; to be called again.
    Due,
}

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// A core has too much to deliver.
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    /// The channel does not exist, and no more may be created.
    #[error("{0}")]
    TooManyChannels(#[from] TooManyChannels),
    /// The next process continues the histories.
    #[error("this process has handed over to the next one; try again")]
    HandedOver,
}

/// Why a subscription was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    /// Others must be told, on a core that has no room.
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    /// The channel does not exist, and no more may be created.
    #[error("{0}")]
    TooManyChannels(#[from] TooManyChannels),
    /// The presence channel is full.
    #[error("{0}")]
    TooManyMembers(#[from] TooManyMembers),
}
