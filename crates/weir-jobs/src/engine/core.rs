//! The engine: state and log together. Every operation appends to the log and changes memory in
//! the same step; none of them waits. A caller that must wait for the disk uses [`Engine::end`].
//!
//! The operations are in the files beside this one: `push`, `work` (take, ack, fail), `moves`
//! (requeue, kill, discard, clear), `due`, `reclaim`, `look` (counts, scan, find).

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::{
    AppendError, Disk, Lsn, OpenError, ReadAhead, RecordError, RecordPosition, RecoveryReport,
    SegmentLog, SegmentLogOptions,
};

use super::arena::{ArenaEntry, JobIndex};
use super::head::{RecordHead, RemovalReason};
use super::journal::Journal;
use super::reclaim::Reclaim;
use super::recover::{self, RecoverError};
use super::state::EngineState;
use crate::allocation::Allocation;
use crate::dispatch::Dispatcher;
use crate::metrics::JobsMetrics;
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::StoreError;

/// Bytes that wait for the sync thread before pushes wait for it, too: some 10 ms of the fastest
/// stream of jobs. Twice that is in memory while one half is written.
const BUFFERED_BYTES_MAX: u64 = 4 << 20;

/// Of a segment, for its own header, footer and marks.
const SEGMENT_BYTES_SPARE: u32 = 1024;

/// The log's limit for heads, which its footer repeats.
const HEAD_BYTES_MAX: u32 = 1 << 16;

/// Why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// The sync thread is behind: wait for it, then try again. Nothing was done.
    #[error("the log's sync thread is behind")]
    Behind,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<AppendError> for EngineError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Backpressure => Self::Behind,
            AppendError::NoSpace => StoreError::DiskFull.into(),
            AppendError::TooLarge { bytes, .. } => {
                StoreError::TooLarge { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }.into()
            }
            AppendError::Poisoned(poison) => StoreError::Failed(poison.to_string()).into(),
        }
    }
}

/// What becomes of a job whose record can't be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// It is left out from now on.
    Dropped,
    /// It stays: the machine lacks something that the next try may have.
    JustNow(StoreError),
}

