//! The engine: the state in memory and the log. Every operation appends to the log and changes the
//! state in the same step, without waiting. A caller that must wait for the disk uses
//! [`Engine::end`].
//!
//! The operations are in the files beside this one: `push`, `work` (take, ack, fail), `moves`
//! (requeue, kill, discard, clear), `due`, `reclaim`, `look` (counts, scan, find).

use weir_base::clock::Timestamp;
use weir_log::{
    AppendError, Disk, Lsn, OpenError, ReadAhead, RecordError, RecordPosition, RecoveryReport,
    SegmentLog, SegmentLogOptions,
};

use super::arena::{ArenaEntry, JobIndex};
use super::fair_queue::Relaning;
use super::head::{RecordHead, RemovalReason};
use super::head_features::BatchJob;
use super::job_sizes::Sizing;
use super::journal::Journal;
use super::kept_key::KeptKey;
use super::reclaim::Reclaim;
use super::recover::{self, RecoverError};
use super::state::EngineState;
use crate::allocation::Allocation;
use crate::dispatch::Dispatcher;
use crate::metrics::JobsMetrics;
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::{LostWorkers, StoreError};

/// Maximum number of bytes that wait for the sync thread before pushes have to wait: some 10 ms of
/// the fastest stream of jobs. Memory may hold twice as much while one half is written.
const BUFFERED_BYTES_MAX: u64 = 4 << 20;

/// Space in a segment for its own header, footer and marks.
const SEGMENT_BYTES_SPARE: u32 = 1024;

/// The log's limit for heads, which are repeated in the footer.
const HEAD_BYTES_MAX: u32 = 1 << 16;

/// Why an operation was not performed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// The sync thread is behind. Nothing was done: wait for it, then retry.
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

/// What happened to a job whose record can't be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The job was dropped.
    Dropped,
    /// The job was not dropped, because the error is transient.
    JustNow(StoreError),
}

impl Unreadable {
    /// Returns the error if it is transient. For callers that can't continue without the job.
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

/// The state in memory and the log.
#[derive(Debug)]
pub(crate) struct Engine<D: Disk> {
    pub(crate) journal: Journal<D>,
    /// Reader for records in the order of the log: jobs that are fetched, and compaction.
    pub(crate) ahead: ReadAhead<D>,
    pub(crate) state: EngineState,
    pub(crate) settings: JobServerSettings,
    /// The rules as set.
    pub(crate) rules: Allocation,
    /// The rules in force: those set, with lower limits until `presumed_until`.
    pub(crate) allocation: Allocation,
    /// Until when jobs may run whose reservations were lost; see [`super::unrecorded`].
    pub(crate) presumed_until: Option<Timestamp>,
    /// Where the log says that the store was opened. `None`: nowhere.
    pub(crate) opened_at: Option<Lsn>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) metrics: JobsMetrics,
    pub(crate) random: fastrand::Rng,
    pub(crate) reclaim: Reclaim,
    /// Queues whose jobs are being added to lanes.
    pub(crate) relaning: Vec<Relaning>,
    /// Queues whose bytes are being counted.
    pub(crate) sizing: Vec<Sizing>,
    /// Queues whose jobs the next tick offers to the fetches that wait.
    pub(crate) woken: Vec<u16>,
    pub(crate) lost_workers: LostWorkers,
    /// Queues with a job that was not handed out because the log had no room for its reservation. Their jobs are
    /// offered again after the next round of the sync thread.
    pub(crate) held_by_log: Vec<u16>,
    /// The same of a full disk: after it has space again.
    pub(crate) held_by_space: Vec<u16>,
    /// Reservations of jobs that wait again, which the log does not know yet.
    pub(crate) unnoted: Vec<KeptKey>,
    /// When to write the records of jobs that ran before their limit was set, as far as they are missing.
    pub(crate) records_due: Option<Timestamp>,
    /// Callbacks of batches that could not be stored wait until then.
    pub(crate) callbacks_wait_until: Timestamp,
    pub(crate) buffer: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// Opens the log and rebuilds the state from it. `rules` are those that the caller applies then.
    pub(crate) fn open(
        disk: D,
        settings: &JobServerSettings,
        rules: &Allocation,
        metrics: JobsMetrics,
        mut random: fastrand::Rng,
    ) -> Result<(Self, RecoveryReport), EngineOpenError> {
        let (log, report) = SegmentLog::open(disk, log_options(settings))?;
        let empty = log.segments().iter().all(|segment| segment.records == 0);
        let mut state = if empty {
            EngineState::new(random.u64(..), metrics.clone())
        } else {
            recover::recover(&log, metrics.clone(), &settings.limits, rules, &mut random)?
        };
        let mut engine = Self {
            ahead: ReadAhead::new(log.reader()),
            journal: Journal::new(log),
            unnoted: std::mem::take(&mut state.released),
            state,
            settings: settings.clone(),
            rules: Allocation::default(),
            allocation: Allocation::default(),
            presumed_until: None,
            opened_at: None,
            dispatcher: Dispatcher::default(),
            metrics,
            random,
            reclaim: Reclaim::default(),
            relaning: Vec::new(),
            sizing: Vec::new(),
            woken: Vec::new(),
            lost_workers: LostWorkers::default(),
            held_by_log: Vec::new(),
            held_by_space: Vec::new(),
            records_due: None,
            callbacks_wait_until: Timestamp::default(),
            buffer: Vec::new(),
        };
        engine.journal.write_snapshot(&engine.state)?;
        if engine.state.rehashed || engine.state.has_counted_lost {
            engine.journal.replace_snapshot();
        }
        engine.note_opened(empty);
        // What the log can't take now is noted after the next round of the sync thread.
        let _ = engine.note_all_waiting();
        // A segment may be left whose last job ended right before the stop.
        engine.reclaim.look_again();
        Ok((engine, report))
    }

