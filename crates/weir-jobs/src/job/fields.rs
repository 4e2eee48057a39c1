//! Reads the members of a job that the server uses, and checks each by the protocol's rule.

use std::borrow::Cow;

use weir_base::clock::Timestamp;

use super::error::JobError;
use super::members::{JobMember, JobMembers};
use super::{checks, custom_members};
use crate::custom::{CustomMembers, UniqueKey};
use crate::model::{QueueName, check_queue_name};
use crate::rules::BACKTRACE_LINES_MAX;
use crate::settings::JobServerLimits;
use crate::stamp::parse_rfc3339;

/// Minimum length of a jid in the protocol.
const JID_BYTES_MIN: usize = 8;
const RESERVE_FOR_SECONDS_DEFAULT: u32 = 1_800;
const RESERVE_FOR_SECONDS_MIN: u32 = 60;
const RESERVE_FOR_SECONDS_MAX: u32 = 86_400;
pub(super) const RETRY_DEFAULT: i32 = 25;

/// The checked members of a job.
#[derive(Debug)]
pub(super) struct CheckedFields<'a> {
    pub(super) jid: Cow<'a, str>,
    pub(super) jobtype: Cow<'a, str>,
    /// `None` if the client named no queue.
    pub(super) queue: Option<Cow<'a, str>>,
    pub(super) has_created_at: bool,
    pub(super) has_retry: bool,
    pub(super) rules: Rules,
    pub(super) custom: CustomMembers,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) reserve_for_seconds: u32,
    pub(super) retry: i32,
    pub(super) backtrace: u32,
    /// `None`: now.
    pub(super) at: Option<Timestamp>,
}

impl<'a> CheckedFields<'a> {
    pub(super) fn read(
        json: &'a str,
        members: &JobMembers<'a>,
        now: Timestamp,
        limits: &JobServerLimits,
    ) -> Result<Self, JobError> {
        check_shape(json, members, limits)?;
        let (jid, jobtype) = (jid(members, limits)?, jobtype(members, limits)?);
        let args = args(members)?;
        let queue = queue(members, limits)?;
        let queue_name = queue.as_deref().unwrap_or(QueueName::DEFAULT);
        let custom = custom(members, || UniqueKey::of(&jobtype, queue_name, args))?;
        let created_at = text(members, JobMember::CreatedAt)?;
        Ok(Self {
            jid,
            jobtype,
            queue,
            custom,
            has_created_at: created_at.is_some_and(|text| !text.is_empty()),
            has_retry: members.value(JobMember::Retry).is_some(),
            rules: rules(members, now)?,
        })
    }
}

/// Returns the jid even if other members are invalid, or an empty string if it can't be read.
pub(super) fn jid_of(members: &JobMembers<'_>) -> String {
    text(members, JobMember::Jid).ok().flatten().unwrap_or_default().into_owned()
}

fn check_shape(
    json: &str,
    members: &JobMembers<'_>,
    limits: &JobServerLimits,
) -> Result<(), JobError> {
    if let Some(member) = members.duplicate {
        return Err(JobError::malformed(format_args!("{} is there twice", member.name())));
    }
    if checks::nests_deeper_than(json, limits.json_depth_max) {
        return Err(JobError::TooDeep { max: limits.json_depth_max });
    }
    if checks::has_lone_surrogate(json) {
        return Err(JobError::malformed("an escape is half of a surrogate pair"));
    }
    Ok(())
}

/// Returns the jid. It must have at least 8 bytes, as Faktory counts.
fn jid<'a>(members: &JobMembers<'a>, limits: &JobServerLimits) -> Result<Cow<'a, str>, JobError> {
    let jid = text(members, JobMember::Jid)?.filter(|jid| jid.len() >= JID_BYTES_MIN);
    check_length(JobMember::Jid, jid.ok_or(JobError::Jid { min: JID_BYTES_MIN })?, limits)
}

fn jobtype<'a>(
    members: &JobMembers<'a>,
    limits: &JobServerLimits,
) -> Result<Cow<'a, str>, JobError> {
    let jobtype = text(members, JobMember::Jobtype)?.filter(|jobtype| !jobtype.is_empty());
    check_length(JobMember::Jobtype, jobtype.ok_or(JobError::Jobtype)?, limits)
}

fn check_length<'a>(
    member: JobMember,
    id: Cow<'a, str>,
    limits: &JobServerLimits,
) -> Result<Cow<'a, str>, JobError> {
    let max = limits.id_bytes_max;
    if id.len() > max {
        return Err(JobError::TooLong { member: member.name(), max });
    }
    Ok(id)
}

