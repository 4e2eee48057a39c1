//! The state of one of several servers that have the jobs.

use weir_base::clock::Timestamp;

/// One of several servers among which the jobs are divided. Figures are those that were read last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardState {
    pub name: String,
    pub address: String,
    /// It gets no more jobs, so that it can be removed.
    pub drains: bool,
    /// Since when it can't be used. `None`: it can.
    pub away_since: Option<Timestamp>,
    /// Why it can't be used.
    pub problem: Option<String>,
    pub enqueued: u64,
    pub reserved: u64,
    pub scheduled: u64,
    pub retries: u64,
    pub dead: u64,
    pub memory_bytes: u64,
}
