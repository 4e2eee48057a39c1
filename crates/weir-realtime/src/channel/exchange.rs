//! What is asked of a channel, and what it answers: plain data.

use weir_base::clock::Timestamp;

use super::history::HistoryEntry;
use super::members::{ListedMember, MemberList};
use super::meter::Amount;
use crate::cores::{Audience, CoreBusy};
use crate::frame::{Draft, Frame};
use crate::pusher::position::ChannelPosition;
use crate::pusher::server_message::Joined;
use crate::settings::HistoryLimits;

/// The channel was removed meanwhile: ask the registry for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelGone;

/// What is published.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    pub(crate) draft: Draft,
    pub(crate) audience: Audience,
    pub(crate) event: &'a str,
    /// The data again, for cache channels.
    pub(crate) data: &'a str,
    pub(crate) keeps: Keeps,
    pub(crate) now: Timestamp,
}

/// Where an event is kept after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// In history, and in the cache of a cache channel.
    History(HistoryLimits),
    /// Nowhere: an event of a client.
    Nothing,
}

/// A published event; the default is one that nobody gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) position: Option<ChannelPosition>,
    pub(crate) subscribers: usize,
    /// Bytes of history more, or less, than before.
    pub(crate) history_change: isize,
}

/// A new subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) core: usize,
    pub(crate) member: Option<ListedMember>,
    pub(crate) recover: Option<ChannelPosition>,
    pub(crate) wants_member_changes: bool,
    pub(crate) now: Timestamp,
}

/// What who joined is to be told, and what it changed.
#[derive(Debug)]
pub(crate) struct Join {
    /// Messages up to this place are not for it.
    pub(crate) sequence: u64,
    pub(crate) joined: Joined,
    pub(crate) missed: Vec<Frame>,
    pub(crate) cache: CacheState,
    pub(crate) members: Option<Listing>,
    /// The user's first connection, on a presence channel.
    pub(crate) member_came: bool,
    /// The channel had no subscriber.
    pub(crate) occupied: bool,
    pub(crate) subscribers: usize,
    /// Bytes of history more, or less, than before.
    pub(crate) history_change: isize,
}

/// Whom a new subscriber of a presence channel is shown.
#[derive(Debug)]
pub(crate) struct Listing {
    /// All users; only the new one itself where the channel is too large.
    pub(crate) members: MemberList,
    pub(crate) count: usize,
}

/// What a cache channel has for a new subscriber.
#[derive(Debug)]
pub(crate) enum CacheState {
    /// It is none.
    None,
    Miss,
    Hit(Frame),
}

/// Why nobody joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("the channel was removed at this moment")]
    Gone,
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    #[error("{0}")]
    TooManyMembers(#[from] TooManyMembers),
}

/// The presence channel has as many users as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel has {max} users; more are not allowed (realtime.apps presence.members_max)")]
pub(crate) struct TooManyMembers {
    /// The limit.
    pub(crate) max: usize,
}

/// Who left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving<'a> {
    pub(crate) core: usize,
    pub(crate) user_id: Option<&'a str>,
    pub(crate) wants_member_changes: bool,
    pub(crate) now: Timestamp,
}

/// What it changed that somebody left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The user's last connection, on a presence channel.
    pub(crate) member_went: bool,
    pub(crate) subscribers: usize,
}

/// What is saved of a channel over a restart.
#[derive(Debug)]
pub(crate) struct SavedHistory {
    pub(crate) position: ChannelPosition,
    pub(crate) entries: Vec<HistoryEntry>,
    /// Of a cache channel: the last event and its data.
    pub(crate) cached: Option<(Box<str>, HistoryEntry)>,
    pub(crate) touched: Timestamp,
}

/// What is told about a channel.
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
