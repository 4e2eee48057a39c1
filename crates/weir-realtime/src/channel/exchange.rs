//! Arguments and results of a channel's methods, as plain data.

use weir_base::clock::Timestamp;

use super::history::HistoryEntry;
use super::members::{ListedMember, MemberList};
use super::meter::Amount;
use crate::cores::{Audience, CoreBusy};
use crate::frame::{Draft, Frame};
use crate::pusher::position::ChannelPosition;
use crate::pusher::server_message::Joined;
use crate::settings::HistoryLimits;
use crate::trace::FanoutSpan;

/// The channel was removed. The caller must get a new one from the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelGone;

/// An event to publish.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    pub(crate) draft: Draft,
    pub(crate) audience: Audience,
    pub(crate) event: &'a str,
    /// The event's data, for cache channels.
    pub(crate) data: &'a str,
    pub(crate) retention: Retention,
    pub(crate) now: Timestamp,
    /// None: it is not traced.
    pub(crate) trace: Option<FanoutSpan>,
}

/// Where an event is stored after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// In the history, and in the cache of a cache channel.
    History(HistoryLimits),
    /// Likewise, at the position that the shared log gave it.
    Log { position: ChannelPosition, limits: HistoryLimits },
    /// Nowhere, as for client events.
    Nothing,
}

impl Retention {
    /// Returns the limits of the history that stores the event.
    pub(crate) const fn limits(self) -> Option<HistoryLimits> {
        match self {
            Self::History(limits) | Self::Log { limits, .. } => Some(limits),
            Self::Nothing => None,
        }
    }
}

/// A published event. The default is an event without subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) position: Option<ChannelPosition>,
    pub(crate) subscribers: usize,
    /// The change of the history's bytes.
    pub(crate) history_change: isize,
}

/// A new subscriber.
#[derive(Clone, Debug)]
pub(crate) struct JoinRequest {
    pub(crate) core: usize,
    pub(crate) member: Option<ListedMember>,
    pub(crate) recover: Option<ChannelPosition>,
    /// Whether the channel's position must be known. Always the case without a shared log.
    pub(crate) needs_position: bool,
    pub(crate) wants_member_changes: bool,
    pub(crate) now: Timestamp,
}

/// The result of a subscription: what the new subscriber must receive, and what changed.
#[derive(Debug)]
pub(crate) struct Join {
    /// The new subscriber does not receive messages up to this sequence number.
    pub(crate) sequence: u64,
    pub(crate) joined: Joined,
    pub(crate) missed: Vec<Frame>,
    pub(crate) cache: CacheState,
    pub(crate) members: Option<Listing>,
    /// Whether this is the user's first connection, on a presence channel.
    pub(crate) is_new_member: bool,
    /// Whether the channel had no subscribers before.
    pub(crate) was_empty: bool,
    pub(crate) subscribers: usize,
    /// The change of the history's bytes.
    pub(crate) history_change: isize,
}

/// The members that a new subscriber of a presence channel receives.
#[derive(Debug)]
pub(crate) struct Listing {
    /// All users. On a channel above `list_max`, only the new one.
    pub(crate) members: MemberList,
    pub(crate) count: usize,
}

/// The cached event for a new subscriber.
#[derive(Debug)]
pub(crate) enum CacheState {
    /// The channel is not a cache channel.
    None,
    Miss,
    Hit(Frame),
}

/// Why a subscriber could not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("the channel was removed at this moment")]
    Gone,
    #[error("the channel's position is not known yet")]
    Unsynchronized,
    #[error("the shared log has not admitted the user yet")]
    Unadmitted,
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    #[error("{0}")]
    TooManyMembers(#[from] TooManyMembers),
}

/// The presence channel has reached its limit of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel has {max} users; more are not allowed (realtime.apps presence.members_max)")]
pub(crate) struct TooManyMembers {
    /// The limit of users.
    pub(crate) max: usize,
}

/// A subscriber that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaveRequest<'a> {
    pub(crate) core: usize,
    pub(crate) user_id: Option<&'a str>,
    pub(crate) wants_member_changes: bool,
    pub(crate) now: Timestamp,
}

/// What changed when a subscriber left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Whether this was the user's last connection, on a presence channel.
    pub(crate) is_member_gone: bool,
    pub(crate) subscribers: usize,
}

/// The part of a channel that is saved over a restart.
#[derive(Debug)]
pub(crate) struct SavedHistory {
    pub(crate) position: ChannelPosition,
    pub(crate) entries: Vec<HistoryEntry>,
    /// The last event of a cache channel and its data.
    pub(crate) cached: Option<(Box<str>, HistoryEntry)>,
    pub(crate) touched: Timestamp,
}

/// A channel's figures, for operators and the HTTP API.
#[derive(Clone, Debug)]
pub(crate) struct ChannelCounts {
    pub(crate) subscribers: usize,
    pub(crate) users: usize,
    pub(crate) position: ChannelPosition,
    pub(crate) history_events: usize,
    pub(crate) history_bytes: usize,
    pub(crate) published: Amount,
}

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TryPublishError {
    #[error("the channel was removed at this moment")]
    Gone,
    #[error("{0}")]
    Busy(#[from] CoreBusy),
}

impl From<ChannelGone> for TryPublishError {
    fn from(_: ChannelGone) -> Self {
        Self::Gone
    }
}
