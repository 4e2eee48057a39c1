//! The request of one step of an action on all matching jobs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

use crate::stamp;

/// One step: it examines up to `limits.scan_jobs_max` jobs, and changes those that match and were there
/// when the first step began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepQuery {
    /// `scheduled`, `retries`, `dead` or `queue:NAME`.
    pub place: String,
    #[serde(default)]
    pub search: Option<String>,
    #[serde(default)]
    pub jobtype: Option<String>,
    pub action: StepAction,
    /// `next` of the step before. `None`: the first step.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// What a step does with the jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    Requeue,
    Kill,
    Discard,
    /// Moves them to the end of this queue.
    Move(String),
    /// Moves them to paused queues under this name, one for each queue that they come from.
    Quarantine(String),
    /// Changes when scheduled jobs or retries are due: an RFC 3339 time.
    Reschedule(String),
    /// Moves the jobs of a quarantine to the end of the queue that they come from.
    TakeBack,
}

/// What it does, as a phrase after "to".
impl fmt::Display for StepAction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requeue => formatter.write_str("requeue"),
            Self::Kill => formatter.write_str("kill"),
            Self::Discard => formatter.write_str("delete"),
            Self::Move(queue) => write!(formatter, "move to {queue}"),
            Self::Quarantine(name) => write!(formatter, "quarantine as {name}"),
            Self::Reschedule(time) => write!(formatter, "reschedule to {time}"),
            Self::TakeBack => formatter.write_str("take back"),
        }
    }
}

/// The text of a request is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time like 2026-12-01T10:00:00Z")]
pub struct TimeError(String);

/// Parses the time of a request: RFC 3339, such as `2026-12-01T10:00:00Z`.
pub fn parse_time(text: &str) -> Result<Timestamp, TimeError> {
    stamp::parse(text).ok_or_else(|| TimeError(text.to_owned()))
}
