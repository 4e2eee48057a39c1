//! Parses a pushed job's JSON, checks it and prepares it for the store.
//!
//! Everything that the server does not own is stored byte for byte: integers beyond 2^53, unknown
//! members, the order of keys, white space. The rules are those of the Faktory protocol. Where
//! Faktory is lenient without documenting it, the function that applies the rule describes it.

mod checks;
mod custom_members;
mod error;
mod fields;
mod members;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::custom::CustomMembers;
use crate::job_text::{self, Added};
use crate::model::{NewJob, QueueName};
use crate::settings::JobServerLimits;
use crate::stamp::Stamps;
pub use custom_members::{is_tracked, read as read_custom};
pub use error::JobError;
use fields::{CheckedFields, RETRY_DEFAULT, Rules};
use members::JobMembers;

/// Limits the buffer that is kept between batches, so that one giant job doesn't hold memory for as
/// long as the connection lasts.
const SCRATCH_BYTES_KEPT_MAX: usize = 1 << 20;

/// An element of a PUSHB array that was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Index in the array, from 0.
    pub index: usize,
    /// Empty if no jid could be read.
    pub jid: String,
    pub error: JobError,
}

/// Parses jobs and stores their texts in one buffer, so that several jobs can be borrowed at once.
/// The buffer is reused: keep one batch per connection.
#[derive(Debug, Default)]
pub struct JobBatch {
    text: Vec<u8>,
    jobs: Vec<ParsedJob>,
    stamps: Stamps,
}

/// A [`NewJob`] whose texts are ranges of the batch's buffer.
#[derive(Clone, Debug)]
struct ParsedJob {
    jid: Range<usize>,
    jobtype: Range<usize>,
    queue: Range<usize>,
    json: Range<usize>,
    base_bytes: usize,
    rules: Rules,
    custom: CustomMembers,
}

impl JobBatch {
    /// Returns an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the jobs but keeps the buffer, up to a limit.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.text.clear();
        self.text.shrink_to(SCRATCH_BYTES_KEPT_MAX);
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns whether the batch has no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the jobs in the order in which they were added.
    #[must_use]
    pub fn jobs(&self) -> Vec<NewJob<'_>> {
        self.jobs.iter().map(|parsed| self.job(parsed)).collect()
    }

    /// Clears the batch and parses the one job of a PUSH.
    pub fn parse_one(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &JobServerLimits,
    ) -> Result<NewJob<'_>, JobError> {
        self.clear();
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let parsed = self.parse_job(text, now, limits).map_err(|rejected| rejected.1)?;
        Ok(self.job(&parsed))
    }

    /// Parses a job and adds it to the batch. A rejected job leaves the list of jobs unchanged.
    pub fn add(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &JobServerLimits,
    ) -> Result<(), JobError> {
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let parsed = self.parse_job(text, now, limits).map_err(|rejected| rejected.1)?;
        self.jobs.push(parsed);
        Ok(())
    }

    /// Clears the batch and parses the JSON array of a PUSHB. Adds the valid elements and returns
    /// the rejected ones. If the array itself is malformed or too long, returns an error and leaves
    /// the batch empty.
    pub fn parse_array(
        &mut self,
        json: &[u8],
        now: Timestamp,
        limits: &JobServerLimits,
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
        limits: &JobServerLimits,
    ) -> Result<Vec<Rejection>, JobError> {
        let text = std::str::from_utf8(json).map_err(JobError::malformed)?;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let mut rejections = Vec::new();
        let elements = Elements { batch: self, now, limits, rejections: &mut rejections };
        let count = deserializer.deserialize_seq(elements).map_err(JobError::malformed)?;
        if count > limits.pushb_jobs_max {
            return Err(JobError::TooMany { max: limits.pushb_jobs_max });
        }
        deserializer.end().map_err(JobError::malformed)?;
        Ok(rejections)
    }

    fn job(&self, parsed: &ParsedJob) -> NewJob<'_> {
        let rules = parsed.rules;
        NewJob {
            jid: self.str(&parsed.jid),
            jobtype: self.str(&parsed.jobtype),
            queue: self.str(&parsed.queue),
            reserve_for_seconds: rules.reserve_for_seconds,
            retry: rules.retry,
            backtrace: rules.backtrace,
            at: rules.at,
            json: &self.text[parsed.json.clone()],
            base_bytes: parsed.base_bytes,
            custom: parsed.custom,
        }
    }

    fn str(&self, range: &Range<usize>) -> &str {
        // Ranges always cover whole strings, so the bytes are valid UTF-8.
        std::str::from_utf8(&self.text[range.clone()]).unwrap_or_default()
    }

    /// Parses one job and appends its texts to the buffer. Returns the jid (empty if unknown) with
    /// an error.
    fn parse_job(
        &mut self,
        json: &str,
        now: Timestamp,
        limits: &JobServerLimits,
    ) -> Result<ParsedJob, (String, JobError)> {
        let json = json.trim_matches([' ', '\t', '\r', '\n']);
        let members =
            JobMembers::read(json).map_err(|e| (String::new(), JobError::malformed(e)))?;
        match CheckedFields::read(json, &members, now, limits) {
            Ok(fields) => Ok(self.write_job(json, &members, &fields, now)),
            Err(error) => Err((fields::jid_of(&members), error)),
        }
    }

    fn write_job(
        &mut self,
        json: &str,
        members: &JobMembers<'_>,
        fields: &CheckedFields<'_>,
        now: Timestamp,
    ) -> ParsedJob {
        let jid = self.write(&fields.jid);
        let jobtype = self.write(&fields.jobtype);
        let queue = self.write(fields.queue.as_deref().unwrap_or(QueueName::DEFAULT));
        let start = self.text.len();
        members.write_base(json, &mut self.text);
        let added = Added {
            created_at: (!fields.has_created_at).then_some(now),
            queue: fields.queue.is_none().then_some(QueueName::DEFAULT),
            retry: (!fields.has_retry).then_some(RETRY_DEFAULT),
        };
        job_text::write_added(&added, &mut self.stamps, &mut self.text);
        let base_bytes = self.text.len() - start;
        let enqueued_at = fields.rules.at.is_none().then_some(now);
        job_text::write_tail(b"", enqueued_at, &mut self.stamps, &mut self.text);
        let json = start..self.text.len();
        let rules = fields.rules;
        ParsedJob { jid, jobtype, queue, json, base_bytes, rules, custom: fields.custom }
    }

    fn write(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text.as_bytes());
        start..self.text.len()
    }
}

/// Parses the elements of a PUSHB array one by one and returns their number. Beyond the limit it
/// skips the rest and returns the limit plus 1.
struct Elements<'b> {
    batch: &'b mut JobBatch,
    now: Timestamp,
    limits: &'b JobServerLimits,
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
                while elements.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(index + 1);
            }
            match self.batch.parse_job(element.get(), self.now, self.limits) {
                Ok(parsed) => self.batch.jobs.push(parsed),
                Err((jid, error)) => self.rejections.push(Rejection { index, jid, error }),
            }
            index += 1;
        }
        Ok(index)
    }
}
