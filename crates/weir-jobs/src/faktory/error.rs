//! All `-ERR` replies of the protocol. Other errors are converted to replies only here.

use std::net::IpAddr;

use crate::job::JobError;
use crate::metrics::JobServerLimit;
use crate::model::NameError;
use crate::server::{PushError, QueueFull};
use crate::store::StoreError;

/// Maximum number of characters of a client's own text that an error repeats.
const ECHO_CHARACTERS_MAX: usize = 50;

/// Why a command or a connection was rejected. The text is sent after `-ERR `.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum FaktoryError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    QueueFull(#[from] Box<QueueFull>),
    #[error("{0}")]
    TooLargeForQueue(String),
    #[error("malformed {command}: {complaint}")]
    Malformed { command: &'static str, complaint: String },
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("unknown command {0}")]
    UnknownCommand(String),
    #[error("No such batch {0}")]
    NoSuchBatch(String),
    #[error(
        "BATCH NEW of more than {max} bytes: shorten it, or raise jobs.limits.advanced.batch_definition_bytes_max"
    )]
    BatchDefinition { max: usize },
    #[error("unknown worker {0}")]
    UnknownWorker(String),
    #[error("QUEUE LATENCY does not support wildcards")]
    Wildcard,
    #[error("FETCH needs at least one queue: FETCH QUEUE [QUEUE ..]")]
    NoQueue,
    #[error("FETCH names more than {max} queues (jobs.limits.advanced.fetch_queues_max)")]
    FetchQueues { max: usize },
    #[error("{command} of more than {max} jobs (jobs.limits.batch_jobs_max)")]
    BatchJobs { command: &'static str, max: usize },
    #[error("FLUSH is not allowed: it forgets all jobs; set jobs.allow_flush = true to allow it")]
    FlushNotAllowed,
    #[error("Invalid password")]
    InvalidPassword,
    #[error(
        "too many wrong passwords, last from {0}; try again in a minute (jobs.limits.advanced.password_checks_max)"
    )]
    PasswordChecks(IpAddr),
    #[error("too many connections")]
    TooManyConnections,
    #[error("too many workers: at most {max} (jobs.limits.workers_max)")]
    TooManyWorkers { max: usize },
    #[error("line too long: more than {max} bytes ({limit})")]
    LineTooLong { max: usize, limit: JobServerLimit },
    #[error("line not complete after {seconds} s (jobs.limits.advanced.line_timeout)")]
    LineTimeout { seconds: u64 },
    #[error(
        "no memory for so large a line now, try again (jobs.limits.advanced.buffered_bytes_max)"
    )]
    Buffered,
    #[error("{what} is longer than {max} bytes (jobs.limits.advanced.id_bytes_max)")]
    IdTooLong { what: &'static str, max: usize },
}

impl From<PushError> for FaktoryError {
    fn from(error: PushError) -> Self {
        match error {
            PushError::QueueFull(full) => full.into(),
            error @ PushError::TooLarge { .. } => Self::TooLargeForQueue(error.to_string()),
            PushError::Store(error) => error.into(),
        }
    }
}

impl FaktoryError {
    /// Creates the error for invalid arguments of `command`.
    pub(crate) fn malformed(command: &'static str, complaint: impl std::fmt::Display) -> Self {
        Self::Malformed { command, complaint: complaint.to_string() }
    }

    /// Creates the error for an unknown verb.
    pub(crate) fn unknown_command(word: &[u8]) -> Self {
        Self::UnknownCommand(echo(&String::from_utf8_lossy(word)))
    }

    /// Creates the error for an id that no batch has.
    pub(crate) fn no_such_batch(id: &str) -> Self {
        Self::NoSuchBatch(echo(id))
    }

    /// Creates the error for a wid that never sent HELLO or was reaped.
    pub(crate) fn unknown_worker(wid: &str) -> Self {
        Self::UnknownWorker(echo(wid))
    }

    /// Returns the word of the reply that clients compare: `ERR` for all errors that they only report.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Store(StoreError::NotUnique) => "NOTUNIQUE",
            Self::QueueFull(_) => "BUSY",
            _ => "ERR",
        }
    }

    /// Returns the text in the reply of a PUSHB, which has no place for a code.
    pub(crate) fn text(&self) -> String {
        match self.code() {
            "ERR" => self.to_string(),
            code => format!("{code} {self}"),
        }
    }

    /// Returns the limit that was reached, if any.
    pub(crate) fn limit(&self) -> Option<JobServerLimit> {
        match self {
            Self::Job(error) => error.limit().and_then(JobServerLimit::named),
            Self::Name(NameError::TooLong { .. }) => Some(JobServerLimit::QueueNameBytesMax),
            Self::FetchQueues { .. } => Some(JobServerLimit::FetchQueuesMax),
            Self::BatchJobs { .. } => Some(JobServerLimit::BatchJobsMax),
            Self::BatchDefinition { .. } => Some(JobServerLimit::BatchDefinitionBytesMax),
            Self::PasswordChecks(_) => Some(JobServerLimit::PasswordChecksMax),
            Self::TooManyConnections => Some(JobServerLimit::ConnectionsMax),
            Self::TooManyWorkers { .. } => Some(JobServerLimit::WorkersMax),
            Self::LineTooLong { limit, .. } => Some(*limit),
            Self::LineTimeout { .. } => Some(JobServerLimit::LineTimeout),
            Self::Buffered => Some(JobServerLimit::BufferedBytesMax),
            Self::IdTooLong { .. } => Some(JobServerLimit::IdBytesMax),
            _ => None,
        }
    }
}

/// Returns the beginning of a client's text.
fn echo(text: &str) -> String {
    text.chars().take(ECHO_CHARACTERS_MAX).collect()
}
