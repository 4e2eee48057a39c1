//! What the embedded store's operations and its background tasks share: the engine, the line of
//! waiting FETCHes, the promises, the sync thread.
//!
//! The engine is borrowed for the length of one operation and never across an await.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_log::{Disk, Lsn, Position, Report, Space, SyncError};

use super::arena::JobIndex;
use super::core::{Engine, EngineError, EngineOpenError};
use super::durability::Promises;
use super::push::Arrival;
use super::sync_thread::{Pace, SyncThread};
use super::timers::Next;
use super::work::Taken;
use crate::allocation::Allocation;
use crate::metrics::JobsMetrics;
use crate::model::{EntryKey, Place, QueueName, Wid};
use crate::settings::{Fsync, Settings};
use crate::store::{Action, Condition, Storage, StoreError};
use crate::waiters::Waiters;

/// Jobs that one action handles before others get their turn.
const SLICE_JOBS: usize = 256;

/// The timer looks at the clock at least this often: somebody may set it.
const TIMER_SLEEP_MAX: Duration = Duration::from_secs(30);

/// How long the timer waits when the disk is full before it tries again.
const TIMER_RETRY: Duration = Duration::from_secs(1);

/// How often `fsync = "everysec"` syncs.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// With less room than this on a full disk, pushes count as refused: the next larger one is.
const JOB_BYTES_LOW: u64 = 64 << 10;

/// What is known of a FETCH that waits.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) wid: Option<Wid>,
    pub(super) max: usize,
}

/// A job of a batch that is stored, should it have to be taken back.
pub(super) type StoredAt = (JobIndex, Position);

#[derive(Debug)]
pub(super) struct Inner<D: Disk> {
    pub(super) engine: RefCell<Engine<D>>,
    pub(super) waiters: Waiters<QueueName, Fetcher, Vec<Taken>>,
    pub(super) clock: Clock,
    pub(super) metrics: JobsMetrics,
    promises: Promises,
    sync: RefCell<SyncThread>,
    /// A lazy sync was asked for and is not over.
    sync_is_due: Cell<bool>,
    flush_wanted: Notify,
    /// Something is due earlier than the timer knows.
    timer_changed: Notify,
    /// When the timer wakes next.
    timer_at: Cell<Timestamp>,
    /// A round of the sync thread is over: for those whom it held up.
    round_over: Notify,
    closed: Cell<bool>,
    fsync: Fsync,
    fsync_acks: bool,
}

