//! The state shared by the embedded store's operations and its background tasks: the engine, the
//! waiting FETCHes, the waits for durability, the sync thread. The tasks are in `timer` and
//! `waits`, actions on many jobs in `bulk`.
//!
//! The engine is borrowed for the duration of one operation, and never across an await.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use tokio::sync::Notify;
use weir_base::clock::{Clock, Timestamp};
use weir_log::{Disk, RecordPosition, RecoveryReport, Space};

use super::arena::JobIndex;
use super::core::{Engine, EngineError, EngineOpenError};
use super::durability::Promises;
use super::push::Arrival;
use super::sync_thread::{Pace, SyncThread};
use super::work::EngineFetch;
use crate::allocation::Allocation;
use crate::metrics::{JobServerLimit, JobsMetrics};
use crate::model::{Delivery, QueueName, Wid};
use crate::settings::{Fsync, JobServerSettings};
use crate::store::{BackupPoint, BatchSize, Storage, StoreCondition, StoreError};
use crate::waiters::{Waiters, serve_in_turn};

/// With less space than this on a full disk, the store reports that pushes are rejected, because a
/// larger one would be.
const JOB_BYTES_LOW: u64 = 64 << 10;

/// A FETCH that waits.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) wid: Option<Wid>,
    pub(super) max: BatchSize,
}

/// What became of a job of a batch. A stored one is remembered in case it has to be removed again.
#[derive(Clone, Debug)]
pub(super) enum BatchedJob {
    Stored(JobIndex, RecordPosition),
    /// It was refused on its own account.
    Refused(StoreError),
}

/// What follows when a job of a batch is refused on its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusals {
    /// The others are stored.
    Continue,
    /// None is stored.
    Stop,
}

#[derive(Debug)]
pub(super) struct EngineShared<D: Disk> {
    pub(super) engine: RefCell<Engine<D>>,
    pub(super) waiters: Waiters<QueueName, Fetcher, Vec<EngineFetch>>,
    pub(super) clock: Clock,
    pub(super) metrics: JobsMetrics,
    pub(super) promises: Promises,
    pub(super) sync: RefCell<SyncThread>,
    /// A lazy sync was requested and has not ended.
    pub(super) sync_is_due: Cell<bool>,
    pub(super) flush_wanted: Notify,
    /// Notified when something may be due earlier than the timer expects.
    pub(super) timer_changed: Notify,
    /// When the timer wakes next.
    pub(super) timer_at: Cell<Timestamp>,
    /// Notified when a round of the sync thread ends, for tasks that wait for space.
    pub(super) round_over: Notify,
    pub(super) closed: Cell<bool>,
    /// The damaged bytes that were left out, as of the last check of the storage.
    pub(super) bytes_left_out: Cell<u64>,
    pub(super) fsync: Fsync,
    pub(super) fsync_acks: bool,
}

