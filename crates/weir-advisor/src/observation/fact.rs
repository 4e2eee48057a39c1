//! A fact, or the reason why it is not known.

use serde::Serialize;

/// What is known of something that was looked for, or was not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// It was seen.
    Known(T),
    /// It was asked for and not told.
    Unknown(Missing),
    /// Nobody asked: that source is not set up. No rule complains about it.
    NotAsked,
}

/// Why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What would be known: "states of connections".
    pub what: String,
    /// In the way.
    pub obstacle: MissingReason,
    /// What the source said.
    pub reason: String,
    /// The grant or line that would let it be seen.
    pub remedy: Option<String>,
}

/// What kept a fact from being seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The user that asked may not see it.
    NotAllowed,
    /// It does not know who asks, or shows a certificate that is not trusted.
    Login,
    /// Nobody answered, or not in time.
    Unreachable,
    /// Every connection slot of the database is taken (SQLSTATE 53300).
    SlotsExhausted,
    /// Every session that a role or a database may have is open (`CONNECTION LIMIT`, SQLSTATE 53300).
    LimitReached,
    /// Every connection of a Redis is taken (`maxclients`).
    ClientsExhausted,
    /// A script holds a Redis up.
    Script,
    /// A Redis is still loading its data from disk.
    Loading,
    /// A Redis is a replica without its master.
    MasterLost,
    /// This version of the source does not have it.
    NotSupported,
}

impl<T> Fact<T> {
    /// The fact, if it was seen.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::NotAsked => None,
        }
    }

    /// The same of another, or the same reason.
    #[must_use]
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(value) => Fact::Known(map(value)),
            Self::Unknown(missing) => Fact::Unknown(missing),
            Self::NotAsked => Fact::NotAsked,
        }
    }

    /// The reason, if it was asked for and not seen.
    pub const fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Unknown(missing) => Some(missing),
            Self::Known(_) | Self::NotAsked => None,
        }
    }
}

// Derived, it would ask for `T: Default`, which no fact needs.
#[expect(clippy::derivable_impls, reason = "derived, it would ask for T: Default")]
impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::NotAsked
    }
}
