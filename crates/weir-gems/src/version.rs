//! Versions, compared as RubyGems compares them.
//!
//! The rules are those of `Gem::Version` (`canonical_segments`, `<=>`, `prerelease?`).

mod segments;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use self::segments::canonical;

/// Maximum length of a version in bytes, as on rubygems.org.
pub const VERSION_BYTES_MAX: usize = 255;

/// The version of a gem, as its author writes it. `1.0` and `1.0.0` are different versions, but
/// [`Version::compare`] orders neither before the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Box<str>);

/// Reasons why a text is not a valid version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The version is longer than [`VERSION_BYTES_MAX`].
    #[error("a version has at most {VERSION_BYTES_MAX} bytes; this one has {0}")]
    TooLong(usize),
    /// The version is not a number followed by groups of letters and digits, separated by dots.
    #[error("{0:?} is no version: it begins with digits, then come '.' and letters or digits")]
    Malformed(String),
}

impl Version {
    /// Returns the version as text. It never has a dash: `1.0-rc1` is stored as `1.0.pre.rc1`, as
    /// in RubyGems.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text that was validated when it was written.
    pub(crate) fn from_checked(text: String) -> Self {
        Self(text.into())
    }

    /// Compares two versions by precedence. This is not `Ord`, because `1` and `1.0` are equal in
    /// precedence but not equal as values.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        segments::compare(&canonical(&self.0), &canonical(&other.0))
    }

    /// Returns whether the version has a letter. Clients install prereleases only on request.
    #[must_use]
    pub fn is_prerelease(&self) -> bool {
        self.0.contains(|letter: char| letter.is_ascii_alphabetic())
    }
}

/// Matches `[0-9]+(\.[0-9a-zA-Z]+)*`.
fn is_plain(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_number) && parts.all(is_word)
}

fn is_word(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Matches `[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*`.
fn is_suffix(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.').all(is_part)
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        if text.len() > VERSION_BYTES_MAX {
            return Err(VersionError::TooLong(text.len()));
        }
        let malformed = || VersionError::Malformed(text.to_owned());
        match text.split_once('-') {
            None if is_plain(text) => Ok(Self(text.into())),
            Some((plain, suffix)) if is_plain(plain) && is_suffix(suffix) => {
                let text = text.replace('-', ".pre.");
                // `1-a-` and `1-a--b` would result in an empty part between two dots.
                if !is_plain(&text) {
                    return Err(malformed());
                }
                if text.len() > VERSION_BYTES_MAX {
                    return Err(VersionError::TooLong(text.len()));
                }
                Ok(Self(text.into()))
            }
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_as_rubygems_orders_them() {
        use Ordering::{Equal, Greater, Less};
        for (one, expected, other) in [
            ("1", Equal, "1.0.0"),
            ("1.0", Less, "1.0.1"),
            ("1.9", Less, "1.10"),
            ("1.0.a", Less, "1.0"),
            ("1.0.a", Less, "1.0.b"),
            ("1.0.a2", Less, "1.0.a10"),
            ("1.0.rc1", Less, "1.0.rc2"),
            ("1.0.pre.1", Less, "1.0"),
            ("1.0.B", Less, "1.0.a"),
            ("1.a", Equal, "1.0.a"),
            ("2", Greater, "1.99999999999999999999999"),
            ("1.99999999999999999999999", Greater, "1.88888888888888888888888"),
            ("1.00012", Equal, "1.12"),
            ("1.0.0.a.1", Less, "1.0.0.a.1.1"),
            ("1.a.0", Equal, "1.a"),
            ("5.2.4.rc1", Less, "5.2.4"),
            ("1.0-rc1", Equal, "1.0.pre.rc1"),
        ] {
            assert_eq!(version(one).compare(&version(other)), expected, "{one} {other}");
            assert_eq!(version(other).compare(&version(one)), expected.reverse(), "{other} {one}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "a", "1.", ".1", "1..2", "1 ", "1,2", "1/2", "1-", "-1", "1-a-", "1\n"] {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::Malformed(_))), "{text:?}");
        }
        let long = "1".repeat(VERSION_BYTES_MAX + 1);
        assert_eq!(long.parse::<Version>(), Err(VersionError::TooLong(VERSION_BYTES_MAX + 1)));
    }

    #[test]
    fn a_letter_makes_a_prerelease_and_a_dash_too() {
        assert!(version("1.0.rc1").is_prerelease() && version("1.0-1").is_prerelease());
        assert!(!version("1.0.1").is_prerelease());
        assert_eq!(version("1.0-1").as_str(), "1.0.pre.1");
    }

    proptest! {
        #[test]
        fn the_order_is_total_and_transitive(
            texts in prop::collection::vec("[0-2]{1,2}(\\.([0-2]|a|b1|0a)){0,3}", 3)
        ) {
            let [one, two, three] = [0, 1, 2].map(|index: usize| version(&texts[index]));
            prop_assert_eq!(one.compare(&two), two.compare(&one).reverse());
            if one.compare(&two) != Ordering::Greater && two.compare(&three) != Ordering::Greater {
                prop_assert_ne!(one.compare(&three), Ordering::Greater);
            }
        }
    }
}
