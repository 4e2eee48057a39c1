//! What the nodes that share a store report about themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures that a node reports every [`WORKER_REPORT_EVERY`](crate::store::WORKER_REPORT_EVERY).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeFigures {
    /// Jobs per second that its workers have ended, over the last minute.
    #[serde(deserialize_with = "weir_base::node::not_negative")]
    pub jobs_per_second: f64,
    /// Jobs that its workers have reserved.
    pub busy: u64,
    /// Its worker processes.
    pub workers: u64,
    /// Its client connections.
    pub connections: u64,
}

/// The report of a node.
pub type NodeReport = weir_base::node::NodeReport<NodeFigures>;
/// A node that shares the store, under the name that holds its reservations.
pub type NodeState = weir_base::node::NodeState<NodeFigures>;
/// A node, for operators.
pub type NodeView = weir_base::node::NodeView<NodeFigures>;
