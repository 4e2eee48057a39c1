//! API keys: scopes, gems and expiry. Only the digest of a key's text is stored.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;
use weir_base::switch::Pattern;

/// A permission of a key. The names are those of rubygems.org.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scope {
    /// Read the whole index where [`crate::settings::Readers::WithKey`] is set, whichever gems the
    /// key is for.
    IndexRubygems,
    PushRubygem,
    YankRubygem,
}

/// Error for an unknown scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no scope {0:?}; there are index_rubygems, push_rubygem and yank_rubygem")]
pub struct UnknownScope(pub String);

impl Scope {
    /// Returns the scope's name.
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

/// Settings of a key at its creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    /// A label for people, such as the owner's name.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Patterns of gems that the key may push and yank; empty for all. Reading is not restricted.
    pub gems: Vec<Pattern>,
    /// Expiry in microseconds since the Unix epoch; None if the key does not expire.
    pub expires_at_us: Option<u64>,
}

/// A key to store.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub settings: KeySettings,
    /// SHA-256 of its text. The text has more than 128 random bits, so a slow hash is not needed.
    pub hash: [u8; 32],
    pub created_at: Timestamp,
}

/// A stored key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: u64,
    pub settings: KeySettings,
    pub created_at: Timestamp,
}

impl Key {
    /// Returns whether the key has expired.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.settings.expires_at_us.is_some_and(|end| end <= now.as_micros())
    }

    /// Returns whether the key has a scope, for any gem.
    #[must_use]
    pub fn has_scope(&self, scope: Scope) -> bool {
        self.settings.scopes.contains(&scope)
    }

    /// Returns whether the key is for a gem.
    #[must_use]
    pub fn is_for(&self, gem: &str) -> bool {
        let gems = &self.settings.gems;
        gems.is_empty() || gems.iter().any(|pattern| pattern.matches(gem))
    }
}