fn queue<'a>(
    members: &JobMembers<'a>,
    limits: &JobServerLimits,
) -> Result<Option<Cow<'a, str>>, JobError> {
    let queue = text(members, JobMember::Queue)?.filter(|name| !name.is_empty());
    queue.iter().try_for_each(|name| check_queue_name(name, limits))?;
    Ok(queue)
}

fn args<'a>(members: &JobMembers<'a>) -> Result<&'a str, JobError> {
    let args = members.value(JobMember::Args).ok_or(JobError::Args)?;
    if args.starts_with('[') { Ok(args) } else { Err(JobError::malformed("args must be an array")) }
}

/// Reads `custom`. It must be an object: workers in a typed language read it as a map and fail
/// otherwise.
fn custom(
    members: &JobMembers<'_>,
    key: impl FnOnce() -> UniqueKey,
) -> Result<CustomMembers, JobError> {
    match members.value(JobMember::Custom) {
        None => Ok(CustomMembers::default()),
        Some(custom) if custom.starts_with('{') => custom_members::read(custom, key),
        Some(_) => Err(JobError::malformed("custom must be an object")),
    }
}

fn rules(members: &JobMembers<'_>, now: Timestamp) -> Result<Rules, JobError> {
    Ok(Rules {
        reserve_for_seconds: reserve_for(members)?,
        retry: retry(members)?,
        backtrace: backtrace(members)?,
        at: at(members, now)?,
    })
}

/// Returns 60 to 86,400 s. If absent or 0, returns the default; less than a minute becomes a
/// minute.
fn reserve_for(members: &JobMembers<'_>) -> Result<u32, JobError> {
    let seconds = integer(members, JobMember::ReserveFor)?.unwrap_or(0);
    if seconds < 0 {
        return Err(JobError::malformed("reserve_for must not be negative"));
    }
    match u32::try_from(seconds) {
        Ok(0) => Ok(RESERVE_FOR_SECONDS_DEFAULT),
        Ok(seconds @ 1..=RESERVE_FOR_SECONDS_MAX) => Ok(seconds.max(RESERVE_FOR_SECONDS_MIN)),
        _ => Err(JobError::ReserveFor),
    }
}

/// Returns the number of retries, clamped to the range of `i32`.
fn retry(members: &JobMembers<'_>) -> Result<i32, JobError> {
    let Some(retries) = integer(members, JobMember::Retry)? else {
        return Ok(RETRY_DEFAULT);
    };
    let clamped = if retries < 0 { i32::MIN } else { i32::MAX };
    Ok(i32::try_from(retries).unwrap_or(clamped))
}

/// Returns the lines of backtrace to store: the protocol's maximum unless the job has a number from
/// 1 to that maximum.
fn backtrace(members: &JobMembers<'_>) -> Result<u32, JobError> {
    let lines = integer(members, JobMember::Backtrace)?.unwrap_or(0);
    Ok(match u32::try_from(lines) {
        Ok(lines @ 1..=BACKTRACE_LINES_MAX) => lines,
        _ => BACKTRACE_LINES_MAX,
    })
}

/// Returns when the job is due, or `None` (now) for a time in the past.
fn at(members: &JobMembers<'_>, now: Timestamp) -> Result<Option<Timestamp>, JobError> {
    let Some(text) = text(members, JobMember::At)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let due = parse_rfc3339(&text).map_err(|error| {
        JobError::malformed(format_args!("at is not an RFC 3339 time: {error}"))
    })?;
    Ok((due > now).then_some(due))
}

/// Returns a string member, or `None` if it is absent or null.
fn text<'a>(members: &JobMembers<'a>, member: JobMember) -> Result<Option<Cow<'a, str>>, JobError> {
    let Some(raw) = members.value(member) else {
        return Ok(None);
    };
    let quoted = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        None => Err(JobError::malformed(format_args!("{} must be a string", member.name()))),
        Some(plain) if !plain.contains('\\') => Ok(Some(Cow::Borrowed(plain))),
        Some(_) => serde_json::from_str(raw).map(|text| Some(Cow::Owned(text))).map_err(|error| {
            JobError::malformed(format_args!("{} is not a text: {error}", member.name()))
        }),
    }
}

/// Returns an integer member, or `None` if it is absent or null.
fn integer(members: &JobMembers<'_>, member: JobMember) -> Result<Option<i64>, JobError> {
    let Some(raw) = members.value(member) else {
        return Ok(None);
    };
    raw.parse().map(Some).map_err(|_| {
        JobError::malformed(format_args!("{} must be a whole number below 2^63", member.name()))
    })
}
