//! Jobs in progress that were cancelled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a request to cancel jobs has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelView {
    pub jobs: Vec<CancelledJobView>,
    /// The requested ids that no job in progress has.
    pub not_in_progress: Vec<String>,
}

/// A cancelled job: if it fails, it is dead instead of waiting for a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelledJobView {
    pub jid: String,
    pub jobtype: String,
    pub wid: Option<String>,
    /// The host and the process id of its worker, if it is connected to this node.
    pub worker: Option<String>,
    /// Whether the worker supports cancelling: the reply to its next BEAT names the job.
    pub is_notified: bool,
}
