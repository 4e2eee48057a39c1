//! The basic types of the job server: queue names, worker ids, jobs, entry keys.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use weir_base::clock::Timestamp;

use crate::custom::CustomMembers;
use crate::settings::JobServerLimits;

/// A queue's name: `[a-zA-Z0-9._-]+`, at most `queue_name_bytes_max` bytes. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// Why a queue name was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("queue name is empty")]
    Empty,
    /// The name has a character outside `[a-zA-Z0-9._-]`.
    #[error("queue name has a character outside [a-zA-Z0-9._-]")]
    Character,
    /// The name is longer than the limit.
    #[error("queue name is longer than {max} bytes (jobs.limits.advanced.queue_name_bytes_max)")]
    TooLong { max: usize },
}

impl QueueName {
    /// The queue of a job that names no queue.
    pub const DEFAULT: &str = "default";

    /// Parses `name`. Returns an error if a character is not allowed or if it is over the limit.
    pub fn parse(name: &str, limits: &JobServerLimits) -> Result<Self, NameError> {
        check_queue_name(name, limits)?;
        Ok(Self(Arc::from(name)))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks `name` by the rules of [`QueueName::parse`] without allocating a [`QueueName`].
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

/// The id of a worker process, as it was sent in HELLO. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wid(Arc<str>);

impl Wid {
    /// Wraps an id that the caller has checked against `id_bytes_max`.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(Arc::from(id))
    }

    /// Returns the id.
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

/// How a worker ended whose jobs return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It was cut off while it ran jobs, and reported nothing since: they may be the cause.
    Killed,
    /// It was stopping or ended in order, or nothing is known of its end: its jobs are not the cause.
    Stopped,
}

impl WorkerEnd {
    /// Returns how a worker ended that has ended once more before its jobs returned. It was killed if it was at either end:
    /// its first jobs may be the cause.
    #[must_use]
    pub fn after(self, earlier: Option<Self>) -> Self {
        if earlier == Some(Self::Killed) { Self::Killed } else { self }
    }
}

/// How often a job has killed its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerKills {
    pub times: u8,
    /// When the first one was noticed.
    pub since: Timestamp,
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailureCause {
    /// Its worker reported it, or its reservation expired. Its `retry` decides.
    #[default]
    Run,
    /// It has killed too many workers: it is dead, whatever its `retry`.
    WorkerKilled,
}

/// The directive for a worker process. It only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkerDirective {
    #[default]
    Running,
    /// Takes no new jobs.
    Quiet,
    /// Takes no new jobs and ends soon.
    Terminate,
}

impl WorkerDirective {
    /// Returns the name that the protocol uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::Terminate => "terminate",
        }
    }

    /// Parses the protocol's name of a state.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Running, Self::Quiet, Self::Terminate]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// A pushed job, checked and ready to store. It borrows the bytes of its line.
///
/// `json` is the job's final text. Its first `base_bytes` bytes are never changed later: the bytes
/// as pushed without the closing brace, plus `created_at`, `queue` and `retry` where the client
/// sent none. The rest is what [`crate::job_text`] writes again at each step, and the closing
/// brace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewJob<'a> {
    pub jid: &'a str,
    pub jobtype: &'a str,
    pub queue: &'a str,
    /// Duration of a reservation, in seconds.
    pub reserve_for_seconds: u32,
    /// Retries after the first failure. 0: a failed job is discarded. -1: it goes straight to the
    /// dead set.
    pub retry: i32,
    /// Lines of backtrace to store (at most 50).
    pub backtrace: u32,
    /// When the job is due. `None`: now.
    pub at: Option<Timestamp>,
    pub json: &'a [u8],
    pub base_bytes: usize,
    pub custom: CustomMembers,
}

/// A job that is sent to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub jid: Box<str>,
    /// The job's JSON.
    pub json: Vec<u8>,
}

/// A worker's report that a job failed, truncated to the protocol's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    pub jid: Box<str>,
    /// At most 100 characters.
    pub errtype: String,
    /// At most 1,000 characters.
    pub message: String,
    /// At most 50 lines.
    pub backtrace: Vec<String>,
    /// The job was cancelled: it is dead, whatever its retries.
    pub is_final: bool,
}

/// The failure state of a job: the `failure` member of its JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureState {
    /// Number of failures before the last one: 0 at the first.
    pub retry_count: u32,
    /// Retries left.
    pub remaining: u32,
    pub failed_at: Timestamp,
    /// When the next attempt is due. `None`: no attempt follows.
    pub next_at: Option<Timestamp>,
    pub message: String,
    pub errtype: String,
    pub backtrace: Vec<String>,
}

/// One of the three sets that are ordered by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetName {
    /// Jobs that are due later, ordered by due time.
    Scheduled,
    /// Failed jobs that wait for a retry, ordered by due time.
    Retries,
    /// Jobs without retries left, ordered by the time at which they died.
    Dead,
}

impl SetName {
    /// All three sets.
    pub const ALL: [Self; 3] = [Self::Scheduled, Self::Retries, Self::Dead];

    /// Returns the name that the protocol uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Retries => "retries",
            Self::Dead => "dead",
        }
    }
}

/// A queue or a set in which jobs wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobLocation {
    Queue(QueueName),
    Set(SetName),
}

/// Writes `queue:NAME` or the name of the set.
impl fmt::Display for JobLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(formatter, "queue:{name}"),
            Self::Set(set) => formatter.write_str(set.as_str()),
        }
    }
}

/// Identifies one waiting job for an action: its position in the order and its jid.
///
/// `order` is a time in microseconds (sets) or a sequence number (queues). An action applies only
/// if both parts match, so it never affects another job that took the same position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The text is not a valid entry key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an entry key: pass back the `key` of a listed job unchanged")]
pub struct EntryKeyError;
