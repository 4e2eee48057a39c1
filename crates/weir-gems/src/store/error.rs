//! Errors of a store.

use std::error::Error;
use std::io;

use crate::dependency_api::FragmentError;
use crate::index::digest::StateError;

/// An error of the store itself.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum StoreError {
    #[error("the gems' store: {0}{advice}", advice = advice(.0.as_ref()))]
    Engine(Box<dyn Error + Send + Sync>),
    #[error("the gems' store {path}: {error}")]
    Io { path: String, error: io::Error },
    #[error(
        "the gems' store {path} has format {found}, this Weir knows up to {known}; start the newer \
         Weir that wrote it"
    )]
    TooNew { path: String, found: i64, known: i64 },
    #[error("{path} is no gems' store of Weir (its application id is {found:#x})")]
    Foreign { path: String, found: i64 },
    #[error("the gems' store is damaged: {0}; `weir gems verify --fix` repairs what can be")]
    Damaged(String),
    #[error(
        "the gems' store is damaged, and nothing in it says how it was: {0}; take it from a backup"
    )]
    Lost(String),
    #[error("the gems' store has no room on its disk: {0}")]
    Full(String),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    #[error("the work on the gems' store was given up: {0}")]
    Abandoned(String),
    #[error("the gems' store has no room for more at the moment ({limit})")]
    Busy { limit: &'static str },
    #[error("the gems' store did not answer in time ({limit})")]
    Late { limit: &'static str },
    #[error("the gems' store can't be reached: {0}")]
    Unreachable(String),
    #[error(
        "the gems' store was told to keep a change and did not answer ({0}): it may be done or not"
    )]
    Unanswered(String),
}

impl StoreError {
    /// Returns whether a disk is full, so that reads still work but writes fail.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full(_) => true,
            Self::Io { error, .. } => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Engine(error) => code(&**error) == Some(rusqlite::ErrorCode::DiskFull),
            _ => false,
        }
    }
}

fn code(error: &(dyn Error + 'static)) -> Option<rusqlite::ErrorCode> {
    error.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()
}

/// Returns advice for an error, if there is some.
fn advice(error: &(dyn Error + 'static)) -> &'static str {
    match code(error) {
        Some(rusqlite::ErrorCode::DiskFull) => {
            "; what is there is whole: make room for its folder, and try again"
        }
        Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::PermissionDenied) => {
            "; run this as the user that runs Weir"
        }
        _ => "",
    }
}

/// Reasons why a release can't be pushed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PushError {
    #[error("{0}")]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An existing release or name that conflicts with a push.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Conflict {
    #[error(
        "Repushing of gem versions is not allowed: {full_name} is here, with the same contents"
    )]
    SameContents { full_name: String },
    #[error(
        "Repushing of gem versions is not allowed: {full_name} is here, with other contents; push \
         a new version"
    )]
    Exists { full_name: String },
    #[error("{full_name} was yanked and can't come back; push a new version")]
    Yanked { full_name: String },
    #[error("the file {full_name}.gem would also be that of {other}; choose another version")]
    FullName { full_name: String, other: String },
    #[error(
        "{name} comes from the upstream {upstream}: releases of two sources under one name could be \
         taken for each other; choose another name, or make it private in the mirror's policy first"
    )]
    Mirrored {
        name: String,
        upstream: String,
        /// Whether the upstream's release of this number has the same file.
        is_same_file: bool,
    },
}

impl Conflict {
    /// Returns whether the pushed file may be the one that the existing release refers to.
    pub(crate) const fn is_about_the_same_file(&self) -> bool {
        matches!(self, Self::SameContents { .. } | Self::Mirrored { is_same_file: true, .. })
    }
}

/// Reasons why a release can't be yanked.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum YankError {
    #[error("This rubygem could not be found.")]
    UnknownGem,
    #[error("The version {0} does not exist.")]
    UnknownRelease(String),
    #[error("The version {0} has already been yanked.")]
    AlreadyYanked(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<rusqlite::Error> for PushError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<rusqlite::Error> for YankError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_from_each_engine() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let file =
            |kind: io::ErrorKind| StoreError::Io { path: "x".to_owned(), error: kind.into() };
        assert!(StoreError::from(sqlite(rusqlite::ffi::SQLITE_FULL)).is_full());
        assert!(file(io::ErrorKind::StorageFull).is_full());
        assert!(StoreError::Full("53100".to_owned()).is_full());
        assert!(!StoreError::from(sqlite(rusqlite::ffi::SQLITE_BUSY)).is_full());
        assert!(!file(io::ErrorKind::NotFound).is_full());
    }
}
