//! State shared by all tasks on the owner's thread: the store, the current settings, the
//! connections.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use tokio::sync::Notify;
use weir_base::clock::{Clock, Timestamp};
use weir_base::failed_attempts::FailedAttempts;

use crate::cancellations::Cancellations;
use crate::faktory::{Buffers, Signal, SignalLevel};
use crate::job::JobBatch;
use crate::job_traces::JobTraces;
use crate::metrics::JobsMetrics;
use crate::model::{Wid, WorkerEnd};
use crate::server::rates::QueueRates;
use crate::server::recent_rates::RecentTotals;
use crate::server::sampled_depths::SampledDepths;
use crate::server::tasks::Tasks;
use crate::settings::JobServerSettings;
use crate::store::{LostWorkers, ReservationMark, Store};
use crate::temporary_limits::LeasedLimits;
use crate::workers::WorkerRegistry;

/// Maximum number of batches to reuse. Only as many are in use as pushes are parsed at once.
const FREE_BATCHES_MAX: usize = 16;

/// The state of a running server. Only one thread may access it.
#[derive(Debug)]
pub(crate) struct JobService<S> {
    pub(crate) store: Rc<S>,
    pub(crate) clock: Clock,
    pub(crate) metrics: JobsMetrics,
    pub(crate) started: Timestamp,
    pub(crate) traces: JobTraces,
    /// The address of the console for browsers, or empty.
    pub(crate) console: String,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) connections: OpenConnections,
    pub(crate) workers: RefCell<WorkerRegistry>,
    /// Of workers that were given up, by wid. The reaper releases them.
    pub(crate) owed_releases: RefCell<BTreeMap<Wid, OwedRelease>>,
    pub(crate) wrong_passwords: RefCell<FailedAttempts>,
    /// Number of passwords that wait for their check.
    pub(crate) password_checks: Gauge,
    pub(crate) waiting_fetches: Gauge,
    /// Held while an import stores its jobs, so that a resumed one finds those of a client that is
    /// gone. Across awaits, so tokio's.
    pub(crate) importing: tokio::sync::Mutex<()>,
    pub(crate) tasks: Tasks,
    pub(crate) cancellations: RefCell<Cancellations>,
    pub(crate) commands_total: Cell<u64>,
    pub(crate) rates: RefCell<QueueRates>,
    pub(crate) recent: RefCell<RecentTotals>,
    pub(crate) sampled_depths: SampledDepths,
    /// Limits that were set at run time.
    pub(crate) leased_limits: RefCell<Option<LeasedLimits>>,
    /// Notified when the settings change.
    pub(crate) reloaded: Notify,
    settings: RefCell<Rc<JobServerSettings>>,
    free_batches: RefCell<Vec<JobBatch>>,
}

impl<S> JobService<S> {
    pub(crate) fn new(
        store: Rc<S>,
        settings: JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> Self {
        Self {
            store,
            started: clock.now(),
            traces: JobTraces::default(),
            console: String::new(),
            clock,
            metrics,
            buffers: Rc::default(),
            connections: OpenConnections::default(),
            workers: RefCell::default(),
            owed_releases: RefCell::default(),
            wrong_passwords: RefCell::default(),
            password_checks: Gauge::default(),
            waiting_fetches: Gauge::default(),
            importing: Default::default(),
            tasks: Tasks::default(),
            cancellations: RefCell::default(),
            commands_total: Cell::default(),
            rates: RefCell::default(),
            recent: RefCell::default(),
            sampled_depths: SampledDepths::default(),
            leased_limits: RefCell::default(),
            reloaded: Notify::new(),
            settings: RefCell::new(Rc::new(settings)),
            free_batches: RefCell::default(),
        }
    }

    /// Returns the current settings. A reload does not change the returned value.
    pub(crate) fn settings(&self) -> Rc<JobServerSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Replaces the current settings.
    pub(crate) fn set_settings(&self, settings: JobServerSettings) {
        *self.settings.borrow_mut() = Rc::new(settings);
        self.reloaded.notify_waiters();
    }

    /// Returns an empty batch. Return it with [`JobService::recycle_batch`].
    pub(crate) fn take_batch(&self) -> JobBatch {
        self.free_batches.borrow_mut().pop().unwrap_or_default()
    }
}

/// Reservations of a worker that was given up: those from before the mark, however the worker returns.
#[derive(Clone, Debug)]
pub(crate) struct OwedRelease {
    pub(crate) mark: ReservationMark,
    pub(crate) end: WorkerEnd,
}

impl<S: Store> JobService<S> {
    /// Notes that the end of these jobs is stored: forgets that they were cancelled, and ends their spans.
    pub(crate) fn note_ended(&self, reporter: Option<&Wid>, jids: &[&str]) {
        let mut marks = self.cancellations.borrow_mut();
        for jid in jids {
            marks.end(jid, reporter);
        }
        self.traces.end_runs(jids);
    }

    /// Has the reaper release what a worker has reserved now.
    pub(crate) fn owe_release(&self, wid: Wid, end: WorkerEnd) {
        let mark = self.store.reservation_mark();
        self.cancellations.borrow_mut().forget_worker(&wid);
        let mut owed = self.owed_releases.borrow_mut();
        let end = end.after(owed.get(&wid).map(|earlier| earlier.end));
        owed.insert(wid, OwedRelease { mark, end });
    }

    /// Lets the store know which workers are lost when reservations expire.
    pub(crate) fn watch_workers(self: &Rc<Self>) {
        let service = Rc::downgrade(self);
        self.store.watch_workers(LostWorkers::new(move |wid| {
            service.upgrade().is_some_and(|service| service.workers.borrow().is_lost(wid))
        }));
    }

    /// Keeps a batch's buffer for reuse.
    pub(crate) fn recycle_batch(&self, mut batch: JobBatch) {
        let mut free = self.free_batches.borrow_mut();
        if free.len() < FREE_BATCHES_MAX {
            batch.clear();
            free.push(batch);
        }
    }
}

/// Counts operations in progress.
#[derive(Debug, Default)]
pub(crate) struct Gauge(Cell<usize>);

/// One operation in progress. Dropping it decrements the gauge.
#[derive(Debug)]
pub(crate) struct GaugeSlot<'g>(&'g Gauge);

impl Gauge {
    /// Increments the gauge if it is below `max`.
    pub(crate) fn try_enter(&self, max: usize) -> Option<GaugeSlot<'_>> {
        (self.0.get() < max).then(|| self.count())
    }

    /// Increments the gauge.
    pub(crate) fn count(&self) -> GaugeSlot<'_> {
        self.0.set(self.0.get() + 1);
        GaugeSlot(self)
    }

    /// Returns the number of operations in progress.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for GaugeSlot<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// All open connections, each with its signal.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    next: Cell<u64>,
    open: RefCell<HashMap<u64, Rc<Signal>>>,
}

impl OpenConnections {
    /// Adds a new connection. Returns its id and signal.
    pub(crate) fn open(&self) -> (u64, Rc<Signal>) {
        let id = self.next.get();
        self.next.set(id + 1);
        let signal = Rc::new(Signal::default());
        self.open.borrow_mut().insert(id, Rc::clone(&signal));
        (id, signal)
    }

    /// Removes a connection.
    pub(crate) fn close(&self, id: u64) {
        self.open.borrow_mut().remove(&id);
    }

    /// Raises the signal of all connections to `order`.
    pub(crate) fn signal_all(&self, order: SignalLevel) {
        self.open.borrow().values().for_each(|signal| signal.give(order));
    }

    /// Returns the number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}
