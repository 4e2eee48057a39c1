//! Names of upstreams.

use std::fmt;
use std::str::FromStr;

/// Maximum length of an upstream's name in bytes.
pub const UPSTREAM_NAME_BYTES_MAX: usize = 40;

/// The name of an upstream: letters, digits, `-`, `_`, `.`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UpstreamName(Box<str>);

/// Error for a text that is not a valid name of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of an upstream: 1 to {UPSTREAM_NAME_BYTES_MAX} letters, digits, '-', '_' and \
     '.', for example \"rubygems\""
)]
pub struct UpstreamNameError(pub String);

impl UpstreamName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for UpstreamName {
    type Err = UpstreamNameError;

    fn from_str(text: &str) -> Result<Self, UpstreamNameError> {
        let is_name = (1..=UPSTREAM_NAME_BYTES_MAX).contains(&text.len())
            && text.chars().all(crate::name::is_name_character);
        match is_name {
            true => Ok(Self(text.into())),
            false => Err(UpstreamNameError(text.to_owned())),
        }
    }
}

impl fmt::Display for UpstreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
