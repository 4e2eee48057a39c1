//! Webhooks about subscribers and members of all nodes, each of which one node sends.

use super::channel_key::ChannelKey;

/// A webhook that a node must send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedWebhook {
    /// Stays the same if another node repeats it.
    pub id: String,
    /// The channel.
    pub key: ChannelKey,
    /// What happened.
    pub change: SharedChange,
}

/// What a webhook reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedChange {
    /// The channel got its first subscriber.
    Occupied,
    /// The channel lost its last subscriber.
    Vacated,
    /// The user's first connection joined.
    MemberAdded(String),
    /// The user's last connection left.
    MemberRemoved(String),
}

impl SharedChange {
    /// Returns whether a later change may cancel this one, so that it is not sent at once.
    #[must_use]
    pub const fn may_be_cancelled(&self) -> bool {
        matches!(self, Self::Vacated | Self::MemberRemoved(_))
    }
}
