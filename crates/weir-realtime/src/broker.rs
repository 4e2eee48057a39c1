//! The broker orders events, stores their history and tracks subscribers.
//!
//! Everything that happens on channels passes through [`Broker`]. [`LocalBroker`] keeps all of its
//! state in the memory of this process. [`NodeBroker`] is what the hub uses: the local broker, with a
//! log that several nodes share in front of it if one is configured.
//!
//! # With durable histories
//! Events of the app are written to a log by its thread, which publishes them then
//! ([`crate::durable`]). All else is as on a local broker.
//!
//! # With a shared log
//! - **Publishing** is a future up to the HTTP API and the admin API. The log orders events, and each
//!   node receives all of them in the log's order (invariant 12). The channel's local home
//!   distributes them, with the log's position instead of its own.
//! - **Subscribing** needs the channel's position in the log. A subscription to a channel that this
//!   node has no copy of is postponed (`Postponed::Subscribe`) and retried until the copy is there:
//!   the connection is not read from meanwhile, so its messages keep their order.
//! - **Client events** are delivered here and sent to the other nodes, at most once.
//! - **Members** are those of all nodes. The log admits each user first, so that their limit holds over all
//!   nodes. A connection that waits for that is postponed like one that waits for a copy.
//! - **Counts** of subscriptions on all nodes come from the log. Figures for operators come from the
//!   apps' registries of local channels.

mod local;
mod node;

use std::sync::Arc;

pub(crate) use self::local::LocalBroker;
pub(crate) use self::node::NodeBroker;
use crate::app::App;
use crate::channel::{
    Channel, Departure, HistoryEntry, Join, JoinRequest, LeaveRequest, Published, TooManyChannels,
    TooManyMembers, VersionedList,
};
use crate::cores::CoreBusy;
use crate::durable::DurableFailure;
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;
use crate::shared_log::AppendError;
use crate::trace::FanoutSpan;

/// Orders events, stores history, and tracks subscribers and members.
///
/// All subscribers of a channel see its events in one order. A new subscriber gets the position of
/// the last event before its first one, so that history and live events join without a gap.
pub(crate) trait Broker {
    /// Publishes an event of the application's server. Resolves when the event has its position,
    /// without waiting for any client's socket.
    fn publish(
        &self,
        app: &Arc<App>,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> impl Future<Output = Result<Published, PublishError>> + Send;

    /// Publishes all of these events, or none of them: if a channel can't be created, or a core
    /// lacks room for its share, nothing is published. A batch that exceeds a core's limits is
    /// accepted if nothing else waits there.
    fn publish_all<'a>(
        &self,
        app: &Arc<App>,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)> + Send,
    ) -> impl Future<Output = Result<(), PublishError>> + Send;

    /// Sends a client's event to the other subscribers of a channel that the client is subscribed
    /// to.
    fn publish_client_event(
        &self,
        app: &App,
        channel: &Channel,
        event: ClientPublication<'_>,
    ) -> Result<(), CoreBusy>;

    /// Adds a subscriber, and creates the channel if it does not exist. Calls `on_join` before any
    /// other join or leave on the channel, so calls keep the order of joins and leaves across all
    /// cores.
    fn subscribe(
        &self,
        app: &App,
        channel: &ChannelName,
        joining: &JoinRequest,
        on_join: impl Fn(&Channel, &Join),
    ) -> Result<(Arc<Channel>, Join), SubscribeError>;

    /// Removes a subscriber. Calls `on_leave` in the same order as [`Broker::subscribe`] calls
    /// `on_join`.
    fn unsubscribe(
        &self,
        app: &App,
        channel: &Channel,
        request: LeaveRequest<'_>,
        on_leave: impl FnOnce(Departure),
    ) -> Departure;

    /// Sends subscribers the subscription count, or the member changes of a large presence channel,
    /// if they changed. `subscribers` is the present number of subscriptions.
    fn announce_changes(&self, app: &App, channel: &Channel, subscribers: usize) -> Announcement;

    /// Returns the users of a presence channel: the list of `version` if it is still stored,
    /// otherwise the present one. The list of a large channel may be as old as the interval at
    /// which changes are gathered.
    fn members(&self, app: &App, channel: &str, version: Option<u64>) -> Option<VersionedList>;

    /// Returns the channel's position and its newest events after offset `after`, oldest first.
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
    /// The connection that does not receive the event.
    pub(crate) except: Option<SocketId>,
    /// An event with the same key is appended to a channel of the shared log only once.
    pub(crate) idempotency_key: Option<&'a str>,
    /// None: it is not traced.
    pub(crate) trace: Option<&'a FanoutSpan>,
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

/// Whether all changes have been announced to subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// All changes are announced.
    Done,
    /// It is too early to announce; call again later.
    Due,
}

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// A core has too much waiting to be delivered.
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    /// The channel does not exist, and the limit of channels is reached.
    #[error("{0}")]
    TooManyChannels(#[from] TooManyChannels),
    /// This process has handed over, and the next one continues the histories.
    #[error("this process has handed over to the next one; try again")]
    HandedOver,
    /// The event was not appended to the shared log.
    #[error("{0}")]
    Log(#[from] AppendError),
    /// The event was not written to the log of durable histories.
    #[error("{0}")]
    Durable(#[from] DurableFailure),
}

/// Why a subscription was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    /// A core that must notify other subscribers has no room.
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    /// The channel does not exist, and the limit of channels is reached.
    #[error("{0}")]
    TooManyChannels(#[from] TooManyChannels),
    /// The presence channel has reached its limit of members.
    #[error("{0}")]
    TooManyMembers(#[from] TooManyMembers),
    /// The channel's position in the shared log is requested. Try again soon.
    #[error("the channel's position is not known yet")]
    Unsynchronized,
    /// The log is asked to admit the user to the presence channel. Try again soon, or cancel it.
    #[error("the user is not admitted yet")]
    Unadmitted,
}
