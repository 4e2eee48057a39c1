//! A pushed job's text, checked and made ready to store.
//!
//! What the server does not own is kept byte for byte: integers beyond 2^53, unknown members, the
//! order of keys, white space. The rules are those of the Faktory protocol; where the original is
//! lenient without saying so, the rule is at its function.

mod checks;
mod members;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::job_text::{self, Added};
use crate::model::{NameError, NewJob, QueueName, check_queue_name};
use crate::rules::BACKTRACE_LINES_MAX;
use crate::settings::Limits;
use crate::stamp::{Stamps, parse_rfc3339};
use members::{Member, Members};

/// The shortest jid that the protocol takes.
const JID_BYTES_MIN: usize = 8;
const RESERVE_FOR_SECONDS_DEFAULT: u32 = 1_800;
const RESERVE_FOR_SECONDS_MIN: u32 = 60;
const RESERVE_FOR_SECONDS_MAX: u32 = 86_400;
const RETRY_DEFAULT: i32 = 25;
/// Characters of a parser's complaint that are passed on (it may quote the job).
const COMPLAINT_CHARACTERS_MAX: usize = 200;
/// A connection that pushed one giant job does not hold its memory for ever.
const SCRATCH_BYTES_KEPT_MAX: usize = 1 << 20;

/// Why a job was refused. The text is what the client reads; it has one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// Not JSON, not an object, or a member of the wrong type.
    #[error("malformed job: {0}")]
    Malformed(String),
    #[error("jobs must have a reasonable jid parameter")]
    Jid,
    #[error("jobs must have a jobtype parameter")]
    Jobtype,
    #[error("jobs must have an args parameter")]
    Args,
    #[error("malformed job: {0}")]
    Queue(#[from] NameError),
    #[error("malformed job: {member} is longer than {max} bytes (jobs.limits.id_bytes_max)")]
    TooLong { member: &'static str, max: usize },
    #[error("malformed job: nests deeper than {max} (jobs.limits.json_depth_max)")]
    TooDeep { max: usize },
    #[error("too many jobs in one PUSHB: at most {max} (jobs.limits.pushb_jobs_max)")]
    TooMany { max: usize },
}

impl JobError {
    /// The setting whose limit was met, for the metric.
    #[must_use]
    pub const fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Queue(NameError::TooLong { .. }) => Some("queue_name_bytes_max"),
            Self::TooLong { .. } => Some("id_bytes_max"),
            Self::TooDeep { .. } => Some("json_depth_max"),
            Self::TooMany { .. } => Some("pushb_jobs_max"),
            _ => None,
        }
    }

    fn malformed(complaint: impl fmt::Display) -> Self {
        let text = complaint.to_string();
        let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self::Malformed(one_line.take(COMPLAINT_CHARACTERS_MAX).collect())
    }
}

/// An element of a PUSHB array that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Counted from 0 in the array.
    pub index: usize,
    /// Empty when the element has none that can be read.
    pub jid: String,
    pub error: JobError,
}

/// Parses jobs one after another and holds their texts, so that several live at once. Its memory
/// is used again: keep one per connection.
#[derive(Debug, Default)]
pub struct JobBatch {
    text: Vec<u8>,
    jobs: Vec<Placed>,
    stamps: Stamps,
}

/// A [`NewJob`] whose texts are ranges of the batch's.
#[derive(Clone, Debug)]
struct Placed {
    jid: Range<usize>,
    jobtype: Range<usize>,
    queue: Range<usize>,
    json: Range<usize>,
    base_bytes: usize,
    rules: Rules,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    reserve_for_seconds: u32,
    retry: i32,
    backtrace: u32,
    at: Option<Timestamp>,
}

