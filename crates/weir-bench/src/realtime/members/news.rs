//! What a server says about the members of a presence channel. Lists of them are Weir's extension.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// More than any run has: a number of a member is not the size of anything.
const MEMBERS_MAX: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberNews {
    /// So many there are.
    Count(u64),
    Came,
    Went,
    Page(MembersPage),
    Changed(MemberChange),
}

/// A part of the list of one version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct MembersPage {
    pub(crate) version: u64,
    pub(crate) start: usize,
    /// Of the whole list.
    pub(crate) count: usize,
    pub(crate) members: Numbers,
}

/// What turns the list of one version into that of another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct MemberChange {
    pub(crate) from: u64,
    pub(crate) version: u64,
    pub(crate) count: u64,
    pub(crate) added: Numbers,
    pub(crate) removed: Numbers,
}

/// Numbers of members, from an object with their names as keys or from a list of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// What a member is called.
pub(crate) fn user_id(member: usize) -> String {
    format!("u{member}")
}

/// `None`: nobody of this run.
fn member(user_id: &str) -> Option<u32> {
    let number = user_id.strip_prefix('u')?.parse().ok()?;
    (number < MEMBERS_MAX).then_some(number)
}

impl MembersPage {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, serde_json::Error> {
        parse_data(message)
    }
}

impl MemberChange {
    pub(crate) fn parse(message: &[u8]) -> Result<Self, serde_json::Error> {
        parse_data(message)
    }
}

/// The data of a message is JSON within a string.
fn parse_data<T: de::DeserializeOwned>(message: &[u8]) -> Result<T, serde_json::Error> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        data: Cow<'a, str>,
    }
    let Message { data } = serde_json::from_slice(message)?;
    serde_json::from_str(&data)
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Numbers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("members of this run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut names: A) -> Result<Numbers, A::Error> {
        let mut numbers = Vec::new();
        while let Some((Name(number), IgnoredAny)) = names.next_entry()? {
            numbers.push(number);
        }
        Ok(Numbers(numbers))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Numbers, A::Error> {
        let mut numbers = Vec::new();
        while let Some(Name(number)) = names.next_element()? {
            numbers.push(number);
        }
        Ok(Numbers(numbers))
    }
}

struct Name(u32);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        let stranger = || D::Error::custom(format_args!("{name} is no member of this run"));
        member(&name).map(Name).ok_or_else(stranger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_from_objects_and_from_arrays() {
        let page = br#"{"event":"weir:members","channel":"presence-x","data":"{\"version\":7,\"start\":0,\"count\":3,\"members\":{\"u2\":null,\"u11\":{\"name\":\"x\"}}}"}"#;
        let expected =
            MembersPage { version: 7, start: 0, count: 3, members: Numbers(vec![2, 11]) };
        assert_eq!(MembersPage::parse(page).expect("valid"), expected);
        let change = br#"{"event":"weir:members_changed","channel":"presence-x","data":"{\"from\":7,\"version\":9,\"count\":3,\"added\":{\"u0\":null},\"removed\":[\"u2\"]}"}"#;
        let expected = MemberChange {
            from: 7,
            version: 9,
            count: 3,
            added: Numbers(vec![0]),
            removed: Numbers(vec![2]),
        };
        assert_eq!(MemberChange::parse(change).expect("valid"), expected);
    }

    #[test]
    fn strangers_are_refused_by_name() {
        for name in ["ada", "u", "u-1", "u1000000", "7"] {
            let text = format!(
                r#"{{"data":"{{\"version\":7,\"start\":0,\"count\":3,\"members\":{{\"{name}\":null}}}}"}}"#
            );
            let error = MembersPage::parse(text.as_bytes()).expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name} is no member of this run")), "{error}");
        }
        assert_eq!(member(&user_id(42)), Some(42));
    }
}
