//! Requests about tasks: actions on all matching jobs that the server runs in the background.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepQuery;

/// Longer names of who began a task are cut.
pub const STARTED_BY_BYTES_MAX: usize = 200;

/// A new task. The members of [`StepQuery`] say what it does. Its place may also be `quarantine:NAME`, for all
/// queues of that quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRequest {
    #[serde(flatten)]
    pub query: StepQuery,
    /// Who begins it, for operators.
    #[serde(default)]
    pub by: Option<String>,
}
