//! What the embedded store's operations and its background tasks share: the engine, the line of
//! waiting FETCHes, the promises, the sync thread. The tasks and the waits are in `timer`, `waits`
//! and `bulk`.
//!
//! The engine is borrowed for the length of one operation and never across an await.

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
use crate::model::{QueueName, Wid};
use crate::settings::{Fsync, JobServerSettings};
use crate::store::{BatchSize, Storage, StoreCondition, StoreError};
use crate::waiters::Waiters;

/// With less room than this on a full disk, pushes count as refused: the next larger one is.
const JOB_BYTES_LOW: u64 = 64 << 10;

/// What is known of a FETCH that waits.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) wid: Option<Wid>,
    pub(super) max: BatchSize,
}

/// A job of a batch that is stored, should it have to be taken back.
pub(super) type StoredAt = (JobIndex, RecordPosition);

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
    /// Something is due earlier than the timer knows.
    pub(super) timer_changed: Notify,
    /// When the timer wakes next.
    pub(super) timer_at: Cell<Timestamp>,
    /// A round of the sync thread is over: for those whom it held up.
    pub(super) round_over: Notify,
    pub(super) closed: Cell<bool>,
    /// Of damage, when the storage was last checked.
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
        let (mut engine, report) = Engine::open(disk, settings, metrics.clone(), random)?;
        engine.allocation = Allocation::of_settings(settings);
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

    // --- Work handed out -------------------------------------------------------------------
    pub(super) fn take(
        &self,
        wid: Option<&Wid>,
        queues: &[QueueName],
        max: BatchSize,
        now: Timestamp,
    ) -> Vec<EngineFetch> {
        let (mut taken, mut size) = (Vec::new(), BatchSize { jobs: 0, bytes: 0 });
        let mut engine = self.engine.borrow_mut();
        while !max.is_reached(size)
            && let Some(next) = engine.take(wid, queues, now)
        {
            size.jobs += 1;
            size.bytes += next.delivery.json.len();
            taken.push(next);
        }
        drop(engine);
        if !taken.is_empty() {
            self.rearm();
        }
        taken
    }

    /// Work arrived in `queue`: the fetch that has waited longest for it receives it.
    pub(super) fn offer(&self, queue: &QueueName) {
        while let Some(picked) = self.waiters.pick(queue) {
            let Some((fetcher, queues)) = picked.who() else {
                return;
            };
            let now = self.clock.now();
            let taken = self.take(fetcher.wid.as_ref(), queues, fetcher.max, now);
            if taken.is_empty() {
                return;
            }
            picked.serve(taken);
        }
    }

    pub(super) fn offer_numbered(&self, queues: impl IntoIterator<Item = u16>) {
        if self.waiters.len() == 0 {
            return;
        }
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

    /// Work that was handed out but never taken returns to its place.
    fn give_back(&self, taken: Vec<EngineFetch>) {
        let mut queues = Vec::with_capacity(taken.len());
        for taken in &taken {
            queues.extend(self.engine.borrow_mut().put_back(taken));
        }
        self.offer_numbered(queues);
    }

    // --- Work coming in --------------------------------------------------------------------

    /// Stores the jobs of a batch that are not yet stored.
    pub(super) fn store_jobs(
        &self,
        jobs: &[impl Arrival],
        stored: &mut Vec<StoredAt>,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        let now = self.clock.now();
        let mut engine = self.engine.borrow_mut();
        let (mut queues, mut later) = (Vec::new(), false);
        let mut result = Ok(());
        for job in &jobs[stored.len()..] {
            match engine.store(job, now) {
                Ok((index, queue)) => {
                    stored.push((index, engine.state.arena.get(index).position));
                    later |= queue.is_none();
                    if self.waiters.len() > 0 {
                        queues.extend(queue.filter(|queue| !queues.contains(queue)));
                    }
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

    /// A full disk is tried again until space returns: the sync thread does so once it knows.
    pub(super) fn note_full<T>(&self, result: &Result<T, EngineError>) {
        if matches!(result, Err(EngineError::Store(StoreError::DiskFull))) {
            self.sync.borrow().request();
        }
    }

    /// Takes back jobs of a batch that could not be stored whole.
    pub(super) fn take_back(&self, stored: &[StoredAt]) {
        let mut engine = self.engine.borrow_mut();
        for (job, position) in stored {
            engine.take_back(*job, *position);
        }
    }

    /// Resolves when the batch is as durable as the settings promise.
    pub(super) async fn promise_of_push(&self, stored: &[StoredAt]) -> Result<(), StoreError> {
        let result = self.promise().await;
        if result == Err(StoreError::DiskFull) {
            self.take_back(stored);
        }
        result
    }

    // --- The end, and how it looks ---------------------------------------------------------

    pub(super) fn close(&self) -> Result<(), StoreError> {
        if self.closed.replace(true) {
            return Ok(());
        }
        self.waiters.dismiss();
        let mut sync = self.sync.borrow_mut();
        sync.stop();
        // Nothing is served any more, so this thread may wait for the disk. The mark says how far
        // the log was durable: what is damaged below it is never taken for a torn tail.
        let mut engine = self.engine.borrow_mut();
        engine.journal.log.mark();
        let (end, syncer) = (engine.end(), engine.journal.log.syncer());
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
