//! Errors of a mirror.

use super::client::FetchError;
use super::read::ReadError;
use super::upstream_name::UpstreamName;
use crate::index::digest::StateError;
use crate::metrics::FetchFailure;
use crate::store::StoreError;

/// Reason why a synchronization failed. The index stays as it was.
#[derive(Debug, thiserror::Error)]
#[error("the upstream {upstream}: {problem}")]
pub struct MirrorError {
    /// Upstream that caused the error.
    pub upstream: UpstreamName,
    /// Description of the error.
    pub problem: Problem,
}

/// Description of an error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    /// A request failed.
    #[error("{0}")]
    Fetch(String),
    #[error("/versions: {0}")]
    Read(#[from] ReadError),
    #[error("/versions: the answer was {0}; is this the address of a gem index?")]
    NoVersions(u16),
    #[error("/versions has other digests than the upstream says")]
    Digest,
    #[error("/versions has more than {0} bytes (gems.mirror.limits.advanced.versions_bytes_max)")]
    TooLong(u64),
    #[error("it lists more than {0} names (gems.mirror.limits.advanced.names_max)")]
    TooManyNames(usize),
    #[error(
        "{gone} of its names would be gone within gems.mirror.limits.advanced.names_gone_window, more than \
         gems.mirror.limits.{limit} allows ({max}{of}): has it lost its data? Nothing more is taken \
         away. If it is meant, raise that limit until that is done"
    )]
    Vanished { gone: usize, limit: &'static str, max: usize, of: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        Self::Store(error.into())
    }
}

impl Problem {
    /// Returns the error of a failed request for `path`.
    pub(super) fn of_request(path: &str, error: &FetchError) -> Self {
        Self::Fetch(error.told(path))
    }

    /// Returns the reason under which the error is counted. Returns None if it was counted when it
    /// occurred, or is not the upstream's fault.
    pub(super) const fn failure(&self) -> Option<FetchFailure> {
        match self {
            Self::Digest => Some(FetchFailure::Digest),
            Self::Read(_)
            | Self::NoVersions(_)
            | Self::TooLong(_)
            | Self::TooManyNames(_)
            | Self::Vanished { .. } => Some(FetchFailure::Content),
            Self::Fetch(_) | Self::Store(_) => None,
        }
    }

    pub(super) fn of(self, upstream: &UpstreamName) -> MirrorError {
        MirrorError { upstream: upstream.clone(), problem: self }
    }
}
