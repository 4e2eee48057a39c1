//! The members of a pushed job's JSON object, borrowed from the text, and the ranges to cut from
//! it.
//!
//! Values are raw slices of the text. Nothing is converted that the server does not use, so a
//! worker receives what was pushed, byte for byte.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A member that the server reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobMember {
    Jid,
    Jobtype,
    Args,
    Queue,
    ReserveFor,
    At,
    Retry,
    Backtrace,
    CreatedAt,
    EnqueuedAt,
    Failure,
    Custom,
}

const MEMBERS: usize = 12;

impl JobMember {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "jid" => Self::Jid,
            "jobtype" => Self::Jobtype,
            "args" => Self::Args,
            "queue" => Self::Queue,
            "reserve_for" => Self::ReserveFor,
            "at" => Self::At,
            "retry" => Self::Retry,
            "backtrace" => Self::Backtrace,
            "created_at" => Self::CreatedAt,
            "enqueued_at" => Self::EnqueuedAt,
            "failure" => Self::Failure,
            "custom" => Self::Custom,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Jid => "jid",
            Self::Jobtype => "jobtype",
            Self::Args => "args",
            Self::Queue => "queue",
            Self::ReserveFor => "reserve_for",
            Self::At => "at",
            Self::Retry => "retry",
            Self::Backtrace => "backtrace",
            Self::CreatedAt => "created_at",
            Self::EnqueuedAt => "enqueued_at",
            Self::Failure => "failure",
            Self::Custom => "custom",
        }
    }

    /// Returns whether the member must be removed from the text: because the server writes its own,
    /// or because null or an empty string means "absent" and would confuse a strict parser.
    fn is_removed(self, value: &str) -> bool {
        match self {
            Self::EnqueuedAt | Self::Failure => true,
            Self::CreatedAt | Self::Queue | Self::At => matches!(value, "null" | "\"\""),
            Self::ReserveFor | Self::Retry | Self::Backtrace | Self::Custom => value == "null",
            Self::Jid | Self::Jobtype | Self::Args => false,
        }
    }
}

/// The members found in a job's text.
#[derive(Debug, Default)]
pub(super) struct JobMembers<'a> {
    values: [Option<&'a str>; MEMBERS],
    /// The first duplicate member.
    pub(super) duplicate: Option<JobMember>,
    cuts: Cuts,
}

impl<'a> JobMembers<'a> {
    /// Parses `json`, an object without white space around it.
    pub(super) fn read(json: &'a str) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let members = MembersSeed { json }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(members)
    }

    /// Returns the raw JSON value of a member, or `None` if it is absent or null.
    pub(super) fn value(&self, member: JobMember) -> Option<&'a str> {
        self.values[member as usize].filter(|value| *value != "null")
    }

    /// Appends `json` without its closing brace and without the members that are cut.
    pub(super) fn write_base(&self, json: &str, target: &mut Vec<u8>) {
        let mut from = 0;
        for cut in self.cuts.ranges() {
            target.extend_from_slice(&json.as_bytes()[from..cut.start]);
            from = cut.end;
        }
        target.extend_from_slice(&json.as_bytes()[from..json.len() - 1]);
    }

    fn add(&mut self, json: &str, member: Option<JobMember>, value: &'a str) {
        let end = value.as_ptr().addr() + value.len() - json.as_ptr().addr();
        if let Some(member) = member {
            let slot = &mut self.values[member as usize];
            if slot.is_some() {
                self.duplicate = self.duplicate.or(Some(member));
                return;
            }
            *slot = Some(value);
        }
        if member.is_some_and(|member| member.is_removed(value)) {
            self.cuts.cut(json, end);
        } else {
            self.cuts.keep(end);
        }
    }
}

/// Number of members for which [`JobMember::is_cut`] may return true.
const CUTS_MAX: usize = 9;

/// The ranges to cut from the text so that an object remains.
#[derive(Debug)]
struct Cuts {
    ranges: [Range<usize>; CUTS_MAX],
    count: usize,
    /// The end of the last member's value; initially after the opening brace.
    end: usize,
    kept: bool,
}

impl Default for Cuts {
    fn default() -> Self {
        Self { ranges: Default::default(), count: 0, end: 1, kept: false }
    }
}

impl Cuts {
    fn ranges(&self) -> &[Range<usize>] {
        &self.ranges[..self.count]
    }

    fn keep(&mut self, end: usize) {
        self.kept = true;
        self.end = end;
    }

    /// Cuts a member with the comma before it. Members before the first one that is kept are cut
    /// with the comma after them.
    fn cut(&mut self, json: &str, end: usize) {
        if self.kept {
            self.ranges[self.count] = self.end..end;
            self.count += 1;
        } else {
            let comma = json[end..].find(|c: char| !c.is_ascii_whitespace());
            let following_comma = comma.filter(|at| json.as_bytes()[end + at] == b',');
            self.ranges[0] = 1..following_comma.map_or(end, |at| end + at + 1);
            self.count = 1;
        }
        self.end = end;
    }
}

struct MembersSeed<'a> {
    json: &'a str,
}

impl<'a> DeserializeSeed<'a> for MembersSeed<'a> {
    type Value = JobMembers<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<JobMembers<'a>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for MembersSeed<'a> {
    type Value = JobMembers<'a>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<JobMembers<'a>, A::Error> {
        let mut members = JobMembers::default();
        while let Some(member) = map.next_key_seed(NameSeed)? {
            let value: &'a RawValue = map.next_value()?;
            members.add(self.json, member, value.get());
        }
        Ok(members)
    }
}

/// Deserializes a key with its escapes resolved: `"j\u0069d"` is `jid`.
struct NameSeed;

impl<'a> DeserializeSeed<'a> for NameSeed {
    type Value = Option<JobMember>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Option<JobMember>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a member's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(JobMember::from_name(name))
    }
}
