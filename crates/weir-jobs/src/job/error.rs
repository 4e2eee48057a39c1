//! The reasons for rejecting a job.

use std::fmt;

use crate::model::NameError;

/// Maximum number of characters of a parser's error that are passed on (it may quote the job).
const COMPLAINT_CHARACTERS_MAX: usize = 200;

/// Why a job was rejected. The text is sent to the client and has one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The job is not JSON or not an object, or a member is of the wrong type.
    #[error("malformed job: {0}")]
    Malformed(String),
    /// The sentence is Faktory's; clients recognize it.
    #[error("jobs must have a reasonable jid parameter: a string of at least {min} bytes")]
    Jid { min: usize },
    #[error("jobs must have a jobtype parameter")]
    Jobtype,
    #[error("jobs must have an args parameter")]
    Args,
    #[error("jobs cannot be reserved for more than one day")]
    ReserveFor,
    #[error("malformed job: {0}")]
    Queue(#[from] NameError),
    #[error(
        "malformed job: {member} is longer than {max} bytes (jobs.limits.advanced.id_bytes_max)"
    )]
    TooLong { member: &'static str, max: usize },
    #[error("malformed job: nests deeper than {max} (jobs.limits.advanced.json_depth_max)")]
    TooDeep { max: usize },
    #[error("too many jobs in one PUSHB: at most {max} (jobs.limits.pushb_jobs_max)")]
    TooMany { max: usize },
}

impl JobError {
    /// Returns the name of the limit that was reached, for the metric.
    #[must_use]
    pub const fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Queue(NameError::TooLong { .. }) => Some("queue_name_bytes_max"),
            Self::TooLong { .. } => Some("id_bytes_max"),
            Self::TooDeep { .. } => Some("json_depth_max"),
            Self::TooMany { .. } => Some("pushb_jobs_max"),
            _ => None,
        }
    }

    pub(super) fn malformed(complaint: impl fmt::Display) -> Self {
        let text = complaint.to_string();
        let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self::Malformed(one_line.take(COMPLAINT_CHARACTERS_MAX).collect())
    }
}
