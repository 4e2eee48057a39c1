//! Platforms that a version was built for.

mod parts;

use std::fmt;
use std::str::FromStr;

pub use self::parts::Parts;
use crate::name::is_name_character;

/// Maximum length of a platform in bytes.
pub const PLATFORM_BYTES_MAX: usize = 100;

const RUBY: &str = "ruby";

/// A platform: `ruby`, or for example `x86_64-linux`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platform(Box<str>);

/// Reasons why a text is not a valid platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// The text is empty or longer than [`PLATFORM_BYTES_MAX`] bytes.
    #[error("a platform has 1 to {PLATFORM_BYTES_MAX} bytes; this one has {0}")]
    Length(usize),
    /// The text has a character other than a letter, digit, dash, underscore or dot.
    #[error("{0:?} is no platform: letters, digits, '-', '_' and '.' are allowed")]
    Character(String),
}

impl Platform {
    /// Returns the platform `ruby`, which any Ruby can run.
    #[must_use]
    pub fn ruby() -> Self {
        Self(RUBY.into())
    }

    /// Returns the platform as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text that was validated when it was written.
    pub(crate) fn from_checked(text: String) -> Self {
        Self(text.into())
    }

    /// Returns whether the platform is `ruby`, which file names and index lines omit.
    #[must_use]
    pub fn is_ruby(&self) -> bool {
        &*self.0 == RUBY
    }

    /// Returns whether a client may use `text` to request files for this platform. Clients parse a
    /// platform and format it again; RubyGems up to 3.3.21 drops `gnu` and suffixes that begin with
    /// it.
    #[must_use]
    pub fn is_known_as(&self, text: &str) -> bool {
        let Some(parts) = self.parts() else { return false };
        let is_gnu = |version: &str| parts.os == "linux" && version.starts_with("gnu");
        let older = match parts.version.as_deref() {
            Some(version) if is_gnu(version) => Parts { version: None, ..parts.clone() },
            _ => parts.clone(),
        };
        [parts, older].iter().any(|parts| parts.to_string() == text)
    }

    /// Returns the parts that clients compare, or None for `ruby`.
    #[must_use]
    pub fn parts(&self) -> Option<Parts> {
        (!self.is_ruby()).then(|| Parts::of(self))
    }
}

impl FromStr for Platform {
    type Err = PlatformError;

    fn from_str(text: &str) -> Result<Self, PlatformError> {
        if text.is_empty() || text.len() > PLATFORM_BYTES_MAX {
            return Err(PlatformError::Length(text.len()));
        }
        match text.chars().all(is_name_character) {
            true => Ok(Self(text.into())),
            false => Err(PlatformError::Character(text.to_owned())),
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_known_by_what_clients_make_of_it() {
        // Expected values are those of `Gem::Platform.new(text).to_s` in RubyGems 3.3.15 and 3.6.
        for (text, names) in [
            ("x86_64-linux-gnu", &["x86_64-linux-gnu", "x86_64-linux"][..]),
            ("arm-linux-gnueabihf", &["arm-linux-gnueabihf", "arm-linux"]),
            ("x86_64-linux-musl", &["x86_64-linux-musl"]),
            ("i686-linux", &["x86-linux"]),
            ("jruby", &["java"]),
            ("x86_64-darwin19", &["x86_64-darwin-19"]),
            ("ruby", &[]),
        ] {
            let platform: Platform = text.parse().unwrap();
            for name in ["x86_64-linux", "x86-linux", "java", "ruby", "arm-linux"] {
                assert_eq!(platform.is_known_as(name), names.contains(&name), "{text} {name}");
            }
            assert!(names.iter().all(|name| platform.is_known_as(name)), "{text}");
        }
    }

    #[test]
    fn a_platform_can_not_break_a_line_or_a_path() {
        for text in ["a b", "a,b", "a/b", "a\n", "\u{e9}"] {
            assert_eq!(
                text.parse::<Platform>(),
                Err(PlatformError::Character(text.to_owned())),
                "{text:?}"
            );
        }
        assert_eq!("".parse::<Platform>(), Err(PlatformError::Length(0)));
        assert!("x86_64-linux-gnu".parse::<Platform>().is_ok_and(|platform| !platform.is_ruby()));
        assert!(Platform::ruby().is_ruby());
    }
}
