//! State of the sources for an observer that samples them repeatedly.

use std::time::Duration;

use serde::Serialize;

use super::Missing;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A Redis server, or one of several shards.
    Redis,
    /// The application's database.
    Postgres,
    /// The PgBouncer in front of the database.
    PgBouncer,
}

/// State of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceState {
    /// Its kind.
    pub kind: SourceKind,
    /// Its address without a password.
    pub name: String,
    /// Why the last sample failed, or `None` if it succeeded.
    pub problem: Option<Missing>,
    /// Number of samples.
    pub looks: u64,
    /// Samples that failed wholly or in part.
    pub failures: u64,
    /// Samples skipped because a recent one had failed.
    pub spared: u64,
    /// Commands or queries sent to it.
    pub questions: u64,
    /// Duration of the last sample.
    pub took: Duration,
}

impl SourceKind {
    /// Returns the name used in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PgBouncer => "pgbouncer",
        }
    }
}
