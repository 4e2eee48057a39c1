//! Members of presence channels, as nodes tell each other about them.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::channel_key::ChannelKey;
use crate::pusher::position::ChannelPosition;

/// A user of a presence channel.
#[derive(Clone, Debug)]
pub struct SharedMember {
    /// The user's id.
    pub user_id: Arc<str>,
    /// Information about the user from the application.
    pub user_info: Option<Arc<RawValue>>,
}

/// Users whose first connection to a node came, and users whose last one left. No user is in both.
#[derive(Clone, Debug, Default)]
pub struct MemberChanges {
    /// Users that came.
    pub added: Vec<SharedMember>,
    /// Users that left.
    pub removed: Vec<Arc<str>>,
}

/// Changes of this node's members that the log does not have. No user is in two of the lists.
#[derive(Clone, Debug, Default)]
pub struct UnsentMembers {
    /// Users that came, and users that left.
    pub changes: MemberChanges,
    /// Users that wait to join. They may if the channel has fewer than `members_max` users, or has them
    /// already.
    pub requested: Vec<SharedMember>,
    /// The limit of the channel's users.
    pub members_max: usize,
}

impl UnsentMembers {
    /// Returns the number of users.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes.added.len() + self.changes.removed.len() + self.requested.len()
    }

    /// Returns whether there is nothing to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Changes of a channel's members on one node.
#[derive(Clone, Debug)]
pub struct MembersMessage {
    /// The channel.
    pub key: ChannelKey,
    /// The node.
    pub node: Arc<str>,
    /// Their position among all changes of the channel's members.
    pub version: ChannelPosition,
    /// The changes.
    pub changes: MemberChanges,
}

/// The log's members of a channel.
#[derive(Clone, Debug)]
pub struct MembersState {
    /// The position of the last change. None: there are no members.
    pub version: Option<ChannelPosition>,
    /// The members of each node other than this one.
    pub nodes: Vec<(Arc<str>, Vec<SharedMember>)>,
    /// Whether members of nodes that are not listed stay for now: they may be about to renew them.
    pub keeps_absent: bool,
}

/// What a node knows of a channel's members of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldMembers {
    /// It is no presence channel.
    None,
    /// All of them must be read.
    Unknown,
    /// The members after this change. None: the log had no members.
    Known(Option<ChannelPosition>),
}
