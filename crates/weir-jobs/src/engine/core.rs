//! The engine: state and log together. Every operation appends to the log and changes memory in
//! the same breath; none of them waits. Who must wait for the disk asks [`Engine::end`].
//!
//! The operations are in the files beside this one: `push`, `work` (take, ack, fail), `moves`
//! (requeue, kill, discard, clear), `timers`, `reclaim`, `look` (counts, scan, find).

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::{AppendError, Disk, Log, Lsn, OpenError, Options, ReadError, Report};

use super::arena::JobIndex;
use super::journal::Journal;
use super::reclaim::Reclaim;
use super::recover::{self, RecoverError};
use super::state::State;
use crate::allocation::Allocation;
use crate::dispatch::Dispatcher;
use crate::metrics::JobsMetrics;
use crate::settings::{Limits, Settings};
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
    pub(crate) state: State,
    pub(crate) settings: Settings,
    pub(crate) allocation: Allocation,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) metrics: JobsMetrics,
    pub(crate) random: fastrand::Rng,
    pub(crate) reclaim: Reclaim,
    /// How often a job came back because its worker vanished. Few; forgotten by a restart.
    pub(crate) returns: HashMap<JobIndex, u8>,
    /// Records that could not be read since the start.
    pub(crate) records_damaged: u64,
    pub(crate) buffer: Vec<u8>,
}

impl<D: Disk> Engine<D> {
    /// Opens the log and rebuilds memory from it.
    pub(crate) fn open(
        disk: D,
        settings: &Settings,
        metrics: JobsMetrics,
        mut random: fastrand::Rng,
    ) -> Result<(Self, Report), EngineOpenError> {
        let (log, report) = Log::open(disk, log_options(settings))?;
        let empty = log.segments().iter().all(|segment| segment.records == 0);
        let state = if empty {
            State::new(random.u64(..), metrics.clone())
        } else {
            recover::recover(&log, metrics.clone(), &settings.limits)?
        };
        let mut engine = Self {
            journal: Journal::new(log),
            state,
            settings: settings.clone(),
            allocation: Allocation::default(),
            dispatcher: Dispatcher::default(),
            metrics,
            random,
            reclaim: Reclaim::default(),
            returns: HashMap::new(),
            records_damaged: 0,
            buffer: Vec::new(),
        };
        engine.journal.write_snapshot(&engine.state)?;
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

    /// A job's record can't be read: it leaves memory, loudly. Damage is final and noted in the
    /// log; a failed read gets another chance at the next start.
    pub(crate) fn drop_unreadable(&mut self, job: JobIndex, error: &ReadError) {
        self.records_damaged += 1;
        let position = self.state.arena.get(job).position;
        tracing::error!(%error, ?position, "a job's record can't be read: the job is left out");
        if matches!(error, ReadError::Damaged { .. }) {
            let gone = super::head::Gone::Deleted;
            let head = super::head::Head::Remove { gone, position };
            // Without the note it is found, and reported, once more at the next start.
            let _ = self.journal.note(&head, &self.state);
        }
        self.forget(job);
    }

    /// A job's record in `segment` has ended.
    pub(crate) fn note_release(&mut self, segment: u32) {
        if self.state.segments.live(segment) == 0 {
            self.reclaim.segment_died();
        }
    }

    /// Removes a job from memory; a removed queue goes with its last job.
    pub(crate) fn forget(&mut self, job: JobIndex) {
        self.returns.remove(&job);
        let entry = self.state.remove(job);
        self.note_release(entry.position.segment);
        let queue = self.state.queues.get(entry.queue);
        if queue.hidden && queue.jobs == 0 {
            let head = super::head::Head::QueueForgotten { queue: entry.queue };
            if self.journal.note(&head, &self.state).is_ok() {
                self.state.queues.forget(entry.queue);
            }
        }
    }
}

fn log_options(settings: &Settings) -> Options {
    let Limits { segment_bytes, reserve_bytes, .. } = settings.limits;
    let largest = segment_bytes.saturating_sub(reserve_bytes + SEGMENT_BYTES_SPARE);
    let defaults = Options::default();
    let record_bytes_max = if largest > 2 * HEAD_BYTES_MAX {
        (largest - HEAD_BYTES_MAX).min(defaults.record_bytes_max)
    } else {
        largest / 2
    };
    Options {
        segment_bytes,
        reserve_bytes,
        record_bytes_max,
        buffered_bytes_max: BUFFERED_BYTES_MAX,
        ..defaults
    }
}
