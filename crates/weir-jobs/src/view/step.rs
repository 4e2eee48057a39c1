//! One step of an action on all matching jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Jobs that were changed.
    pub count: u64,
    /// Jobs that matched and were there when the action began. Those that are not in `count` had left,
    /// or could not be changed.
    pub matched: u64,
    /// Jobs that were examined.
    pub scanned: u64,
    /// Jobs that the queue or set has now.
    pub total: u64,
    /// The cursor of the next step. `None`: the action is complete.
    pub next: Option<String>,
    /// What could not be read now, so that its jobs were left out.
    pub missing: Option<String>,
}
