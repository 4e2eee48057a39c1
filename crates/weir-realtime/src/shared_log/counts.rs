//! Subscriptions of all nodes, as nodes report them to each other.

use std::ops::AddAssign;

/// The subscriptions and the users of a channel on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Number of subscribed connections.
    pub subscriptions: usize,
    /// Number of distinct users of a presence channel.
    pub users: usize,
}

impl SharedCounts {
    /// Returns the higher number of each.
    pub(crate) fn at_least(self, other: Self) -> Self {
        Self {
            subscriptions: self.subscriptions.max(other.subscriptions),
            users: self.users.max(other.users),
        }
    }
}

impl AddAssign for SharedCounts {
    fn add_assign(&mut self, other: Self) {
        self.subscriptions += other.subscriptions;
        self.users += other.users;
    }
}

/// A channel's subscriptions on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSubscriptions {
    /// Number of subscribed connections.
    pub count: usize,
    /// Whether subscribers receive the number, so that all nodes are notified of it.
    pub is_announced: bool,
}

/// The subscriptions on all nodes, before and after a change of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// Number of subscribed connections before.
    pub before: usize,
    /// Number of subscribed connections after it.
    pub after: usize,
}