impl<D: Disk> Inner<D> {
    pub(super) fn open(
        disk: D,
        settings: &Settings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> Result<(Rc<Self>, Report), EngineOpenError> {
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
        max: usize,
        now: Timestamp,
    ) -> Vec<Taken> {
        let mut taken = Vec::new();
        let mut engine = self.engine.borrow_mut();
        while taken.len() < max
            && let Some(next) = engine.take(wid, queues, now)
        {
            taken.push(next);
        }
        drop(engine);
        if !taken.is_empty() {
            self.rearm();
        }
        taken
    }

    /// Work arrived in `queue`: whoever has waited longest for it gets it.
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

    /// Work that was handed out but never taken goes back to its place.
    fn give_back(&self, taken: Vec<Taken>) {
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
    fn note_full<T>(&self, result: &Result<T, EngineError>) {
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

    // --- Waiting for the disk --------------------------------------------------------------

    /// Resolves when all that was done so far is as durable as the settings promise.
    pub(super) async fn promise(&self) -> Result<(), StoreError> {
        self.rearm();
        let end = self.engine.borrow().end();
        match self.fsync {
            Fsync::Always => self.sync.borrow().request(),
            Fsync::EverySecond | Fsync::Never => self.flush_wanted.notify_one(),
        }
        self.promises.until(end).await
    }

    /// Like [`Inner::promise`], but an ACK only waits with `fsync_acks`.
    pub(super) async fn promise_of_ack(&self) -> Result<(), StoreError> {
        if self.fsync_acks {
            return self.promise().await;
        }
        self.rearm();
        if !self.sync_is_due.replace(true) {
            self.sync.borrow().request_soon();
        }
        Ok(())
    }

    /// Resolves when the sync thread has caught up with an append that found no room.
    pub(super) async fn room(&self) -> Result<(), StoreError> {
        let over = self.round_over.notified();
        self.sync.borrow().request_room();
        over.await;
        self.check_open()
    }

    /// Runs an operation, again and again while the sync thread is behind.
    pub(super) async fn retrying<T>(
        &self,
        mut operation: impl FnMut(&mut Engine<D>, Timestamp) -> Result<T, EngineError>,
    ) -> Result<T, StoreError> {
        self.check_open()?;
        loop {
            let result = operation(&mut self.engine.borrow_mut(), self.clock.now());
            self.note_full(&result);
            match result {
                Ok(done) => return Ok(done),
                Err(EngineError::Behind) => self.room().await?,
                Err(EngineError::Store(error)) => return Err(error),
            }
        }
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Closed) } else { Ok(()) }
    }

    // --- Actions on many jobs --------------------------------------------------------------

    pub(super) async fn act_on_entries(
        &self,
        place: &Place,
        keys: &[EntryKey],
        action: Action,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for slice in keys.chunks(SLICE_JOBS) {
            let mut queues = Vec::new();
            for key in slice {
                let act = |engine: &mut Engine<D>, now| match engine.entry(place, key) {
                    Some(job) => engine.act(job, action, now).map(Some),
                    None => Ok(None),
                };
                if let Some(queue) = self.retrying(act).await? {
                    count += 1;
                    queues.extend(queue);
                }
            }
            self.offer_numbered(queues);
            tokio::task::yield_now().await;
        }
        Ok(count)
    }

    /// Requeues or kills all jobs that are in the place now.
    pub(super) async fn act_on_all(
        &self,
        place: &Place,
        action: Action,
    ) -> Result<u64, StoreError> {
        let Some(last) = self.engine.borrow().last_order(place) else {
            return Ok(0);
        };
        if *place == Place::Set(crate::model::SetName::Dead) && action == Action::Kill {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            let mut queues = Vec::new();
            for _ in 0..SLICE_JOBS {
                let act = |engine: &mut Engine<D>, now| match engine.first_up_to(place, last) {
                    Some(job) => engine.act(job, action, now).map(Some),
                    None => Ok(None),
                };
                let Some(queue) = self.retrying(act).await? else {
                    self.offer_numbered(queues);
                    return Ok(count);
                };
                count += 1;
                queues.extend(queue);
            }
            self.offer_numbered(queues);
            tokio::task::yield_now().await;
        }
    }

    // --- Background tasks ------------------------------------------------------------------

    pub(super) fn spawn_tasks(inner: &Rc<Self>) -> Vec<JoinHandle<()>> {
        let mut tasks = vec![
            tokio::task::spawn_local(Rc::clone(inner).run_timer()),
            tokio::task::spawn_local(Rc::clone(inner).run_promises()),
        ];
        if inner.fsync != Fsync::Always {
            tasks.push(tokio::task::spawn_local(Rc::clone(inner).run_flushes()));
        }
        if inner.fsync == Fsync::EverySecond {
            tasks.push(tokio::task::spawn_local(Rc::clone(inner).run_syncs()));
        }
        tasks
    }

    /// Does what is due and sleeps until more is.
    async fn run_timer(self: Rc<Self>) {
        loop {
            let sleep = match self.tick().await {
                Ok(Next::Now) => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Ok(Next::At(at)) => at.since(self.clock.now()).min(TIMER_SLEEP_MAX),
                Ok(Next::Idle) => TIMER_SLEEP_MAX,
                Err(error) => {
                    tracing::warn!(%error, "due jobs wait");
                    TIMER_RETRY
                }
            };
            self.timer_at.set(self.clock.now() + sleep);
            // Whichever comes first; both lead back to the clock.
            let _ = tokio::time::timeout(sleep, self.timer_changed.notified()).await;
        }
    }

    /// One slice of what is due.
    pub(super) async fn tick(&self) -> Result<Next, StoreError> {
        let ticked = self.retrying(|engine, now| engine.tick(now)).await?;
        self.offer_numbered(ticked.queues);
        Ok(ticked.next)
    }

    /// Tells the timer if something is due before it wakes.
    fn rearm(&self) {
        let next = self.engine.borrow().next_time();
        let earlier = match next {
            Next::Now => true,
            Next::At(at) => at < self.timer_at.get(),
            Next::Idle => false,
        };
        if earlier {
            self.timer_at.set(Timestamp::default());
            self.timer_changed.notify_one();
        }
    }

    /// Keeps promises as the sync thread reports.
    async fn run_promises(self: Rc<Self>) {
        let finished = self.sync.borrow().finished();
        loop {
            finished.notified().await;
            self.after_round();
        }
    }

    fn after_round(&self) {
        let (durable, problem) = {
            let sync = self.sync.borrow();
            (sync.durable(), sync.problem())
        };
        if self.fsync == Fsync::Always {
            self.promises.keep(durable);
        }
        let end = self.engine.borrow().end();
        match problem {
            Some(SyncError::Poisoned(poison)) => self.fail_promises(end, poison.to_string()),
            Some(SyncError::NoSpace) => self.promises.break_up_to(end, StoreError::DiskFull),
            Some(SyncError::Upkeep { .. }) | None => {}
        }
        self.sync_is_due.set(false);
        if durable < end && self.fsync == Fsync::Always {
            self.sync_is_due.set(true);
            self.sync.borrow().request_soon();
        }
        self.round_over.notify_waiters();
    }

    fn fail_promises(&self, end: Lsn, reason: String) {
        self.promises.break_up_to(end, StoreError::Failed(reason));
    }

    /// Writes what was appended into the page cache, once for all who asked meanwhile.
    async fn run_flushes(self: Rc<Self>) {
        loop {
            self.flush_wanted.notified().await;
            let result = self.engine.borrow_mut().journal.log.flush();
            match result {
                Ok(written) => self.promises.keep(written),
                Err(SyncError::Poisoned(poison)) => {
                    let end = self.engine.borrow().end();
                    self.fail_promises(end, poison.to_string());
                }
                Err(SyncError::NoSpace | SyncError::Upkeep { .. }) => {
                    let end = self.engine.borrow().end();
                    self.promises.break_up_to(end, StoreError::DiskFull);
                }
            }
        }
    }

    async fn run_syncs(self: Rc<Self>) {
        loop {
            tokio::time::sleep(SYNC_INTERVAL).await;
            if self.sync.borrow().durable() < self.engine.borrow().end() {
                self.sync.borrow().request();
            }
        }
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
        let segments = log.segments();
        let (p50, p99) = self.sync.borrow().percentiles();
        let condition = match (log.poisoned(), log.space()) {
            (Some(poison), _) => Condition::Failed(poison.to_string()),
            (None, Space::Full) => Condition::Full,
            (None, Space::Low { job_bytes, .. }) if job_bytes < JOB_BYTES_LOW => Condition::Low,
            (None, Space::Low { .. } | Space::Ok { .. }) => Condition::Ok,
        };
        Storage {
            kind: "embedded",
            segments: segments.len() as u64,
            bytes: segments.iter().map(|segment| u64::from(segment.bytes)).sum(),
            records_damaged: engine.records_damaged,
            condition,
            sync_seconds_p50: p50,
            sync_seconds_p99: p99,
        }
    }
}

fn giving_back_to<D: Disk>(inner: Weak<Inner<D>>) -> impl Fn(Vec<Taken>) {
    move |taken| {
        if let Some(inner) = inner.upgrade() {
            inner.give_back(taken);
        }
    }
}
