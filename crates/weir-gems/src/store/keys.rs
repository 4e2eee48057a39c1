//! API keys: what somebody may do, and until when. Only a digest of a key's text is kept.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;
use weir_base::switch::Pattern;

/// What a key allows; the names are those of rubygems.org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scope {
    /// Reading, where [`crate::settings::Readers::WithKey`] may: the whole index, whatever gems the key
    /// is for.
    IndexRubygems,
    PushRubygem,
    YankRubygem,
}

/// A scope that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope {0:?}; there are index_rubygems, push_rubygem and yank_rubygem")]
pub struct UnknownScope(pub String);

impl Scope {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IndexRubygems => "index_rubygems",
            Self::PushRubygem => "push_rubygem",
            Self::YankRubygem => "yank_rubygem",
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let all = [Self::IndexRubygems, Self::PushRubygem, Self::YankRubygem];
        let found = all.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// What a key is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    /// For people: who has it.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Gems that it pushes and yanks; none: all. Reading is of the whole index.
    pub gems: Vec<Pattern>,
    /// Microseconds since 1970. None: it does not expire.
    pub expires_at_us: Option<u64>,
}

/// A key to be kept.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub settings: KeySettings,
    /// SHA-256 of its text. The text has more than 128 random bits, so no slow digest is needed.
    pub hash: [u8; 32],
    pub created_at: Timestamp,
}

/// A key that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: u64,
    pub settings: KeySettings,
    pub created_at: Timestamp,
}

impl Key {
    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.settings.expires_at_us.is_some_and(|end| end <= now.as_micros())
    }

    /// Whether it allows something at all.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        self.settings.scopes.contains(&scope)
    }

    /// Whether it is for a gem.
    #[must_use]
    pub fn is_for(&self, gem: &str) -> bool {
        let gems = &self.settings.gems;
        gems.is_empty() || gems.iter().any(|pattern| pattern.matches(gem))
    }
}
