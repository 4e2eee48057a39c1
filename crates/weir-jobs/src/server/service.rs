//! What all tasks on the owner's thread share: the store, the settings in force, the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;
use weir_base::clock::{Clock, Timestamp};
use weir_base::failed_attempts::FailedAttempts;

use crate::faktory::{Buffers, Signal, SignalLevel};
use crate::job::{IgnoredCounts, IgnoredMember, JobBatch};
use crate::metrics::JobsMetrics;
use crate::server::rates::QueueRates;
use crate::settings::JobServerSettings;
use crate::workers::WorkerRegistry;

/// Batches that are kept for the next PUSH: only as many are in use as pushes are parsed at once.
const FREE_BATCHES_MAX: usize = 16;

/// The state of a running server, on the one thread that may touch it.
#[derive(Debug)]
pub(crate) struct JobService<S> {
    pub(crate) store: Rc<S>,
    pub(crate) clock: Clock,
    pub(crate) metrics: JobsMetrics,
    pub(crate) started: Timestamp,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) connections: OpenConnections,
    pub(crate) workers: RefCell<WorkerRegistry>,
    pub(crate) wrong_passwords: RefCell<FailedAttempts>,
    /// Passwords that wait for their check.
    pub(crate) password_checks: Gauge,
    pub(crate) waiting_fetches: Gauge,
    pub(crate) commands_total: Cell<u64>,
    pub(crate) rates: RefCell<QueueRates>,
    /// Told when the settings changed.
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
            clock,
            metrics,
            buffers: Rc::default(),
            connections: OpenConnections::default(),
            workers: RefCell::default(),
            wrong_passwords: RefCell::default(),
            password_checks: Gauge::default(),
            waiting_fetches: Gauge::default(),
            commands_total: Cell::default(),
            rates: RefCell::default(),
            reloaded: Notify::new(),
            settings: RefCell::new(Rc::new(settings)),
            free_batches: RefCell::default(),
        }
    }

    /// The settings in force. The value does not change with a reload.
    pub(crate) fn settings(&self) -> Rc<JobServerSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Puts settings in force.
    pub(crate) fn set_settings(&self, settings: JobServerSettings) {
        *self.settings.borrow_mut() = Rc::new(settings);
        self.reloaded.notify_waiters();
    }

    /// An empty batch; give it back with [`JobService::recycle_batch`].
    pub(crate) fn take_batch(&self) -> JobBatch {
        self.free_batches.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps a batch's memory for the next.
    pub(crate) fn recycle_batch(&self, mut batch: JobBatch) {
        self.note_ignored(batch.take_ignored());
        let mut free = self.free_batches.borrow_mut();
        if free.len() < FREE_BATCHES_MAX {
            batch.clear();
            free.push(batch);
        }
    }
}

impl<S> JobService<S> {
    /// Counts members that change nothing, and says so of each once.
    fn note_ignored(&self, counts: IgnoredCounts) {
        for (member, jobs) in IgnoredMember::ALL.into_iter().zip(counts) {
            if jobs > 0 && self.metrics.ignored_members(member, jobs) {
                let (member, consequence) = (member.name(), member.consequence());
                tracing::warn!(
                    "a job has custom.{member}, which Weir does not obey yet: {consequence}; \
                     weir_jobs_ignored_members_total counts them"
                );
            }
        }
    }
}

/// How many do something at the moment.
#[derive(Debug, Default)]
pub(crate) struct Gauge(Cell<usize>);

/// One of those. Dropping it counts it out.
#[derive(Debug)]
pub(crate) struct GaugeSlot<'g>(&'g Gauge);

impl Gauge {
    /// One more, if there are fewer than `max`.
    pub(crate) fn enter(&self, max: usize) -> Option<GaugeSlot<'_>> {
        (self.0.get() < max).then(|| self.count())
    }

    /// One more.
    pub(crate) fn count(&self) -> GaugeSlot<'_> {
        self.0.set(self.0.get() + 1);
        GaugeSlot(self)
    }

    /// How many there are.
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

impl Drop for GaugeSlot<'_> {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

/// All open connections, each with the way to tell it something.
#[derive(Debug, Default)]
pub(crate) struct OpenConnections {
    next: Cell<u64>,
    open: RefCell<HashMap<u64, Rc<Signal>>>,
}

impl OpenConnections {
    /// Counts a new connection in.
    pub(crate) fn open(&self) -> (u64, Rc<Signal>) {
        let id = self.next.get();
        self.next.set(id + 1);
        let signal = Rc::new(Signal::default());
        self.open.borrow_mut().insert(id, Rc::clone(&signal));
        (id, signal)
    }

    /// Counts it out.
    pub(crate) fn close(&self, id: u64) {
        self.open.borrow_mut().remove(&id);
    }

    /// Sends an order to all connections.
    pub(crate) fn signal_all(&self, order: SignalLevel) {
        self.open.borrow().values().for_each(|signal| signal.give(order));
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }
}