impl<D: Disk> EngineShared<D> {
    pub(super) fn open(
        disk: D,
        settings: &JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> Result<(Rc<Self>, RecoveryReport), EngineOpenError> {
        let random = fastrand::Rng::new();
        let rules = Allocation::of_settings(settings);
        let (mut engine, report) = Engine::open(disk, settings, &rules, metrics.clone(), random)?;
        engine.allocate(rules);
        engine.extend_restored(clock.now());
        engine.presume_running(clock.now());
        engine.journal.clock = Some(clock.clone());
        let pace = Pace { lazy_wait: settings.ack_sync_max, gather_wait: settings.gather_wait };
        let syncer = engine.journal.log.syncer();
        let sync = SyncThread::start(syncer, pace, clock.clone(), metrics.clone())
            .map_err(EngineOpenError::Thread)?;
        let inner = Rc::new_cyclic(|weak: &Weak<Self>| Self {
            engine: RefCell::new(engine),
            waiters: Waiters::new(giving_back_to(weak.clone())),
            clock,
            metrics,
            promises: Promises::default(),
            sync: RefCell::new(sync),
            sync_is_due: Cell::new(false),
            flush_wanted: Notify::new(),
            timer_changed: Notify::new(),
            timer_at: Cell::new(Timestamp::default()),
            round_over: Notify::new(),
            closed: Cell::new(false),
            bytes_left_out: Cell::new(0),
            fsync: settings.fsync,
            fsync_acks: settings.fsync_acks,
        });
        Ok((inner, report))
    }

    // --- Fetching --------------------------------------------------------------------------
    pub(super) fn take(
        &self,
        wid: Option<&Wid>,
        queues: &[QueueName],
        max: BatchSize,
        now: Timestamp,
    ) -> Result<Vec<EngineFetch>, StoreError> {
        let (mut taken, mut size) = (Vec::new(), BatchSize { jobs: 0, bytes: 0 });
        let mut failure = None;
        let mut engine = self.engine.borrow_mut();
        while !max.is_reached(size) {
            match engine.take(wid, queues, |queue| self.waiters.waiting_for(queue), now) {
                Ok(Some(next)) => {
                    size.jobs += 1;
                    size.bytes += next.delivery.json.len();
                    taken.push(next);
                }
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // The last job of a batch may have expired.
        let has_callback = engine.state.features.batches.has_due();
        if !engine.held_by_log.is_empty() || !engine.unnoted.is_empty() {
            self.sync.borrow().request_room();
        } else if !engine.held_by_space.is_empty() {
            self.sync.borrow().request_space();
        }
        let is_sleeping = !engine.state.sleeping.is_empty();
        let is_changed =
            !taken.is_empty() || !engine.woken.is_empty() || has_callback || is_sleeping;
        drop(engine);
        if is_changed {
            self.rearm();
        }
        match failure {
            Some(failure) if taken.is_empty() => Err(failure),
            _ => Ok(taken),
        }
    }

    /// Delivers jobs of `queue` to the fetches that wait for it, the longest waiting first.
    pub(super) fn offer(&self, queue: &QueueName) {
        while self.offer_once(queue) {}
    }

    /// Serves the fetch that has waited longest for `queue`. Returns false if none waits, or if no job may start.
    fn offer_once(&self, queue: &QueueName) -> bool {
        let Some(picked) = self.waiters.pick(queue) else { return false };
        let Some((fetcher, queues)) = picked.who() else { return false };
        let now = self.clock.now();
        // A fetch that waits learns of an error when its client repeats it.
        match self.take(fetcher.wid.as_ref(), queues, fetcher.max, now) {
            Ok(taken) if !taken.is_empty() => {
                picked.serve(taken);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Serves the queues that wait for a resource which has room again, in turn.
    pub(super) fn offer_freed(&self) {
        let freed = {
            let mut engine = self.engine.borrow_mut();
            let freed = engine.take_freed().into_iter();
            freed.filter_map(|number| engine.state.queues.name(number)).collect()
        };
        serve_in_turn(freed, |queue| self.offer_once(queue));
    }

    pub(super) fn offer_numbered(&self, queues: impl IntoIterator<Item = u16>) {
        if self.waiters.len() == 0 {
            return;
        }
        // They come before the queue of the job that has left it.
        self.offer_freed();
        let mut last = None;
        for number in queues {
            if last == Some(number) {
                continue;
            }
            last = Some(number);
            let name = self.engine.borrow().state.queues.name(number);
            if let Some(name) = name {
                self.offer(&name);
            }
        }
    }

    /// Returns the jobs for the reply once their reservations are as durable as they must be, without those whose
    /// reservations have ended by then. If that fails, or if the future is dropped, the jobs wait again.
    pub(super) async fn deliver(
        &self,
        taken: Vec<EngineFetch>,
    ) -> Result<Vec<Delivery>, StoreError> {
        if !taken.iter().any(|taken| taken.is_logged) {
            return Ok(taken.into_iter().map(|taken| taken.delivery).collect());
        }
        let mut undelivered = Undelivered { store: self, taken };
        self.promise().await?;
        let taken = self.without_ended(std::mem::take(&mut undelivered.taken));
        Ok(taken.into_iter().map(|taken| taken.delivery).collect())
    }

    /// Leaves out the jobs whose reservations have ended since they were taken: by FLUSH, an ACK, or the end of the
    /// worker.
    pub(super) fn without_ended(&self, mut taken: Vec<EngineFetch>) -> Vec<EngineFetch> {
        let reserved = &mut self.engine.borrow_mut().state.reserved;
        taken.retain(|taken| reserved.with_ticket(&taken.delivery.jid, taken.ticket).is_some());
        taken
    }

    /// Offers the jobs that were not handed out because the log had no room for their reservations.
    pub(super) fn offer_held_by_log(&self) {
        let held = {
            let mut engine = self.engine.borrow_mut();
            // If the log is behind again, after the next round.
            let _ = engine.note_all_waiting();
            let mut held = std::mem::take(&mut engine.held_by_log);
            held.append(&mut engine.held_by_space);
            held
        };
        self.offer_numbered(held);
    }

    /// Returns jobs that were assigned but not delivered to their positions, and offers them again.
    fn give_back(&self, taken: Vec<EngineFetch>) {
        let mut queues = Vec::with_capacity(taken.len());
        for taken in &taken {
            queues.extend(self.engine.borrow_mut().put_back(taken));
        }
        self.offer_numbered(queues);
    }

    // --- Storing ---------------------------------------------------------------------------

    /// Stores the jobs of a batch that are not yet in `stored`.
    pub(super) fn store_jobs(
        &self,
        jobs: &[impl Arrival],
        refusals: Refusals,
        stored: &mut Vec<BatchedJob>,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        let now = self.clock.now();
        let mut engine = self.engine.borrow_mut();
        let (mut queues, mut later) = (Vec::new(), false);
        let mut result = Ok(());
        for job in &jobs[stored.len()..] {
            match engine.store(job, now) {
                Ok((index, queue)) => {
                    let position = engine.state.arena.get(index).position;
                    stored.push(BatchedJob::Stored(index, position));
                    later |= queue.is_none();
                    if self.waiters.len() > 0 {
                        queues.extend(queue.filter(|queue| !queues.contains(queue)));
                    }
                }
                Err(EngineError::Store(error))
                    if refusals == Refusals::Continue && error.is_of_one_job() =>
                {
                    stored.push(BatchedJob::Refused(error));
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        drop(engine);
        if !matches!(result, Err(EngineError::Store(_))) {
            self.offer_numbered(queues);
        }
        if later {
            self.rearm();
        }
        self.note_full(&result);
        result
    }

    /// Requests a sync after an operation found the disk full. The sync thread then retries until
    /// space returns.
    pub(super) fn note_full<T>(&self, result: &Result<T, EngineError>) {
        if matches!(result, Err(EngineError::Store(StoreError::DiskFull))) {
            self.sync.borrow().request();
        }
    }

    /// Removes jobs of a batch that could not be stored completely.
    pub(super) fn take_back(&self, stored: &[BatchedJob]) {
        let mut engine = self.engine.borrow_mut();
        for job in stored {
            if let BatchedJob::Stored(job, position) = job {
                engine.take_back(*job, *position);
            }
        }
    }

    /// Waits until the batch is as durable as the settings demand.
    pub(super) async fn promise_of_push(&self, stored: &[BatchedJob]) -> Result<(), StoreError> {
        let result = self.promise().await;
        if result == Err(StoreError::DiskFull) {
            self.take_back(stored);
        }
        result
    }

    // --- Shutdown and state ----------------------------------------------------------------

    pub(super) fn close(&self) -> Result<(), StoreError> {
        if self.closed.replace(true) {
            return Ok(());
        }
        self.waiters.dismiss();
        let mut sync = self.sync.borrow_mut();
        sync.stop();
        // No client is served any more, so this thread may wait for the disk. The mark records how
        // far the log was durable, so damage below it is never mistaken for a torn tail.
        let mut engine = self.engine.borrow_mut();
        let syncer = engine.journal.log.syncer();
        // Each round has space for some 80,000 reservations. If it fails, a restart presumes jobs that may still run.
        while engine.note_closed() == Err(EngineError::Behind)
            && syncer.sync().and_then(|_| syncer.maintain()).is_ok()
        {}
        let _ = syncer.sync();
        engine.journal.log.mark();
        let end = engine.end();
        let result = syncer.sync();
        let durable = syncer.durable();
        self.promises.keep(durable);
        if durable >= end {
            return Ok(());
        }
        let problem = result.err().map_or_else(String::new, |problem| problem.to_string());
        self.promises.break_up_to(end, StoreError::Failed(problem.clone()));
        Err(StoreError::Failed(problem))
    }

    /// Returns a position of the log up to which everything can be copied from its files.
    pub(super) async fn backup_point(&self) -> Result<BackupPoint, StoreError> {
        self.check_open()?;
        let point = {
            let engine = self.engine.borrow();
            let log = &engine.journal.log;
            BackupPoint {
                log_id: log.id(),
                at: self.clock.now(),
                position: log.position(),
                marked_second: log.marked_second(),
                segments: log.segments(),
            }
        };
        self.promise().await?;
        Ok(point)
    }

    pub(super) fn storage(&self) -> Storage {
        let engine = self.engine.borrow();
        let log = &engine.journal.log;
        let damages = log.damages().summary();
        if damages.is_waiting {
            self.sync.borrow().request();
        }
        if damages.bytes_left_out > self.bytes_left_out.replace(damages.bytes_left_out) {
            self.metrics.limit_hit(JobServerLimit::SetAsideBytesMax);
        }
        let segments = log.segments();
        let (p50, p99) = self.sync.borrow().percentiles();
        let condition = match (log.poisoned(), log.space()) {
            (Some(poison), _) => StoreCondition::Failed(poison.to_string()),
            (None, Space::Full) => StoreCondition::Full,
            (None, Space::Low { job_bytes, .. }) if job_bytes < JOB_BYTES_LOW => {
                StoreCondition::Low
            }
            (None, Space::Low { .. } | Space::Ok { .. }) => StoreCondition::Ok,
        };
        Storage {
            kind: "embedded",
            segments: segments.len() as u64,
            bytes: segments.iter().map(|segment| u64::from(segment.bytes)).sum(),
            damages: damages.places,
            condition,
            sync_seconds_p50: p50,
            sync_seconds_p99: p99,
            ..Storage::default()
        }
    }
}

/// Jobs that were taken for a fetch and are not delivered yet.
struct Undelivered<'a, D: Disk> {
    store: &'a EngineShared<D>,
    taken: Vec<EngineFetch>,
}

impl<D: Disk> Drop for Undelivered<'_, D> {
    fn drop(&mut self) {
        if !self.taken.is_empty() {
            self.store.give_back(std::mem::take(&mut self.taken));
        }
    }
}

fn giving_back_to<D: Disk>(inner: Weak<EngineShared<D>>) -> impl Fn(Vec<EngineFetch>) {
    move |taken| {
        if let Some(inner) = inner.upgrade() {
            inner.give_back(taken);
        }
    }
}
