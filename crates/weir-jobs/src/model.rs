//! The words of the job server, each parsed once: queue names, job ids, worker ids, jobs.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use weir_base::clock::Timestamp;

use crate::settings::JobServerLimits;

/// A queue's name: `[a-zA-Z0-9._-]+`, at most `queue_name_bytes_max` bytes. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("queue name is empty")]
    Empty,
    /// A character outside `[a-zA-Z0-9._-]`.
    #[error("queue name has a character outside [a-zA-Z0-9._-]")]
    Character,
    /// Longer than the limit.
    #[error("queue name is longer than {max} bytes (jobs.limits.advanced.queue_name_bytes_max)")]
    TooLong { max: usize },
}

impl QueueName {
    /// The queue of a job that names none.
    pub const DEFAULT: &str = "default";

    /// Checks `name` against the alphabet and the limit.
    pub fn parse(name: &str, limits: &JobServerLimits) -> Result<Self, NameError> {
        check_queue_name(name, limits)?;
        Ok(Self(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rule of [`QueueName::parse`] without making one.
pub fn check_queue_name(name: &str, limits: &JobServerLimits) -> Result<(), NameError> {
    let max = limits.queue_name_bytes_max;
    match name {
        "" => Err(NameError::Empty),
        long if long.len() > max => Err(NameError::TooLong { max }),
        _ if name.bytes().all(is_queue_name_byte) => Ok(()),
        _ => Err(NameError::Character),
    }
}

const fn is_queue_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

impl Borrow<str> for QueueName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A worker process's id, as it named itself in HELLO. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wid(Arc<str>);

impl Wid {
    /// Wraps an id that the caller has checked against `id_bytes_max`.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(Arc::from(id))
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Wid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Wid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl fmt::Display for Wid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A pushed job, checked and ready to store. Borrows its line.
///
/// `json` is the job's final text. Its first `base_bytes` bytes never change in the job's life: the
/// bytes as pushed without the closing brace, plus `created_at`, `queue` and `retry` where the client
/// named none. Behind them is what [`crate::job_text`] writes anew at each step, and the closing
/// brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    pub jid: &'a str,
    pub jobtype: &'a str,
    pub queue: &'a str,
    /// Seconds that a worker may hold it.
    pub reserve_for_seconds: u32,
    /// Retries after the first failure; 0: throw away; -1: straight to the dead set.
    pub retry: i32,
    /// Lines of backtrace to keep (at most 50).
    pub backtrace: u32,
    /// When it is due; None: now.
    pub at: Option<Timestamp>,
    pub json: &'a [u8],
    pub base_bytes: usize,
}

/// A job handed to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub jid: Box<str>,
    /// The job's JSON.
    pub json: Vec<u8>,
}

/// A worker's report that a job failed, cut to the protocol's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    pub jid: Box<str>,
    /// At most 100 characters.
    pub errtype: String,
    /// At most 1,000 characters.
    pub message: String,
    /// At most 50 lines.
    pub backtrace: Vec<String>,
}

/// The state of a job's failures: the `failure` member of its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureState {
    /// Failures before the last one: 0 at the first.
    pub retry_count: u32,
    /// Retries left.
    pub remaining: u32,
    pub failed_at: Timestamp,
    /// When the next try is due; None: there is none.
    pub next_at: Option<Timestamp>,
    pub message: String,
    pub errtype: String,
    pub backtrace: Vec<String>,
}

/// One of the three sets ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetName {
    /// Due later, ordered by when.
    Scheduled,
    /// Failed, due again later, ordered by when.
    Retries,
    /// Out of retries, ordered by death.
    Dead,
}

impl SetName {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Scheduled, Self::Retries, Self::Dead];

    /// The protocol's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Retries => "retries",
            Self::Dead => "dead",
        }
    }
}

/// A place where jobs rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobLocation {
    Queue(QueueName),
    Set(SetName),
}

/// What names one resting job for an action: its place in the order and its jid.
///
/// The order is microseconds (sets) or a sequence number (queues). Both must match, so an action
/// never hits a job that took another's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    pub order: u64,
    pub jid: Box<str>,
}

impl fmt::Display for EntryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}|{}", self.order, self.jid)
    }
}

impl std::str::FromStr for EntryKey {
    type Err = EntryKeyError;

    fn from_str(text: &str) -> Result<Self, EntryKeyError> {
        let (order, jid) = text.split_once('|').ok_or(EntryKeyError)?;
        let order = order.parse().map_err(|_| EntryKeyError)?;
        Ok(Self { order, jid: Box::from(jid) })
    }
}

/// The text is not an entry key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an entry key: pass back the `key` of a listed job unchanged")]
pub struct EntryKeyError;
