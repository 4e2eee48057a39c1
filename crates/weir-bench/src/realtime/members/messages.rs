//! Messages about the members of a presence channel. Lists of members are an extension of Weir.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

/// More than any run has. Limits the memory that a wrong number can take.
const MEMBERS_MAX: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberMessage {
    /// Number of members.
    Count(u64),
    Joined,
    Left,
    Page(MembersPage),
    Changed(MemberChange),
}

/// A page of the list of one version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct MembersPage {
    pub(crate) version: u64,
    pub(crate) start: usize,
    /// Length of the whole list.
    pub(crate) count: usize,
    pub(crate) members: Numbers,
}

/// The difference between the lists of two versions.
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

/// Returns a member's name.
pub(crate) fn user_id(member: usize) -> String {
    format!("u{member}")
}

/// Returns a member's number, or `None` if it is not of this run.
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
        let foreign_member = || D::Error::custom(format_args!("{name} is no member of this run"));
        member(&name).map(Name).ok_or_else(foreign_member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_from_objects_and_arrays() {
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
    fn foreign_members_are_rejected_by_name() {
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
