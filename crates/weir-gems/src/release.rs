//! A release: one version of a gem for one platform, with the data that the index lists.

mod dependencies;
mod requirement_line;

use std::cmp::Ordering;
use std::fmt;

use weir_base::clock::Timestamp;

pub use self::dependencies::{DEPENDENCIES_MAX, Dependencies, DependenciesError};
pub use self::requirement_line::RequirementLine;
use crate::platform::Platform;
use crate::version::Version;

/// SHA-256 of a `.gem` file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 32]);

/// Number and platform, which identify a release within its gem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub number: Version,
    pub platform: Platform,
}

/// A release, with the data of its line in `/info/NAME` and its creation time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub identity: Identity,
    pub dependencies: Dependencies,
    pub checksum: Checksum,
    /// Versions of Ruby that it runs on; None for any.
    pub ruby: Option<RequirementLine>,
    /// Versions of RubyGems that can install it; None for any.
    pub rubygems: Option<RequirementLine>,
    pub created_at: Timestamp,
}

impl Release {
    /// Compares two releases by creation time, number and platform. Numbers and platforms are
    /// compared as text, so that any store can sort by them.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |release: &Self| release.created_at;
        key(self)
            .cmp(&key(other))
            .then_with(|| self.identity.number.as_str().cmp(other.identity.number.as_str()))
            .then_with(|| self.identity.platform.cmp(&other.identity.platform))
    }
}

impl fmt::Display for Identity {
    /// Writes `1.0` or `1.0-x86_64-linux`, as in the compact index and in file names.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.platform.is_ruby() {
            true => write!(formatter, "{}", self.number),
            false => write!(formatter, "{}-{}", self.number, self.platform),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        // This can't fail: 32 bytes are exactly 64 digits.
        let _ = hex::encode_to_slice(self.0, &mut text);
        formatter.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Checksum({self})")
    }
}
