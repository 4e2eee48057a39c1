//! Tasks: actions on all matching jobs that the server runs in the background.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::handle::StepAction;

/// A task and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    pub id: u64,
    pub place: String,
    pub search: Option<String>,
    pub jobtype: Option<String>,
    pub action: StepAction,
    /// Who began it.
    pub by: String,
    pub state: TaskState,
    /// A stop was requested, and the step in progress has not ended yet.
    pub is_stopping: bool,
    /// What keeps a running task from going on now.
    pub waits_for: Option<String>,
    /// Why it has failed.
    pub reason: Option<String>,
    pub began_at: f64,
    pub ended_at: Option<f64>,
    /// Jobs in its place when it began.
    pub total: u64,
    /// Of these, and of those that came later.
    pub examined: u64,
    pub changed: u64,
    /// Jobs that matched and were not changed: they had left, or there was nothing to change.
    pub unchanged: u64,
    /// Jobs examined per second, recently. Zero if it does not run.
    pub per_second: f64,
    /// `None`: unknown, or it does not run.
    pub seconds_left: Option<f64>,
}

/// Whether a task runs, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    Running,
    /// By an operator. It can be resumed.
    Stopped,
    Done,
    /// It can be resumed.
    Failed,
}

impl TaskState {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