impl JobBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the jobs; keeps the memory.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.text.clear();
        self.text.shrink_to(SCRATCH_BYTES_KEPT_MAX);
    }

    /// How many jobs it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The jobs, in the order in which they came.
    #[must_use]
    pub fn jobs(&self) -> Vec<NewJob<'_>> {
        self.jobs.iter().map(|placed| self.job(placed)).collect()
    }

    /// PUSH: `json` alone, whatever the batch held before.
    pub fn parse_one(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &Limits,
    ) -> Result<NewJob<'_>, JobError> {
        self.clear();
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let placed = self
            .place(text, now, limits)
            .map_err(|rejected| rejected.1)?;
        Ok(self.job(&placed))
    }

    /// One more job behind those that it holds: PUSH after PUSH. A refused one leaves no trace.
    pub fn add(&mut self, json: &[u8], now: Timestamp, limits: &Limits) -> Result<(), JobError> {
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let placed = self
            .place(text, now, limits)
            .map_err(|rejected| rejected.1)?;
        self.jobs.push(placed);
        Ok(())
    }

    /// PUSHB: a JSON array, whatever the batch held before. Elements that can't be taken are
    /// returned and the others held; an array that is malformed as a whole leaves none.
    pub fn parse_array(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &Limits,
    ) -> Result<Vec<Rejection>, JobError> {
        self.clear();
        let result = self.read_array(json, now, limits);
        if result.is_err() {
            self.clear();
        }
        result
    }

    fn read_array(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &Limits,
    ) -> Result<Vec<Rejection>, JobError> {
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let mut rejections = Vec::new();
        let elements = Elements {
            batch: self,
            now,
            limits,
            rejections: &mut rejections,
        };
        let count = deserializer
            .deserialize_seq(elements)
            .map_err(JobError::malformed)?;
        if count > limits.pushb_jobs_max {
            return Err(JobError::TooMany {
                max: limits.pushb_jobs_max,
            });
        }
        deserializer.end().map_err(JobError::malformed)?;
        Ok(rejections)
    }

    fn job(&self, placed: &Placed) -> NewJob<'_> {
        let rules = placed.rules;
        NewJob {
            jid: self.str(&placed.jid),
            jobtype: self.str(&placed.jobtype),
            queue: self.str(&placed.queue),
            reserve_for_seconds: rules.reserve_for_seconds,
            retry: rules.retry,
            backtrace: rules.backtrace,
            at: rules.at,
            json: &self.text[placed.json.clone()],
            base_bytes: placed.base_bytes,
        }
    }

    fn str(&self, range: &Range<usize>) -> &str {
        // Only whole strings are placed, so the range is valid UTF-8.
        std::str::from_utf8(&self.text[range.clone()]).unwrap_or_default()
    }

    /// Parses one job and writes its texts behind the others'. On an error: the jid, if any.
    fn place(
        &mut self,
        json: &str,
        now: Timestamp,
        limits: &Limits,
    ) -> Result<Placed, (String, JobError)> {
        let json = json.trim_matches([' ', '\t', '\r', '\n']);
        let members = Members::read(json).map_err(|e| (String::new(), JobError::malformed(e)))?;
        self.place_members(json, &members, now, limits)
            .map_err(|error| {
                let jid = text(&members, Member::Jid)
                    .ok()
                    .flatten()
                    .unwrap_or_default();
                (jid.into_owned(), error)
            })
    }

    fn place_members(
        &mut self,
        json: &str,
        members: &Members<'_>,
        now: Timestamp,
        limits: &Limits,
    ) -> Result<Placed, JobError> {
        check_shape(json, members, limits)?;
        let jid = jid(members, limits)?;
        let jobtype = jobtype(members, limits)?;
        check_args(members)?;
        let queue = text(members, Member::Queue)?.filter(|name| !name.is_empty());
        if let Some(name) = &queue {
            check_queue_name(name, limits)?;
        }
        let has_created_at = text(members, Member::CreatedAt)?.is_some_and(|t| !t.is_empty());
        let rules = rules(members, now)?;

        let jid = self.write(&jid);
        let jobtype = self.write(&jobtype);
        let queue_added = queue.is_none().then_some(QueueName::DEFAULT);
        let queue = self.write(queue.as_deref().unwrap_or(QueueName::DEFAULT));
        let start = self.text.len();
        members.write_base(json, &mut self.text);
        let added = Added {
            created_at: (!has_created_at).then_some(now),
            queue: queue_added,
        };
        job_text::write_added(&added, &mut self.stamps, &mut self.text);
        let base_bytes = self.text.len() - start;
        let enqueued_at = rules.at.is_none().then_some(now);
        job_text::write_tail(b"", enqueued_at, &mut self.stamps, &mut self.text);
        let json = start..self.text.len();
        Ok(Placed {
            jid,
            jobtype,
            queue,
            json,
            base_bytes,
            rules,
        })
    }

    fn write(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text.as_bytes());
        start..self.text.len()
    }
}

fn check_shape(json: &str, members: &Members<'_>, limits: &Limits) -> Result<(), JobError> {
    if let Some(member) = members.duplicate {
        return Err(JobError::malformed(format_args!(
            "{} is there twice",
            member.name()
        )));
    }
    if checks::nests_deeper_than(json, limits.json_depth_max) {
        return Err(JobError::TooDeep {
            max: limits.json_depth_max,
        });
    }
    if checks::has_lone_surrogate(json) {
        return Err(JobError::malformed("an escape is half of a surrogate pair"));
    }
    Ok(())
}

/// At least 8 bytes, as the original counts.
fn jid<'a>(members: &Members<'a>, limits: &Limits) -> Result<Cow<'a, str>, JobError> {
    let jid = text(members, Member::Jid)?.filter(|jid| jid.len() >= JID_BYTES_MIN);
    within(Member::Jid, jid.ok_or(JobError::Jid)?, limits)
}

