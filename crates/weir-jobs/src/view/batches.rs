//! Batches of jobs with callbacks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of batches, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchListPage {
    pub now: f64,
    pub batches: Vec<BatchView>,
    /// Pass as `after` to get the next page. `None`: this is the last page.
    pub next: Option<String>,
    /// How many batches there are in all.
    pub total: u64,
}

/// A batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchView {
    pub bid: String,
    pub parent_bid: Option<String>,
    pub description: String,
    /// `open` (jobs may be added), `running`, `waiting` (the jobs that are left have failed, and wait for a retry or an
    /// operator), `failed` (jobs were lost, so that it can't succeed), `completed` or `succeeded`.
    pub state: String,
    pub created_at: f64,
    /// When it is forgotten.
    pub expires_at: f64,
    /// Jobs that were pushed.
    pub total: u64,
    /// Those that have not succeeded.
    pub pending: u64,
    /// Those of them that have failed.
    pub failed: u64,
    pub succeeded: u64,
    /// Those that ended without success: deleted, thrown away, expired.
    pub lost: u64,
    /// The callback when all jobs have run: `none`, `pending`, `enqueued` or `succeeded`.
    pub complete: String,
    /// The callback when all jobs have succeeded.
    pub success: String,
}
