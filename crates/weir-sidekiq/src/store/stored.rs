//! A job as it is stored in Redis: the text that Sidekiq writes and reads.
//!
//! The text may come from any program, so a member of an unexpected type counts as absent. Where a
//! member is there twice, the last one counts, as in Ruby.

use weir_base::clock::Timestamp;
use weir_jobs::model::FailureState;
use weir_jobs::rules::BACKTRACE_LINES_MAX;

use super::backtrace;
use super::members::{self, RawMember};
use super::names;
use super::seconds;

/// Of Faktory's protocol, for a job that does not name them.
const RETRY_DEFAULT: i32 = 25;
const RESERVE_FOR_SECONDS_DEFAULT: u32 = 1_800;
const RESERVE_FOR_SECONDS_MIN: u32 = 60;
const RESERVE_FOR_SECONDS_MAX: u32 = 86_400;

/// Longer jids are not used; the job gets one that is derived from its text.
const JID_BYTES_MAX: usize = 255;

/// Why a text is no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MalformedPayload {
    #[error("it is larger than {max} bytes (jobs.limits.line_bytes_max)")]
    TooLarge { max: usize },
    #[error("it is not UTF-8")]
    Encoding,
    #[error("it is not a JSON object: {0}")]
    Json(String),
    #[error("it has no class")]
    NoClass,
}

/// A parsed text, which stays as it is.
#[derive(Debug)]
pub(super) struct StoredText<'a> {
    pub(super) text: &'a str,
    pub(super) members: Vec<RawMember<'a>>,
    pub(super) jobtype: String,
    pub(super) jid: String,
    /// Whether the text has this jid. Otherwise it was derived from the text.
    pub(super) has_jid: bool,
}

impl<'a> StoredText<'a> {
    /// Parses `bytes`. Returns an error if no worker could run the job.
    pub(super) fn parse(bytes: &'a [u8], bytes_max: usize) -> Result<Self, MalformedPayload> {
        if bytes.len() > bytes_max {
            return Err(MalformedPayload::TooLarge { max: bytes_max });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| MalformedPayload::Encoding)?;
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let members = members::split(text).map_err(|e| MalformedPayload::Json(e.to_string()))?;
        let class = last(&members, "class").and_then(string).filter(|class| !class.is_empty());
        let jobtype = class.ok_or(MalformedPayload::NoClass)?;
        let jid = last(&members, "jid").and_then(string);
        let jid = jid.filter(|jid| !jid.is_empty() && jid.len() <= JID_BYTES_MAX);
        let has_jid = jid.is_some();
        let jid = jid.unwrap_or_else(|| derived_jid(bytes));
        Ok(Self { text, members, jobtype, jid, has_jid })
    }

    /// Returns the raw JSON value of a member, or `None` if it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        last(&self.members, name)
    }

    pub(super) fn string(&self, name: &str) -> Option<String> {
        self.value(name).and_then(string)
    }

    /// Returns the retries as [`weir_jobs::model::NewJob::retry`] counts them. In Sidekiq, `false`
    /// discards a failed job and 0 sends it to the dead set.
    pub(super) fn retry(&self) -> i32 {
        match self.value("retry") {
            Some("false") => 0,
            Some(number) => match number.parse::<i64>() {
                Ok(..=0) => -1,
                Ok(retries) => i32::try_from(retries).unwrap_or(i32::MAX),
                Err(_) => RETRY_DEFAULT,
            },
            None => RETRY_DEFAULT,
        }
    }

    /// Returns how many lines of a backtrace to store.
    pub(super) fn backtrace_lines(&self) -> u32 {
        match self.value("backtrace") {
            Some("false") => 0,
            Some(number) => match number.parse() {
                Ok(lines @ 1..=BACKTRACE_LINES_MAX) => lines,
                _ => BACKTRACE_LINES_MAX,
            },
            None => BACKTRACE_LINES_MAX,
        }
    }

    pub(super) fn reserve_for_seconds(&self) -> u32 {
        let seconds = self.value("reserve_for").and_then(|number| number.parse::<u32>().ok());
        match seconds {
            None | Some(0) => RESERVE_FOR_SECONDS_DEFAULT,
            Some(seconds) => seconds.clamp(RESERVE_FOR_SECONDS_MIN, RESERVE_FOR_SECONDS_MAX),
        }
    }

    /// Returns whether a job without retries left goes to the dead set.
    pub(super) fn may_die(&self) -> bool {
        self.value("dead") != Some("false")
    }

    /// Returns when the job entered its queue, or when it was created.
    pub(super) fn enqueued_at(&self) -> Timestamp {
        let time = |name| self.value(name).and_then(seconds::of_value);
        time("enqueued_at").or_else(|| time("created_at")).unwrap_or_default()
    }

    /// Returns the failure on which the next one counts. Where an operator retries a job in Sidekiq's
    /// pages, its count is lowered by one, to -1 after the first failure.
    pub(super) fn previous_failure(&self) -> Option<FailureState> {
        let count = self.value(names::RETRY_COUNT).and_then(|number| number.parse::<i64>().ok());
        self.failure(None).filter(|_| count.is_none_or(|count| count >= 0))
    }

    /// Returns the last failure. `next_at` is when the job is due again, which only its set knows.
    pub(super) fn failure(&self, next_at: Option<Timestamp>) -> Option<FailureState> {
        let count = self.value(names::RETRY_COUNT).and_then(|number| number.parse::<u64>().ok());
        let errtype = self.string(names::ERROR_CLASS);
        let time = |name| self.value(name).and_then(seconds::of_value);
        let failed_at = time(names::RETRIED_AT).or_else(|| time(names::FAILED_AT));
        if count.is_none() && errtype.is_none() && failed_at.is_none() {
            return None;
        }
        let retry_count = u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX);
        let retries = u32::try_from(self.retry()).unwrap_or_default();
        let mut backtrace =
            self.value(names::ERROR_BACKTRACE).map(backtrace::unpack).unwrap_or_default();
        backtrace.truncate(BACKTRACE_LINES_MAX as usize);
        Some(FailureState {
            retry_count,
            remaining: retries.saturating_sub(retry_count),
            failed_at: failed_at.unwrap_or_default(),
            next_at,
            message: self.string(names::ERROR_MESSAGE).unwrap_or_default(),
            errtype: errtype.unwrap_or_default(),
            backtrace,
        })
    }
}

fn last<'a>(members: &[RawMember<'a>], name: &str) -> Option<&'a str> {
    let member = members.iter().rev().find(|member| member.name == name)?;
    Some(member.value).filter(|value| *value != "null")
}

fn string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

/// Returns the jid by which workers know a job without one: equal for equal texts.
pub(super) fn derived_jid(bytes: &[u8]) -> String {
    format!("nojid-{:016x}", derived_hash(bytes))
}

/// FNV-1a, which is the same in all versions.
pub(super) fn derived_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
