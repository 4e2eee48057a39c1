//! The state of a server of the log, for operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A server of the log, or one of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogShardView {
    /// Its name among several.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether events arrive from it.
    pub is_connected: bool,
    /// Why it can't be used, and since when. None: it can, or there was no attempt yet.
    pub problem: Option<String>,
    /// Seconds since it can or can't be used.
    pub seconds: f64,
    /// Nodes that are connected to it, as far as this node knows.
    pub nodes: u64,
}
