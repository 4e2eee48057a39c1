//! One released version of a gem, as the index tells it.

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

/// What tells the releases of one gem apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub number: Version,
    pub platform: Platform,
}

/// A released version: what a line of `/info/NAME` holds, and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub identity: Identity,
    pub dependencies: Dependencies,
    pub checksum: Checksum,
    /// The Rubies that it runs on; None: any.
    pub ruby: Option<RequirementLine>,
    /// The RubyGems that can install it; None: any.
    pub rubygems: Option<RequirementLine>,
    pub created_at: Timestamp,
}

impl Release {
    /// The order of lines: creation, number, platform (as texts, so that any store can sort by it).
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
    /// `1.0` or `1.0-x86_64-linux`, as in the compact index and in file names.
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
        // 32 bytes are 64 digits.
        let _ = hex::encode_to_slice(self.0, &mut text);
        formatter.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Checksum({self})")
    }
}