    /// Returns the position up to which the log must be durable to cover everything done so far.
    pub(crate) fn end(&self) -> Lsn {
        self.journal.log.end()
    }

    /// Returns an order after that of every job in any queue.
    pub(crate) fn next_order(&mut self, now: Timestamp) -> u64 {
        let order = now.as_micros().max(self.state.next_order);
        self.state.next_order = order + 1;
        order
    }

    /// Drops a job whose record can't be read, and lists it as damage until an operator has
    /// acknowledged it. Damage is final and recorded in the log; after a failed read the next start
    /// tries again. A transient error changes nothing.
    pub(crate) fn drop_unreadable(&mut self, job: JobIndex, error: &RecordError) -> Unreadable {
        if error.is_passing() {
            tracing::warn!(%error, "a job's record can't be read just now");
            return Unreadable::JustNow(StoreError::Failed(format!("{error}; try again")));
        }
        let position = self.state.arena.get(job).position;
        self.note_damage(position, error);
        tracing::error!(%error, ?position, "a job's record can't be read: the job is left out");
        if matches!(error, RecordError::Damaged { .. }) {
            let head = self.removal(job, RemovalReason::Deleted);
            // Without this record the next start finds and reports the damage again.
            let _ = self.journal.note(&head, &self.state);
        }
        self.forget(job);
        Unreadable::Dropped
    }

    /// Returns the record that removes a job.
    pub(crate) fn removal(&self, job: JobIndex, gone: RemovalReason) -> RecordHead<'static> {
        let position = self.state.arena.get(job).position;
        let batch = BatchJob::of(&self.state.features.get(job));
        RecordHead::Remove { gone, position, batch }
    }

    /// Records damage at `position`. The next sync sets its bytes aside.
    pub(crate) fn note_damage(&self, position: RecordPosition, error: &RecordError) {
        let damages = self.journal.log.damages();
        match error {
            RecordError::Damaged { why, .. } => damages.note(position, why),
            error => damages.note(position, &error.to_string()),
        }
    }

    /// Schedules reclaiming if `segment` has no live jobs left.
    pub(crate) fn note_release(&mut self, segment: u32) {
        if self.state.segments.live(segment) == 0 {
            self.reclaim.look_again();
        }
    }

    /// Removes a job from memory, and a removed queue with its last job.
    pub(crate) fn forget(&mut self, job: JobIndex) {
        let entry = self.state.remove(job);
        self.forgotten(entry);
    }

    /// Removes up to `max` jobs of cleared queues and sets from memory. The end of a job of a batch is
    /// written, so that a restart counts the job once: here, or because its queue was cleared. Without
    /// space for it, the job is forgotten all the same, because that may free space.
    pub(crate) fn forget_cleared(&mut self, max: usize) -> Result<(), EngineError> {
        for _ in 0..max {
            let Some(job) = self.state.cleared.first() else {
                return Ok(());
            };
            if self.state.features.get(job).batch.is_some() {
                let removal = self.removal(job, RemovalReason::Deleted);
                if let Err(AppendError::Backpressure) = self.journal.note(&removal, &self.state) {
                    return Err(EngineError::Behind);
                }
            }
            self.state.cleared.pop();
            let entry = self.state.remove_unplaced(job);
            self.forgotten(entry);
            if self.state.cleared.is_empty() {
                self.reclaim.look_again();
            }
        }
        Ok(())
    }

    fn forgotten(&mut self, entry: ArenaEntry) {
        self.note_release(entry.position.segment);
        self.forget_removed(entry.queue);
    }

    /// Forgets a removed queue if it has no jobs left.
    pub(crate) fn forget_removed(&mut self, queue: u16) {
        let removed = self.state.queues.get(queue);
        if removed.hidden && removed.jobs == 0 {
            // Without this record the next start finds an empty hidden queue and forgets it.
            let _ = self.journal.note(&RecordHead::QueueForgotten { queue }, &self.state);
            self.state.queues.forget(queue);
        }
    }
}

/// Returns the options of the log for these settings.
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
