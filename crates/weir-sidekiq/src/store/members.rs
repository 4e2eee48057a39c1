//! Splits the text of a JSON object into its members, and writes it again with some of them changed.
//!
//! Nothing is parsed and serialized again: members that stay are copied byte for byte, with their
//! order and the white space around them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One member of an object. The ranges are those of the object's text.
#[derive(Clone, Debug)]
pub(super) struct RawMember<'a> {
    /// The name without quotes and escapes.
    pub(super) name: Cow<'a, str>,
    /// The value as it is written.
    pub(super) value: &'a str,
    /// The name as it is written, with its quotes.
    name_range: Range<usize>,
    value_range: Range<usize>,
}

/// What becomes of a member when its object is written again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum MemberEdit {
    #[default]
    Keep,
    Drop,
    /// Keep the value under another name, which needs no escaping.
    Rename(String),
    /// Keep the name with another value, which is JSON.
    Replace(String),
}

/// Returns the members of `json` in their order. `json` may have white space around the object.
pub(super) fn split(json: &str) -> Result<Vec<RawMember<'_>>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let members = MembersOfObject { json }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(members)
}

/// Writes the object `json` again. `added` are whole members (`"name":value`) for its end.
pub(super) fn write(
    json: &str,
    members: &[RawMember<'_>],
    edits: impl Fn(&RawMember<'_>) -> MemberEdit,
    added: &[String],
) -> Vec<u8> {
    let more: usize = added.iter().map(|member| member.len() + 1).sum();
    let mut text = Vec::with_capacity(json.len() + more + 64);
    let mut end = json.find('{').map_or(0, |brace| brace + 1);
    text.extend_from_slice(&json.as_bytes()[..end]);
    let mut is_first = true;
    for member in members {
        let gap = &json[end..member.name_range.start];
        end = member.value_range.end;
        let edit = edits(member);
        if edit == MemberEdit::Drop {
            continue;
        }
        // The comma before the first member that stays belongs to one that was dropped.
        let has_comma = is_first && gap.contains(',');
        let gap = if has_comma { gap.trim_start_matches(is_comma_or_space) } else { gap };
        is_first = false;
        text.extend_from_slice(gap.as_bytes());
        write_member(json, member, &edit, &mut text);
    }
    write_end(json, end, is_first, added, &mut text);
    text
}

fn write_member(json: &str, member: &RawMember<'_>, edit: &MemberEdit, text: &mut Vec<u8>) {
    let between = &json[member.name_range.end..member.value_range.start];
    match edit {
        MemberEdit::Rename(name) => {
            text.push(b'"');
            text.extend_from_slice(name.as_bytes());
            text.push(b'"');
        }
        _ => text.extend_from_slice(json[member.name_range.clone()].as_bytes()),
    }
    text.extend_from_slice(between.as_bytes());
    match edit {
        MemberEdit::Replace(value) => text.extend_from_slice(value.as_bytes()),
        _ => text.extend_from_slice(member.value.as_bytes()),
    }
}

fn write_end(json: &str, end: usize, is_empty: bool, added: &[String], text: &mut Vec<u8>) {
    for (place, member) in added.iter().enumerate() {
        if place > 0 || !is_empty {
            text.push(b',');
        }
        text.extend_from_slice(member.as_bytes());
    }
    text.extend_from_slice(&json.as_bytes()[end..]);
}

const fn is_comma_or_space(letter: char) -> bool {
    matches!(letter, ',' | ' ' | '\t' | '\r' | '\n')
}

struct MembersOfObject<'a> {
    json: &'a str,
}

impl<'a> DeserializeSeed<'a> for MembersOfObject<'a> {
    type Value = Vec<RawMember<'a>>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MembersOfObject<'a> {
    type Value = Vec<RawMember<'a>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a job, which is an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let json = self.json;
        let mut members = Vec::new();
        let mut end = json.find('{').map_or(0, |brace| brace + 1);
        while let Some(name) = map.next_key_seed(NameOfMember)? {
            let value = map.next_value::<&RawValue>()?.get();
            let start = value.as_ptr().addr() - json.as_ptr().addr();
            let value_range = start..start + value.len();
            let name_range = name_range(json, end);
            end = value_range.end;
            members.push(RawMember { name, value, name_range, value_range });
        }
        Ok(members)
    }
}

/// Returns where the next string after `from` is, with its quotes. Valid JSON has one there.
fn name_range(json: &str, from: usize) -> Range<usize> {
    let bytes = json.as_bytes();
    let start = from + bytes[from..].iter().position(|byte| *byte == b'"').unwrap_or_default();
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    start..(at + 1).min(bytes.len())
}

/// Borrows a name unless it has escapes.
struct NameOfMember;

impl<'a> DeserializeSeed<'a> for NameOfMember {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for NameOfMember {
    type Value = Cow<'a, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, name: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edited(json: &str, added: &[&str]) -> String {
        let edit = |member: &RawMember<'_>| match &*member.name {
            "drop" => MemberEdit::Drop,
            "old" => MemberEdit::Rename("new".to_owned()),
            "time" => MemberEdit::Replace("1.5".to_owned()),
            _ => MemberEdit::Keep,
        };
        let added: Vec<String> = added.iter().map(|member| (*member).to_owned()).collect();
        String::from_utf8(write(json, &split(json).unwrap(), edit, &added)).unwrap()
    }

    #[test]
    fn members_that_stay_are_copied_as_they_are() {
        let check = |json: &str, added: &[&str], expected: &str| {
            assert_eq!(edited(json, added), expected);
        };
        check("{}", &[], "{}");
        check("{}", &[r#""a":1"#, r#""b":2"#], r#"{"a":1,"b":2}"#);
        check(" { \"a\" : [1 ,2]\t,\"b\":{} } ", &[], " { \"a\" : [1 ,2]\t,\"b\":{} } ");
        check(r#"{"drop":1, "a":2}"#, &[r#""b":3"#], r#"{"a":2,"b":3}"#);
        check(r#"{"a":2 ,"drop":"}\"" , "b":1}"#, &[], r#"{"a":2 , "b":1}"#);
        check(r#"{"drop":1,"drop":2}"#, &[r#""b":3"#], r#"{"b":3}"#);
        check(r#"{"old" :1,"time": "x"}"#, &[], r#"{"new" :1,"time": 1.5}"#);
        check(r#"{"o\u006cd":1,"\"old":"\\"}"#, &[], r#"{"new":1,"\"old":"\\"}"#);
    }

    #[test]
    fn other_values_have_no_members() {
        for json in ["", "[]", "1", "\"{}\"", "{", "{\"a\":1}x", "{\"a\":1,}"] {
            assert!(split(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn objects_survive_and_no_text_panics(
            text in "\\PC{0,60}",
            names in prop::collection::vec("\\PC{0,8}", 0..6),
        ) {
            let _ = split(&text).map(|members| write(&text, &members, |_| MemberEdit::Drop, &[]));
            let object: serde_json::Map<String, serde_json::Value> =
                names.into_iter().map(|name| (name, serde_json::json!([text]))).collect();
            let json = serde_json::to_string_pretty(&object).unwrap();
            let members = split(&json).unwrap();
            prop_assert_eq!(members.len(), object.len());
            let same = write(&json, &members, |_| MemberEdit::Keep, &[]);
            prop_assert_eq!(String::from_utf8(same).unwrap(), json);
        }
    }
}