fn jobtype<'a>(members: &Members<'a>, limits: &Limits) -> Result<Cow<'a, str>, JobError> {
    let jobtype = text(members, Member::Jobtype)?.filter(|jobtype| !jobtype.is_empty());
    within(Member::Jobtype, jobtype.ok_or(JobError::Jobtype)?, limits)
}

fn within<'a>(member: Member, id: Cow<'a, str>, limits: &Limits) -> Result<Cow<'a, str>, JobError> {
    let max = limits.id_bytes_max;
    if id.len() > max {
        return Err(JobError::TooLong {
            member: member.name(),
            max,
        });
    }
    Ok(id)
}

fn check_args(members: &Members<'_>) -> Result<(), JobError> {
    let args = members.value(Member::Args).ok_or(JobError::Args)?;
    if args.starts_with('[') {
        Ok(())
    } else {
        Err(JobError::malformed("args must be an array"))
    }
}

fn rules(members: &Members<'_>, now: Timestamp) -> Result<Rules, JobError> {
    Ok(Rules {
        reserve_for_seconds: reserve_for(members)?,
        retry: integer(members, Member::Retry)?.unwrap_or(RETRY_DEFAULT),
        backtrace: backtrace(members)?,
        at: at(members, now)?,
    })
}

/// 60 - 86,400 s: absent and 0 are the default, less than a minute counts as one.
fn reserve_for(members: &Members<'_>) -> Result<u32, JobError> {
    match integer(members, Member::ReserveFor)?
        .unwrap_or(0)
        .try_into()
    {
        Ok(0) => Ok(RESERVE_FOR_SECONDS_DEFAULT),
        Ok(seconds @ 1..=RESERVE_FOR_SECONDS_MAX) => Ok(seconds.max(RESERVE_FOR_SECONDS_MIN)),
        _ => Err(JobError::malformed(
            "reserve_for must be at most 86400 seconds (one day)",
        )),
    }
}

/// Lines of backtrace to keep; a job that names no number above 0 keeps what the protocol keeps.
fn backtrace(members: &Members<'_>) -> Result<u32, JobError> {
    let lines = integer(members, Member::Backtrace)?.unwrap_or(0);
    Ok(match u32::try_from(lines) {
        Ok(lines @ 1..=BACKTRACE_LINES_MAX) => lines,
        _ => BACKTRACE_LINES_MAX,
    })
}

/// When it is due; a time that has passed means now.
fn at(members: &Members<'_>, now: Timestamp) -> Result<Option<Timestamp>, JobError> {
    let Some(text) = text(members, Member::At)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let due = parse_rfc3339(&text).map_err(|error| {
        JobError::malformed(format_args!("at is not an RFC 3339 time: {error}"))
    })?;
    Ok((due > now).then_some(due))
}

/// A string member; None: absent or null.
fn text<'a>(members: &Members<'a>, member: Member) -> Result<Option<Cow<'a, str>>, JobError> {
    let Some(raw) = members.value(member) else {
        return Ok(None);
    };
    let quoted = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        None => Err(JobError::malformed(format_args!(
            "{} must be a string",
            member.name()
        ))),
        Some(plain) if !plain.contains('\\') => Ok(Some(Cow::Borrowed(plain))),
        Some(_) => serde_json::from_str(raw)
            .map(|text| Some(Cow::Owned(text)))
            .map_err(|error| {
                JobError::malformed(format_args!("{} is not a text: {error}", member.name()))
            }),
    }
}

/// A whole number; None: absent or null.
fn integer(members: &Members<'_>, member: Member) -> Result<Option<i32>, JobError> {
    let Some(raw) = members.value(member) else {
        return Ok(None);
    };
    raw.parse().map(Some).map_err(|_| {
        JobError::malformed(format_args!(
            "{} must be a whole number below 2^31",
            member.name()
        ))
    })
}

/// Takes the elements of a PUSHB array as they come; answers how many there were (it stops at one
/// more than the limit).
struct Elements<'b> {
    batch: &'b mut JobBatch,
    now: Timestamp,
    limits: &'b Limits,
    rejections: &'b mut Vec<Rejection>,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<usize, A::Error> {
        let mut index = 0;
        while let Some(element) = elements.next_element::<&'de RawValue>()? {
            if index == self.limits.pushb_jobs_max {
                return Ok(index + 1);
            }
            match self.batch.place(element.get(), self.now, self.limits) {
                Ok(placed) => self.batch.jobs.push(placed),
                Err((jid, error)) => self.rejections.push(Rejection { index, jid, error }),
            }
            index += 1;
        }
        Ok(index)
    }
}
