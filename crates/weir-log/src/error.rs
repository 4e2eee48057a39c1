//! The errors of the log, by operation.

use std::io;
use std::sync::Arc;

use crate::position::RecordPosition;

/// Why a log no longer accepts records: a sync or a write failed, so the kernel may have dropped
/// pages that were thought to be written. Only a restart, which reads what is on disk, resolves it.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the log stopped accepting: {what}. What was not yet acknowledged may be lost; restart to read what is on disk"
)]
pub struct Poison {
    pub(crate) what: Arc<str>,
}

impl Poison {
    /// Returns which operation failed on which file.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk has no space for another segment, and the rest of the present one is reserved for
    /// essential records (or used up, for an essential record). `Syncer::maintain` notices when
    /// space returns.
    #[error("no space left for the log: the disk refuses another segment")]
    NoSpace,
    /// The sync thread is behind: `buffered_bytes_max` is reached, or the next segment is not yet
    /// allocated. Call (or wait for) `Syncer::sync` and `Syncer::maintain`, then retry.
    #[error("the log's sync thread is behind; try again after it has synced")]
    Backpressure,
    #[error(
        "a record of {bytes} bytes is over the limit of {max} (record_bytes_max; a head may have 65,535)"
    )]
    TooLarge { bytes: u64, max: u32 },
    #[error(transparent)]
    Poisoned(#[from] Poison),
}

/// Why `flush`, `sync` or `maintain` failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SyncError {
    /// The disk is full. Nothing is lost: the bytes stay in memory and the next call retries.
    #[error(
        "no space left on the disk for what the log has to write; it is kept in memory and tried again"
    )]
    NoSpace,
    /// A file of the log could not be created or deleted; the next `maintain` retries.
    #[error("the log could not {what}: {reason}; it is tried again")]
    Upkeep { what: Arc<str>, reason: Arc<str> },
    #[error(transparent)]
    Poisoned(#[from] Poison),
}

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The segment was removed, or the position is wrong.
    #[error("segment {segment} is not part of the log")]
    Gone { segment: u32 },
    #[error("{file} is damaged at offset {offset}: {why}")]
    Damaged { file: String, offset: u32, why: &'static str },
    /// The heads of the segment being written are only available from its owner (`SegmentLog::heads`).
    #[error("segment {segment} is still being written")]
    Unsealed { segment: u32 },
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: io::Error },
}

impl RecordError {
    /// Returns whether the error is transient, so that a retry may succeed: file descriptors or
    /// memory ran out, which says nothing about the record.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        use rustix::io::Errno;
        const PASSING: [Errno; 5] =
            [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR];
        let Self::Io { source, .. } = self else {
            return false;
        };
        let code = source.raw_os_error();
        PASSING.iter().any(|passing| code == Some(passing.raw_os_error()))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot {what}: {source}")]
    Io { what: String, source: io::Error },
    /// More data is missing below a durable position than recovery can repair.
    #[error(
        "{file}: {why}, although everything before {durable} was safely on disk. Restore the \
         files, or move those of another log away"
    )]
    Corrupt { file: String, offset: u32, why: String, durable: RecordPosition },
    #[error(
        "{file} belongs to another log (its id is {found:016x}, this log's is {expected:016x}); move it away"
    )]
    Foreign { file: String, found: u64, expected: u64 },
    #[error("{file} has format version {found}; this program reads versions up to {expected}")]
    Version { file: String, found: u32, expected: u32 },
    #[error("no segment has a readable header or trailer, so no checksum can be checked")]
    NoIdentity,
    #[error("log options: {0}")]
    Options(String),
    #[error(transparent)]
    Poisoned(#[from] Poison),
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> OpenError {
        let what = what.into();
        move |source| OpenError::Io { what, source }
    }
}
