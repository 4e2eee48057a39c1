//! Separate tallies of pushes and drained jobs: a mixed run has both on one thread.

use crate::tally::Tally;

#[derive(Debug, Clone)]
pub(crate) struct JobTallies {
    /// An operation is a job; a latency is one command (a PUSHB of 1,000 jobs is one).
    pub(crate) pushed: Tally,
    /// An operation is a job fetched and acknowledged; a latency is from FETCH to the reply to ACK.
    pub(crate) drained: Tally,
}

impl JobTallies {
    pub(crate) fn new() -> Self {
        Self { pushed: Tally::new(), drained: Tally::new() }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.pushed.merge(&other.pushed);
        self.drained.merge(&other.drained);
    }

    pub(crate) fn errors(&self) -> u64 {
        self.pushed.faults.count + self.drained.faults.count
    }

    pub(crate) fn first_error(&self) -> Option<&str> {
        self.pushed.faults.first.as_deref().or(self.drained.faults.first.as_deref())
    }
}