impl Unreadable {
    /// For callers that have nothing left to do without the job.
    pub(crate) fn or_stop(self) -> Result<(), EngineError> {
        match self {
            Self::Dropped => Ok(()),
            Self::JustNow(error) => Err(error.into()),
        }
    }
}

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineOpenError {
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Recover(#[from] RecoverError),
    #[error("cannot begin the jobs log: {0}")]
    Begin(#[from] AppendError),
    #[error("cannot open the folder of the jobs log: {0}")]
    Directory(#[source] std::io::Error),
    #[error("cannot start the thread that syncs the jobs log: {0}")]
    Thread(#[source] std::io::Error),
}

/// State and log.
#[derive(Debug)]
pub(crate) struct Engine<D: Disk> {
    pub(crate) journal: Journal<D>,
    /// For what is read in the order of the log: jobs on their way to workers, compaction.
    pub(crate) ahead: ReadAhead<D>,
    pub(crate) state: EngineState,
    pub(crate) settings: JobServerSettings,
    pub(crate) allocation: Allocation,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) metrics: JobsMetrics,
    pub(crate) random: fastrand::Rng,
    pub(crate) reclaim: Reclaim,
    /// How often a job was returned because its worker died. Few; forgotten by a restart.
    pub(crate) returns: HashMap<JobIndex, u8>,
    pub(crate) buffer: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// Opens the log and rebuilds memory from it.
    pub(crate) fn open(
        disk: D,
        settings: &JobServerSettings,
        metrics: JobsMetrics,
        mut random: fastrand::Rng,
    ) -> Result<(Self, RecoveryReport), EngineOpenError> {
        let (log, report) = SegmentLog::open(disk, log_options(settings))?;
        let empty = log.segments().iter().all(|segment| segment.records == 0);
        let state = if empty {
            EngineState::new(random.u64(..), metrics.clone())
        } else {
            recover::recover(&log, metrics.clone(), &settings.limits, &mut random)?
        };
        let mut engine = Self {
            ahead: ReadAhead::new(log.reader()),
            journal: Journal::new(log),
            state,
            settings: settings.clone(),
            allocation: Allocation::default(),
            dispatcher: Dispatcher::default(),
            metrics,
            random,
            reclaim: Reclaim::default(),
            returns: HashMap::new(),
            buffer: Vec::new(),
        };
        engine.journal.write_snapshot(&engine.state)?;
        if engine.state.rehashed {
            engine.journal.replace_snapshot();
        }
        Ok((engine, report))
    }

    /// What must be durable for all that was done so far to be.
    pub(crate) fn end(&self) -> Lsn {
        self.journal.log.end()
    }

    /// A place at the end of every queue.
    pub(crate) fn next_order(&mut self, now: Timestamp) -> u64 {
        let order = now.as_micros().max(self.state.next_order);
        self.state.next_order = order + 1;
        order
    }

    /// A job's record can't be read: it leaves memory, and is listed as damage until an operator has
    /// acknowledged it. Damage is final and noted in the log; a failed read gets another chance at
    /// the next start. What may work in a moment changes nothing.
    pub(crate) fn drop_unreadable(&mut self, job: JobIndex, error: &RecordError) -> Unreadable {
        if error.is_passing() {
            tracing::warn!(%error, "a job's record can't be read just now");
            return Unreadable::JustNow(StoreError::Failed(format!("{error}; try again")));
        }
        let position = self.state.arena.get(job).position;
        self.note_damage(position, error);
        tracing::error!(%error, ?position, "a job's record can't be read: the job is left out");
        if matches!(error, RecordError::Damaged { .. }) {
            let head = RecordHead::Remove { gone: RemovalReason::Deleted, position };
            // Without the note it is found, and reported, once more at the next start.
            let _ = self.journal.note(&head, &self.state);
        }
        self.forget(job);
        Unreadable::Dropped
    }

    /// The next sync sets aside what stands there.
    pub(crate) fn note_damage(&self, position: RecordPosition, error: &RecordError) {
        let damages = self.journal.log.damages();
        match error {
            RecordError::Damaged { why, .. } => damages.note(position, why),
            error => damages.note(position, &error.to_string()),
        }
    }

    /// A job's record in `segment` has ended.
    pub(crate) fn note_release(&mut self, segment: u32) {
        if self.state.segments.live(segment) == 0 {
            self.reclaim.look_again();
        }
    }

    /// Removes a job from memory; a removed queue is dropped with its last job.
    pub(crate) fn forget(&mut self, job: JobIndex) {
        let entry = self.state.remove(job);
        self.forgotten(job, entry);
    }

    /// Removes jobs of emptied places from memory, `max` at most.
    pub(crate) fn forget_cleared(&mut self, max: usize) {
        for _ in 0..max {
            let Some(job) = self.state.cleared.pop() else {
                return;
            };
            let entry = self.state.remove_unplaced(job);
            self.forgotten(job, entry);
            if self.state.cleared.is_empty() {
                self.reclaim.look_again();
            }
        }
    }

    fn forgotten(&mut self, job: JobIndex, entry: ArenaEntry) {
        self.returns.remove(&job);
        self.note_release(entry.position.segment);
        self.forget_removed(entry.queue);
    }

    /// Forgets a queue that was removed, if that was its last job.
    pub(crate) fn forget_removed(&mut self, queue: u16) {
        let removed = self.state.queues.get(queue);
        if removed.hidden && removed.jobs == 0 {
            // Without the note the next start finds an empty hidden queue and forgets it.
            let _ = self.journal.note(&RecordHead::QueueForgotten { queue }, &self.state);
            self.state.queues.forget(queue);
        }
    }
}

/// How the log of these settings is opened.
#[must_use]
pub fn log_options(settings: &JobServerSettings) -> SegmentLogOptions {
    let JobServerLimits { segment_bytes, reserve_bytes, set_aside_bytes_max, .. } = settings.limits;
    let largest = segment_bytes.saturating_sub(reserve_bytes + SEGMENT_BYTES_SPARE);
    let defaults = SegmentLogOptions::default();
    let record_bytes_max = if largest > 2 * HEAD_BYTES_MAX {
        (largest - HEAD_BYTES_MAX).min(defaults.record_bytes_max)
    } else {
        largest / 2
    };
    SegmentLogOptions {
        segment_bytes,
        reserve_bytes,
        record_bytes_max,
        buffered_bytes_max: BUFFERED_BYTES_MAX,
        set_aside_bytes_max,
        ..defaults
    }
}
