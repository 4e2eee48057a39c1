//! The figures of one type of job.

use std::time::Duration;

use weir_base::clock::Timestamp;

use super::groups::{EventGroups, Grouped};
use super::histogram::micros;
use super::slices::{RunCounts, TypeSlice, TypeSlices};

/// Bytes of an error's class that are kept. A FAIL is cut to 100 characters.
const CLASS_BYTES_MAX: usize = 100;
/// Bytes of an error's message that are kept; the job has all of it.
const MESSAGE_BYTES_MAX: usize = 300;
/// Bytes of a jid that are kept, which is more than the default of `limits.id_bytes_max`.
const JID_BYTES_MAX: usize = 256;

/// The last failure with an error.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedJob {
    pub(super) jid: Box<str>,
    pub(super) message: Box<str>,
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TypeTotal {
    pub(super) counts: RunCounts,
    pub(super) wait_micros: u64,
    pub(super) run_micros: u64,
}

/// The figures of one type. 12 slices of 1.1 KB and groups: about 14 KB, and up to 0.8 KB for each class of errors.
#[derive(Debug, Default)]
pub(super) struct TypeFigures {
    pub(super) running: u64,
    /// When a job last started or ended.
    pub(super) last_at: Timestamp,
    pub(super) total: TypeTotal,
    pub(super) slices: TypeSlices,
    pub(super) errors: EventGroups<FailedJob>,
    /// Starts by queue.
    pub(super) queues: EventGroups<()>,
}

impl TypeFigures {
    /// Counts a job that starts. `waited` is `None` if nothing is known of when it was ready.
    pub(super) fn start(
        &mut self,
        queue: &str,
        waited: Option<Duration>,
        groups_max: usize,
        now: Timestamp,
    ) -> Grouped {
        self.running += 1;
        self.last_at = now;
        self.total.counts.started += 1;
        let slice = self.slices.at(now);
        slice.counts.started += 1;
        if let Some(waited) = waited {
            slice.wait.observe(waited);
            self.total.wait_micros = self.total.wait_micros.saturating_add(micros(waited));
        }
        self.queues.count(queue, (), groups_max, now)
    }

    /// Counts a job that was started by another process.
    pub(super) fn resume(&mut self, now: Timestamp) {
        self.running += 1;
        self.last_at = now;
    }

    /// Counts a job that ended without an error.
    pub(super) fn succeed(&mut self, ran: Duration, now: Timestamp) {
        self.end(ran, now).succeeded += 1;
        self.total.counts.succeeded += 1;
    }

    /// Counts a job that ended with an error.
    pub(super) fn fail(
        &mut self,
        error: &RunError<'_>,
        ran: Duration,
        groups_max: usize,
        now: Timestamp,
    ) -> Grouped {
        self.end(ran, now).failed += 1;
        self.total.counts.failed += 1;
        let example = FailedJob {
            jid: cut(error.jid, JID_BYTES_MAX).into(),
            message: cut(error.message, MESSAGE_BYTES_MAX).into(),
        };
        self.errors.count(cut(error.class, CLASS_BYTES_MAX), example, groups_max, now)
    }

    fn end(&mut self, ran: Duration, now: Timestamp) -> &mut RunCounts {
        self.running = self.running.saturating_sub(1);
        self.last_at = now;
        self.total.run_micros = self.total.run_micros.saturating_add(micros(ran));
        let slice = self.slices.at(now);
        slice.run.observe(ran);
        &mut slice.counts
    }

    /// Counts a started job that did not end.
    pub(super) fn give_back(&mut self, now: Timestamp) {
        self.running = self.running.saturating_sub(1);
        self.last_at = now;
        self.total.counts.returned += 1;
        self.slices.at(now).counts.returned += 1;
    }

    /// Leaves nothing later than `now`, to which the clock was set back.
    pub(super) fn set_back(&mut self, now: Timestamp) {
        self.last_at = self.last_at.min(now);
        self.slices.set_back(now);
        self.errors.set_back(now);
        self.queues.set_back(now);
    }

    /// Returns the sums of the last `slices`, that of `now` included.
    pub(super) fn recent(&self, now: Timestamp, slices: usize) -> TypeSlice {
        let mut sum = TypeSlice::default();
        self.slices.recent(now, slices).for_each(|slice| sum.merge(slice));
        sum
    }

    /// Returns the runs of those slices together.
    pub(super) fn recent_run_seconds(&self, now: Timestamp, slices: usize) -> f64 {
        self.slices.recent(now, slices).map(|slice| slice.run.sum_seconds()).sum()
    }
}

/// Returns at most `bytes_max` bytes of a text: names and messages are input.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Why a job failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunError<'e> {
    pub(super) jid: &'e str,
    pub(super) class: &'e str,
    pub(super) message: &'e str,
}
