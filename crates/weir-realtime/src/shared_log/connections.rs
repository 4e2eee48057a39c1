//! The limits of apps' connections over all nodes.
//!
//! The log grants each node a part of an app's limit, of which all parts together are at most the limit.
//! A node admits connections up to its part without asking.

use std::sync::Arc;

/// What this node uses of an app's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionUse {
    /// The app's id.
    pub app: Arc<str>,
    /// Its connections to this node.
    pub connections: usize,
    /// The part of the limit that this node keeps: at least its connections.
    pub held: usize,
    /// The limit.
    pub connections_max: usize,
    /// Whether connections were refused, or may be soon, for want of a larger part.
    pub is_wanted: bool,
}

/// The part of an app's limit that this node may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionGrant {
    /// Connections that this node may have.
    pub granted: usize,
    /// How many more than it has now it should keep until the next grant.
    pub spare: usize,
    /// Connections to the other nodes, as they last reported.
    pub others: usize,
}
