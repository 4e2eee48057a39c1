//! Names of gems. They are case-sensitive; similar names can be detected.

mod skeleton;

use std::fmt;
use std::str::FromStr;

/// Maximum length of a name in bytes, as on rubygems.org.
pub const NAME_BYTES_MAX: usize = 255;

/// The name of a gem, as its author writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GemName(Box<str>);

/// Reasons why a text is not a valid gem name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("the name of a gem must not be empty")]
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`].
    #[error("the name of a gem has at most {NAME_BYTES_MAX} bytes; this one has {0}")]
    TooLong(usize),
    /// The name has a character other than a letter, digit, dash, underscore or dot.
    #[error("the name {name:?} has {character:?}; letters, digits, '-', '_' and '.' are allowed")]
    Character { name: String, character: char },
    /// The name starts with punctuation. Only checked for new gems.
    #[error("the name {0:?} must begin with a letter or a digit")]
    Start(String),
    /// The name has no letter. Only checked for new gems.
    #[error("the name {0:?} needs a letter: digits alone are taken for a version")]
    NoLetter(String),
}

impl GemName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks the stricter rules for gems that are pushed or imported. An upstream may have older
    /// gems that break them.
    ///
    /// # Errors
    /// Fails if the name begins with punctuation or has no letter.
    pub fn check_for_push(&self) -> Result<(), NameError> {
        if !self.0.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            return Err(NameError::Start(self.0.to_string()));
        }
        if !self.0.contains(|letter: char| letter.is_ascii_alphabetic()) {
            return Err(NameError::NoLetter(self.0.to_string()));
        }
        Ok(())
    }

    /// Returns the name in lower case with `_` replaced by `-`. Names with the same folded form can
    /// collide on case-insensitive systems; they also have the same [`GemName::skeleton`].
    #[must_use]
    pub fn folded(&self) -> String {
        folded(&self.0)
    }

    /// Returns a form that is equal for all names that a reader may confuse with each other.
    #[must_use]
    pub fn skeleton(&self) -> String {
        skeleton::of(&self.0)
    }
}

/// Returns [`GemName::folded`] of a name, or of a pattern of names.
pub(crate) fn folded(text: &str) -> String {
    text.to_ascii_lowercase().replace('_', "-")
}

/// Returns whether names, parts of versions and platforms may contain this character.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

impl FromStr for GemName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        match text.chars().find(|character| !is_name_character(*character)) {
            Some(character) => Err(NameError::Character { name: text.to_owned(), character }),
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for GemName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> GemName {
        text.parse().unwrap()
    }

    #[test]
    fn case_is_kept() {
        assert_eq!(name("RedCloth").as_str(), "RedCloth");
        assert_ne!(name("RedCloth"), name("redcloth"));
    }

    #[test]
    fn case_and_underscores_are_folded_and_nothing_else() {
        for text in ["shop-core", "shop_core", "Shop-Core", "SHOP_core"] {
            assert_eq!(name(text).folded(), "shop-core");
            assert_eq!(name(text).skeleton(), name("shop-core").skeleton());
        }
        for text in ["shopcore", "shop.core", "sh0p-core"] {
            assert_ne!(name(text).folded(), "shop-core");
        }
    }

    #[test]
    fn what_is_no_name_is_said() {
        assert_eq!("".parse::<GemName>(), Err(NameError::Empty));
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(long.parse::<GemName>(), Err(NameError::TooLong(NAME_BYTES_MAX + 1)));
        assert!(long[1..].parse::<GemName>().is_ok());
        for text in ["a b", "a/b", "a\nb", "..\\x", "g\u{e9}m", "a:b", "a,b", "a\0"] {
            let error = text.parse::<GemName>().unwrap_err();
            assert!(matches!(error, NameError::Character { .. }), "{text}");
        }
    }

    #[test]
    fn new_names_have_stricter_rules_than_old_ones() {
        assert!(matches!(name("_").check_for_push(), Err(NameError::Start(_))));
        assert!(matches!(name("..").check_for_push(), Err(NameError::Start(_))));
        assert!(matches!(name("1.0").check_for_push(), Err(NameError::NoLetter(_))));
        assert_eq!(name("0mq").check_for_push(), Ok(()));
    }
}
