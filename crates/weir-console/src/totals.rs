//! Totals at a moment, and rates between two moments.

use weir_base::clock::Timestamp;

use crate::figures::as_float;

/// The counters of a job server or of one of its queues at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobTotals {
    pub(crate) at: Timestamp,
    pub(crate) pushed: u64,
    pub(crate) processed: u64,
    pub(crate) failed: u64,
}

impl JobTotals {
    /// Returns whether these totals cannot follow `last`: the job server was restarted, or the
    /// clock went back.
    pub(crate) fn is_behind(&self, last: &Self) -> bool {
        self.at < last.at
            || self.pushed < last.pushed
            || self.processed < last.processed
            || self.failed < last.failed
    }

    /// Returns pushed, processed and failed per second since `before`. None: no time has passed or
    /// the counter was reset.
    pub(crate) fn rates_since(&self, before: &Self) -> [Option<f64>; 3] {
        let seconds = self.at.since(before.at).as_secs_f64();
        let pairs = [
            (self.pushed, before.pushed),
            (self.processed, before.processed),
            (self.failed, before.failed),
        ];
        pairs.map(|(now, earlier)| {
            let more = now.checked_sub(earlier).filter(|_| seconds > 0.0)?;
            Some(as_float(more) / seconds)
        })
    }
}
