//! How a router reaches the nodes of its cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redis::Value;
use redis::aio::ConnectionLike;

use crate::cluster_slots::NodeAddress;

/// A connection to one node.
pub type NodeConnection = Box<dyn ConnectionLike + Send>;

/// The link to one node.
pub trait NodeLink: fmt::Debug + Send + Sync {
    /// Returns the connection, opening one if there is none and it is time for another attempt. The error
    /// is a text for operators.
    fn connection(&self) -> BoxFuture<'_, Result<NodeConnection, String>>;

    /// Returns why there is no connection, or `None` if there is one or none was needed yet.
    fn absence_text(&self) -> Option<String>;

    /// Returns for how long there has been none, or `None` as above.
    fn absence_lasts(&self) -> Option<Duration>;
}

/// Makes the links to nodes.
pub trait NodeLinks: fmt::Debug + Send + Sync {
    /// Returns the link to a node.
    fn link(&self, address: &NodeAddress) -> Arc<dyn NodeLink>;

    /// Returns the host of the server that leads to the cluster, for nodes that leave out theirs.
    fn seed_host(&self) -> &str;

    /// Asks that server for the slots, over a connection of its own.
    fn read_slots(&self) -> BoxFuture<'_, Option<Value>>;
}
