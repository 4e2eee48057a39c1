//! How a source has answered to who looks at it again and again.

use std::time::Duration;

use serde::Serialize;

use super::Missing;

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A Redis, or one of several shards.
    Redis,
    /// The application's database.
    Postgres,
    /// The PgBouncer before it.
    PgBouncer,
}

/// One source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceState {
    /// What it is.
    pub kind: SourceKind,
    /// Its address without a password.
    pub name: String,
    /// Why it was not seen at the last look; none: it was.
    pub problem: Option<Missing>,
    /// Looks at it.
    pub looks: u64,
    /// Looks that have failed, wholly or in part.
    pub failures: u64,
    /// Looks that were left out, since it had failed shortly before.
    pub spared: u64,
    /// Commands or questions that it was sent.
    pub questions: u64,
    /// How long the last look took.
    pub took: Duration,
}

impl SourceKind {
    /// As labels name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::PgBouncer => "pgbouncer",
        }
    }
}
