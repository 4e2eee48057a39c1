//! Switches that an operator turns off at run time, by name.
//!
//! Everything is on until a pattern that matches its name is turned off. A check costs one atomic
//! load while nothing is off.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::clock::Timestamp;

/// Limit of the patterns that are off at a time.
pub const SWITCHES_MAX: usize = 100;
/// Limit of a pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 200;

/// A name in which `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
pub struct Pattern(Box<str>);

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The text is empty.
    #[error("a pattern is a name, in which * stands for any text")]
    Empty,
    /// The text is longer than [`PATTERN_BYTES_MAX`].
    #[error("a pattern has at most {PATTERN_BYTES_MAX} bytes")]
    TooLong,
}

/// [`SWITCHES_MAX`] patterns are off already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SWITCHES_MAX} switches are off; turn one on before another is turned off")]
pub struct TooMany;

/// A pattern that is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Off {
    /// What is off.
    pub pattern: Pattern,
    /// When it was turned off, in microseconds since 1970.
    pub since_us: u64,
    /// When it is turned on again; None: not by itself.
    pub until_us: Option<u64>,
}

/// All switches of one kind.
#[derive(Debug, Default)]
pub struct Switches {
    has_any: AtomicBool,
    /// A std lock: taken only while something is off, and held for a comparison of names.
    off: RwLock<Vec<Off>>,
}

impl Pattern {
    /// Returns whether the pattern matches `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            // Matching at the leftmost position leaves the most text for the remaining parts.
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        match text.len() {
            0 => Err(PatternError::Empty),
            bytes if bytes > PATTERN_BYTES_MAX => Err(PatternError::TooLong),
            _ => Ok(Self(Box::from(text))),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Off {
    /// Returns whether it has not expired.
    pub(crate) fn is_active(&self, now: Timestamp) -> bool {
        self.until_us.is_none_or(|until| now.as_micros() < until)
    }
}

impl Switches {
    /// Returns whether a pattern that matches `name` is off.
    #[inline]
    #[must_use]
    pub fn is_off(&self, name: &str, now: Timestamp) -> bool {
        // Relaxed: a switch may take effect with a short delay, and orders nothing.
        self.has_any.load(Ordering::Relaxed) && self.matches_any(name, now)
    }

    #[cold]
    fn matches_any(&self, name: &str, now: Timestamp) -> bool {
        let off = self.off.read().unwrap_or_else(PoisonError::into_inner);
        off.iter().any(|off| off.is_active(now) && off.pattern.matches(name))
    }

    /// Turns a pattern off; a pattern that is off already gets the new end.
    ///
    /// # Errors
    /// [`SWITCHES_MAX`] patterns are off.
    pub fn turn_off(&self, off: Off, now: Timestamp) -> Result<(), TooMany> {
        let mut all = self.off.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.is_active(now) && other.pattern != off.pattern);
        if all.len() >= SWITCHES_MAX {
            return Err(TooMany);
        }
        all.push(off);
        self.has_any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Turns a pattern on. Returns whether it was off.
    pub fn turn_on(&self, pattern: &Pattern, now: Timestamp) -> bool {
        let mut all = self.off.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.is_active(now));
        let before = all.len();
        all.retain(|other| other.pattern != *pattern);
        self.has_any.store(!all.is_empty(), Ordering::Relaxed);
        all.len() < before
    }

    /// Returns the patterns that are off, in the order in which they were turned off.
    #[must_use]
    pub fn list(&self, now: Timestamp) -> Vec<Off> {
        let all = self.off.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|off| off.is_active(now)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    fn off(text: &str, until: Option<Timestamp>) -> Off {
        let until_us = until.map(Timestamp::as_micros);
        Off { pattern: pattern(text), since_us: NOW.as_micros(), until_us }
    }

    #[test]
    fn star_matches_any_text() {
        for (text, name, expected) in [
            ("typing", "typing", true),
            ("typing", "typing2", false),
            ("client-typing*", "client-typing-start", true),
            ("*typing", "client-typing", true),
            ("*typing*", "a-typing-b", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("ab*bc", "abc", false),
        ] {
            assert_eq!(pattern(text).matches(name), expected, "{text} {name}");
        }
    }

    #[test]
    fn switches_turn_on_by_command_or_expiry() {
        let switches = Switches::default();
        assert!(!switches.is_off("typing", NOW));
        let end = Timestamp::from_millis(2_000);
        switches.turn_off(off("typing*", Some(end)), NOW).unwrap();
        switches.turn_off(off("presence", None), NOW).unwrap();
        assert!(switches.is_off("typing", NOW) && switches.is_off("presence", NOW));
        assert!(!switches.is_off("typing", end) && switches.is_off("presence", end));
        assert_eq!(switches.list(end), [off("presence", None)]);
        assert!(switches.turn_on(&pattern("presence"), end));
        assert!(!switches.turn_on(&pattern("presence"), end));
        assert!(!switches.is_off("presence", end));
    }

    #[test]
    fn number_of_switches_is_bounded() {
        let switches = Switches::default();
        for name in 0..SWITCHES_MAX {
            switches.turn_off(off(&name.to_string(), None), NOW).unwrap();
        }
        assert_eq!(switches.turn_off(off("more", None), NOW), Err(TooMany));
        switches.turn_off(off("1", None), NOW).unwrap();
        assert_eq!(switches.list(NOW).len(), SWITCHES_MAX);
    }

    /// The plainest way to say what a star means.
    fn matches_by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => {
                (0..=name.len()).any(|start| matches_by_definition(rest, &name[start..]))
            }
            Some((first, rest)) => name
                .split_first()
                .is_some_and(|(c, name)| c == first && matches_by_definition(rest, name)),
        }
    }

    proptest! {
        #[test]
        fn matching_follows_the_definition(text in "[ab*]{1,8}", name in "[ab]{0,8}") {
            let expected = matches_by_definition(text.as_bytes(), name.as_bytes());
            prop_assert_eq!(pattern(&text).matches(&name), expected);
        }
    }
}
