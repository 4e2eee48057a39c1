//! What a node of realtime reports about itself to the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::node;

/// The figures of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeFigures {
    /// Clients that are connected to it.
    pub clients: u64,
    /// Channels that it has, including those without subscribers.
    pub channels: u64,
    /// How long the log took to respond to its last heartbeat: what its events are delayed by.
    #[serde(deserialize_with = "node::not_negative")]
    pub log_seconds: f64,
}

/// The report of a node.
pub type NodeReport = node::NodeReport<NodeFigures>;
/// A node that shares the log.
pub type NodeState = node::NodeState<NodeFigures>;
/// A node, for operators.
pub type NodeView = node::NodeView<NodeFigures>;
