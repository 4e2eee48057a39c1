//! A fact, or the reason why it is not known.

use serde::Serialize;

/// A fact: known, unknown for a reason, or not queried.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The source returned it.
    Known(T),
    /// It was queried, but the source did not return it.
    Unknown(Missing),
    /// It was not queried, because the source is not configured. No rule reports it.
    NotAsked,
}

/// Why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// A description of the fact: "states of connections".
    pub what: String,
    /// The kind of reason.
    pub obstacle: MissingReason,
    /// The source's error message.
    pub reason: String,
    /// The grant or setting that makes the fact visible.
    pub remedy: Option<String>,
}

/// Why a fact could not be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The user lacks the privilege.
    NotAllowed,
    /// Login failed, or the certificate is not trusted.
    Login,
    /// The source did not respond, or not in time.
    Unreachable,
    /// The source responds, but too slowly.
    Slow,
    /// All connection slots of the database are in use (SQLSTATE 53300).
    SlotsExhausted,
    /// A role's or a database's `CONNECTION LIMIT` is reached (SQLSTATE 53300).
    LimitReached,
    /// All connections of a Redis are in use (`maxclients`).
    ClientsExhausted,
    /// A script blocks the Redis.
    Script,
    /// A function blocks the Redis.
    #[serde(rename = "script")]
    Function,
    /// The Redis is still loading its data from disk.
    Loading,
    /// The Redis is a replica that has lost its master.
    MasterLost,
    /// This version of the source does not provide it.
    NotSupported,
}

impl<T> Fact<T> {
    /// Returns the value if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::NotAsked => None,
        }
    }

    /// Transforms the value and preserves the reason if there is none.
    #[must_use]
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(map(value)),
            Self::Unknown(missing) => Fact::Unknown(missing),
            Self::NotAsked => Fact::NotAsked,
        }
    }

    /// Returns the reason if the fact was queried and is not known.
    pub const fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Unknown(missing) => Some(missing),
            Self::Known(_) | Self::NotAsked => None,
        }
    }
}

// Not derived: the derive would require `T: Default`.
#[expect(clippy::derivable_impls, reason = "derived, it would ask for T: Default")]
impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::NotAsked
    }
}
