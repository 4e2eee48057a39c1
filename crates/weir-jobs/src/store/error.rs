//! Why an operation of a store fails.

use crate::custom::BatchId;
use crate::settings::JobServerLimits;

/// Why a store operation failed. The text is sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full: pushes are rejected, while fetch, ack and fail keep working.
    #[error("disk full: job not stored; free space in data_dir, pushes resume by themselves")]
    DiskFull,
    /// A sync failed: written data may be lost, so nothing more is acknowledged.
    #[error("storage failed: {0}; nothing more is acknowledged until Weir is restarted")]
    Failed(String),
    /// A limit was reached; the text names it.
    #[error("{0}")]
    Limit(String),
    /// The job is larger than the record limit of the log.
    #[error("job too large: {bytes} bytes")]
    TooLarge { bytes: usize },
    /// The jid has no reservation.
    #[error("Job not found {0}")]
    NotFound(Box<str>),
    /// There is no room outside of this machine; the text says where and what to do.
    #[error("{0}")]
    Full(String),
    /// An equal job holds the unique lock.
    #[error("Job not unique")]
    NotUnique,
    /// The batch does not exist, or has expired.
    #[error("No such batch {0}")]
    NoSuchBatch(BatchId),
    /// The store lacks a feature; the text names both.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The data can't be reached; the text says what, since when and what to do.
    #[error("{0}")]
    Unavailable(String),
    /// It was not confirmed that jobs are stored; the text says why and what a second push does.
    #[error("the job may be stored: {0}")]
    Uncertain(String),
    /// The store is closing.
    #[error("server is shutting down")]
    Closed,
}

impl StoreError {
    /// Returns the error of a unique job for whose lock there is no room: there are `max`.
    #[must_use]
    pub fn too_many_unique_jobs(max: usize) -> Self {
        let setting = JobServerLimits::UNIQUE_LOCKS_MAX;
        Self::Limit(format!(
            "too many unique jobs: at most {max}; raise {setting}, or wait until some have ended"
        ))
    }

    /// Returns the error of a batch for which there is no room: there are `max`.
    #[must_use]
    pub fn too_many_batches(max: usize) -> Self {
        let setting = JobServerLimits::BATCHES_MAX;
        Self::Limit(format!(
            "too many batches: at most {max}; raise {setting}, or wait until some have ended"
        ))
    }

    /// Returns the error of a batch whose texts have no room: all may have `bytes_max` bytes.
    #[must_use]
    pub fn too_many_batch_bytes(bytes_max: usize) -> Self {
        let setting = JobServerLimits::BATCH_MEMORY_BYTES_MAX;
        Self::Limit(format!(
            "too much memory for batches: their descriptions and callbacks may have {bytes_max} bytes; raise {setting}, or wait until some have ended"
        ))
    }

    /// Returns whether the error is about one job of a batch, so that the others can be stored.
    #[must_use]
    pub const fn is_of_one_job(&self) -> bool {
        matches!(
            self,
            Self::Limit(_)
                | Self::TooLarge { .. }
                | Self::NotUnique
                | Self::NoSuchBatch(_)
                | Self::Unsupported(_)
        )
    }
}
