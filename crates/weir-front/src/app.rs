//! One app, shared by all cores: its workers, and how requests obtain a worker's slot.

mod budget;
mod maintenance;
mod slot;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::oneshot;
use weir_base::clock::{Clock, Timestamp};
use weir_base::seldom::Seldom;

pub(crate) use self::budget::{ByteBudget, Lease};
pub(crate) use self::maintenance::Maintenance;
pub(crate) use self::slot::UpstreamSlot;
use self::slot::{QueuePlace, SlotResult};
use crate::address::UpstreamAddress;
use crate::dispatch::{
    Dispatcher, EnqueueOutcome, ExternalLoad, Load, Permit, QueueError, QueueLimits, RequestClass,
    Slots, StreamSlot, WorkerKey,
};
use crate::forwarded_headers::ForwardedHeaders;
use crate::metrics::AppMetrics;
use crate::rules::PriorityRule;
use crate::settings::{AppLimits, AppSettings};
use crate::shed::{LatencySample, ShedRule, ShedState, WatchedQueue};
use crate::view::{AppView, OverdueView, TotalsView, UpstreamWorkerState, WorkerView};

/// A worker that requests are sent to.
#[derive(Debug)]
pub(crate) struct UpstreamWorker {
    pub(crate) key: WorkerKey,
    /// Unique among the workers of all apps; the key of its idle connections.
    pub(crate) serial: u64,
    pub(crate) address: UpstreamAddress,
    /// The sum of the times that requests have waited for a slot of this worker.
    waited_us: AtomicU64,
}

impl UpstreamWorker {
    const fn new(key: WorkerKey, serial: u64, address: UpstreamAddress) -> Self {
        Self { key, serial, address, waited_us: AtomicU64::new(0) }
    }

    fn record_wait(&self, waited: Duration) {
        let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(waited_us, Ordering::Relaxed);
    }

    fn waited(&self) -> Duration {
        Duration::from_micros(self.waited_us.load(Ordering::Relaxed))
    }
}

/// The next serial.
static WORKERS: AtomicU64 = AtomicU64::new(0);

/// An app: its settings, rules, metrics, workers and request queue.
pub(crate) struct ProxiedApp {
    pub(crate) name: String,
    pub(crate) limits: AppLimits,
    pub(crate) priorities: Vec<PriorityRule>,
    pub(crate) shed: Vec<ShedRule>,
    pub(crate) maintenance: Maintenance,
    /// True while none of its workers can be started: then requests are rejected at once.
    has_no_program: AtomicBool,
    /// Which header fields about the client and the proxies between are written for workers.
    pub(crate) forwarded_headers: ForwardedHeaders,
    pub(crate) metrics: AppMetrics,
    /// The memory budget for bodies of clients that are slower than the workers.
    pub(crate) buffers: ByteBudget,
    clock: Clock,
    /// Limits the log lines about rejected streams.
    stream_rejection_log: Seldom,
    /// A std mutex: it is held for decisions in memory only, never across an await.
    state: Mutex<AppState>,
}

struct AppState {
    dispatcher: Dispatcher<oneshot::Sender<SlotResult>>,
    workers: HashMap<WorkerKey, Arc<UpstreamWorker>>,
}

impl ProxiedApp {
    pub(crate) fn new(settings: AppSettings, clock: Clock, metrics: AppMetrics) -> Arc<Self> {
        let limits = settings.limits;
        let dispatcher = Dispatcher::new(QueueLimits {
            queue_max: limits.queue_max,
            queue_timeout: limits.queue_timeout,
            overload_delay: limits.overload_delay,
            overload_after: limits.overload_after,
            overload_wait: limits.overload_wait,
        });
        let state = Mutex::new(AppState { dispatcher, workers: HashMap::new() });
        let buffers = ByteBudget::new(limits.buffers_max);
        let forwarded_headers = ForwardedHeaders::from_list(&settings.forwarded_headers);
        let AppSettings { name, workers, priorities, shed, maintenance_page, .. } = settings;
        let shed = shed.into_iter().map(ShedRule::new).collect();
        let maintenance = Maintenance::new(maintenance_page);
        let app = Arc::new(Self {
            name,
            limits,
            priorities,
            shed,
            maintenance,
            has_no_program: AtomicBool::new(false),
            forwarded_headers,
            metrics,
            buffers,
            clock,
            stream_rejection_log: Seldom::default(),
            state,
        });
        for address in workers {
            app.add_worker(address);
        }
        app
    }

    /// Takes a slot of a worker if one is free now.
    pub(crate) fn free_slot(self: &Arc<Self>, now: Timestamp) -> Option<UpstreamSlot> {
        let mut state = self.state();
        let permit = state.dispatcher.take(now)?;
        self.metrics.queued(Duration::ZERO);
        Some(UpstreamSlot::new(self, state.worker(&permit), permit))
    }

    /// Takes a slot for a request that will probably become a stream, or waits for one. If a slot
    /// is free at once, prefers a worker that has room for a stream.
    pub(crate) async fn slot_for_stream(
        self: &Arc<Self>,
        class: RequestClass,
    ) -> Result<UpstreamSlot, QueueError> {
        let now = self.now();
        let acquired = {
            let mut state = self.state();
            let permit = state.dispatcher.take_for_stream(now);
            permit.map(|permit| (state.worker(&permit), permit))
        };
        match acquired {
            Some((worker, permit)) => {
                self.metrics.queued(Duration::ZERO);
                Ok(UpstreamSlot::new(self, worker, permit))
            }
            None => self.slot(class, now).await,
        }
    }

    /// Takes a slot of a worker, or waits for one. `since`: when the request began to wait.
    pub(crate) async fn slot(
        self: &Arc<Self>,
        class: RequestClass,
        since: Timestamp,
    ) -> Result<UpstreamSlot, QueueError> {
        let result = match self.request_slot(class, since) {
            SlotRequestOutcome::Ready(result) => result,
            // Every waiter is sent a result before its sender is dropped, except at process exit.
            SlotRequestOutcome::Queued(_place, receiver) => {
                receiver.await.unwrap_or(Err(QueueError::QueueTimeout))
            }
        };
        match &result {
            Ok(slot) => {
                let waited = self.clock.now().since(since);
                slot.worker.record_wait(waited);
                self.metrics.queued(waited);
            }
            Err(error) => self.metrics.rejected(*error),
        }
        result
    }

    fn request_slot(
        self: &Arc<Self>,
        class: RequestClass,
        now: Timestamp,
    ) -> SlotRequestOutcome<'_> {
        let mut state = self.state();
        // A slot may have become free since `free_slot` returned None.
        if let Some(permit) = state.dispatcher.take(now) {
            return SlotRequestOutcome::Ready(Ok(UpstreamSlot::new(
                self,
                state.worker(&permit),
                permit,
            )));
        }
        let (sender, receiver) = oneshot::channel();
        match state.dispatcher.wait(class, sender, now) {
            EnqueueOutcome::Rejected(_, error) => SlotRequestOutcome::Ready(Err(error)),
            EnqueueOutcome::Queued { ticket, displaced } => {
                if let Some((displaced, error)) = displaced {
                    // Sending fails if the displaced request's client has disconnected.
                    let _ = displaced.send(Err(error));
                }
                SlotRequestOutcome::Queued(QueuePlace::new(self, ticket), receiver)
            }
        }
    }

    /// Adds a worker that listens at `address`.
    pub(crate) fn add_worker(self: &Arc<Self>, address: UpstreamAddress) -> WorkerKey {
        let slots = Slots { requests: self.limits.concurrency, streams: self.limits.streams() };
        let key = {
            let mut state = self.state();
            let key = state.dispatcher.add_worker(slots, self.clock.now());
            let serial = WORKERS.fetch_add(1, Ordering::Relaxed);
            state.workers.insert(key, Arc::new(UpstreamWorker::new(key, serial, address)));
            key
        };
        self.assign_free_slots();
        key
    }

    /// Suspends a worker that cannot be reached, for `retry_worker_after`.
    pub(crate) fn suspend(&self, worker: &UpstreamWorker) {
        let until = self.clock.now() + self.limits.retry_worker_after;
        self.state().dispatcher.suspend_worker(worker.key, until);
    }

    /// Rejects requests that have waited too long, and retries suspended workers.
    pub(crate) fn tick(self: &Arc<Self>) {
        let now = self.clock.now();
        let expired = {
            let mut state = self.state();
            state.dispatcher.end_suspensions(now);
            let AppState { dispatcher, workers } = &mut *state;
            workers.retain(|key, _| dispatcher.contains(*key));
            self.metrics.buffered(self.buffers.used());
            self.metrics.waiting(state.dispatcher.waiting());
            self.metrics.busy_peak(state.dispatcher.busy_peak(now));
            state.dispatcher.expire(now)
        };
        for (waiter, error) in expired {
            // Sending fails if the client has disconnected.
            let _ = waiter.send(Err(error));
        }
        self.assign_free_slots();
    }

    /// Stops giving slots to requests, which then wait in the queue.
    pub(crate) fn pause(&self) {
        self.state().dispatcher.pause();
    }

    /// Gives slots again, to waiting requests first.
    pub(crate) fn resume(self: &Arc<Self>) {
        self.state().dispatcher.resume(self.clock.now());
        self.assign_free_slots();
    }

    /// Replaces the workers: adds those that are new, and drains those that are no longer listed.
    pub(crate) fn set_workers(self: &Arc<Self>, addresses: &[UpstreamAddress]) {
        let (removed, existing) = {
            let state = self.state();
            let (existing, removed): (Vec<_>, Vec<_>) = state
                .current()
                .map(|worker| (worker.key, worker.address.clone()))
                .partition(|(_, address)| addresses.contains(address));
            (removed, existing)
        };
        // New workers first, so that the app is never without a worker.
        for address in addresses {
            if !existing.iter().any(|(_, existing)| existing == address) {
                self.add_worker(address.clone());
            }
        }
        for (key, _) in removed {
            self.state().dispatcher.drain_worker(key);
        }
    }

    /// Stops or resumes sending new requests to the worker at `address`.
    pub(crate) fn hold_back(self: &Arc<Self>, address: &UpstreamAddress, is_held: bool) {
        {
            let mut state = self.state();
            let found = state.current().find(|worker| worker.address == *address);
            let Some(key) = found.map(|worker| worker.key) else { return };
            state.dispatcher.hold_back_worker(key, is_held, self.clock.now());
        }
        self.assign_free_slots();
    }

    /// Sets whether none of its workers can be started.
    pub(crate) fn set_no_program(&self, has_none: bool) {
        self.has_no_program.store(has_none, Ordering::Relaxed);
    }

    pub(crate) fn has_no_program(&self) -> bool {
        self.has_no_program.load(Ordering::Relaxed)
    }

    /// Sets how many slots of the worker at `address` are used by other service processes.
    pub(crate) fn set_external_load(
        self: &Arc<Self>,
        address: &UpstreamAddress,
        external: ExternalLoad,
    ) {
        {
            let mut state = self.state();
            let found = state.current().find(|worker| worker.address == *address);
            let Some(key) = found.map(|worker| worker.key) else { return };
            state.dispatcher.set_external_load(key, external);
        }
        self.assign_free_slots();
    }

    /// Returns how many slots of each worker this process uses.
    pub(crate) fn used(&self) -> Vec<(UpstreamAddress, ExternalLoad)> {
        let state = self.state();
        let loads = state.dispatcher.loads().into_iter();
        loads
            .map(|(key, load)| {
                let used = ExternalLoad { requests: load.requests, streams: load.streams };
                (state.workers[&key].address.clone(), used)
            })
            .collect()
    }

    /// Returns whether the worker at `address` receives requests or still has some in progress.
    pub(crate) fn has_worker(&self, address: &UpstreamAddress) -> bool {
        let state = self.state();
        let loads = state.dispatcher.loads();
        loads.iter().any(|(key, _)| state.workers[key].address == *address)
    }

    /// Returns the workers that have owed a response, or the rest of one, for `age` or longer.
    pub(crate) fn overdue(&self, age: Duration) -> Vec<OverdueView> {
        let now = self.clock.now();
        let state = self.state();
        let loads: HashMap<_, _> = state.dispatcher.loads().into_iter().collect();
        let overdue = state.dispatcher.overdue(age, now).into_iter();
        overdue
            .map(|one| OverdueView {
                address: state.workers[&one.worker].address.clone(),
                oldest: now.since(one.oldest),
                bystanders: loads[&one.worker].requests.saturating_sub(one.requests),
            })
            .collect()
    }

    /// Returns a snapshot for operators.
    pub(crate) fn view(&self) -> AppView {
        let now = self.clock.now();
        let state = self.state();
        let dispatcher = &state.dispatcher;
        let running = dispatcher.overdue(Duration::ZERO, now).into_iter();
        let oldest: HashMap<_, _> =
            running.map(|overdue| (overdue.worker, overdue.oldest)).collect();
        let workers = dispatcher.loads().into_iter().map(|(key, load)| WorkerView {
            address: state.workers[&key].address.to_string(),
            requests: load.requests + load.external.requests,
            streams: load.streams + load.external.streams,
            assigned: load.assigned,
            waited: state.workers[&key].waited(),
            oldest_request: oldest.get(&key).map(|since| now.since(*since)),
            state: worker_state(load),
        });
        AppView {
            name: self.name.clone(),
            requests_waiting: dispatcher.waiting(),
            is_paused: dispatcher.is_paused(),
            is_in_maintenance: self.maintenance.is_on(),
            shedding: self.queues_of_rules(ShedState::On),
            shed_unknown: self.queues_of_rules(ShedState::Unknown),
            is_overloaded: dispatcher.is_overloaded(now),
            workers: workers.collect(),
            totals: TotalsView {
                busy_peak: dispatcher.busy_peak(now),
                request_slots: dispatcher.request_slots(),
                ..self.metrics.totals()
            },
        }
    }

    /// Returns the queues of the shed rules with this state.
    fn queues_of_rules(&self, state: ShedState) -> Vec<String> {
        let rules = self.shed.iter().filter(|rule| rule.state() == state);
        rules.map(|rule| rule.settings.queue.name.clone()).collect()
    }

    /// Updates the shed rules with the samples of each queue.
    pub(crate) fn update_shed_rules(&self, samples: impl Fn(&WatchedQueue) -> Vec<LatencySample>) {
        for rule in &self.shed {
            rule.update(&samples(&rule.settings.queue));
        }
        self.count_shed_rules();
    }

    /// Makes all shed rules inactive.
    pub(crate) fn end_shedding(&self) {
        self.shed.iter().for_each(|rule| rule.set(ShedState::Off));
        self.count_shed_rules();
    }

    fn count_shed_rules(&self) {
        let states: Vec<_> = self.shed.iter().map(ShedRule::state).collect();
        self.metrics.shed_rules(&states);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives free slots to waiting requests.
    fn assign_free_slots(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                state.next(self.clock.now())
            };
            let Some(next) = next else { break };
            self.send_slot(next);
        }
    }

    /// Marks a request as a stream. If the stream has a slot of its own, gives the request's slot
    /// to the next waiting request. Returns None if there is no room for the stream.
    fn make_stream(self: &Arc<Self>, permit: &Permit) -> Option<StreamSlot> {
        let (stream, next) = {
            let mut state = self.state();
            let stream = state.dispatcher.make_stream(permit);
            let has_freed_slot = stream == Some(StreamSlot::Own);
            (stream, if has_freed_slot { state.next(self.clock.now()) } else { None })
        };
        if let Some(next) = next {
            self.send_slot(next);
        }
        stream
    }

    /// Counts and logs the rejection of a stream.
    fn reject_stream(&self, error: QueueError) -> QueueError {
        self.metrics.rejected(error);
        // The server logs when a client reaches its own limit of streams.
        if error == QueueError::Streams && self.stream_rejection_log.is_due(self.clock.now()) {
            tracing::warn!(
                app = self.name,
                streams = self.limits.streams(),
                "no room for another WebSocket or event stream: refused with 503 (front.apps.streams)"
            );
        }
        error
    }

    /// Ends a permit and gives its slot to the next waiting request.
    fn release(self: &Arc<Self>, permit: Permit) {
        let next = {
            let mut state = self.state();
            state.end(permit, &self.clock)
        };
        if let Some(next) = next {
            self.send_slot(next);
        }
    }

    /// Passes a slot to a waiting request. If its client has disconnected, tries the next one.
    fn send_slot(self: &Arc<Self>, mut next: NextRequest) {
        loop {
            let NextRequest { waiter, permit, worker } = next;
            let Err(Ok(mut slot)) = waiter.send(Ok(UpstreamSlot::new(self, worker, permit))) else {
                return;
            };
            let Some(permit) = slot.take_permit() else { return };
            let Some(more) = self.state().end(permit, &self.clock) else { return };
            next = more;
        }
    }

    fn state(&self) -> MutexGuard<'_, AppState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The immediate outcome of a request for a slot.
enum SlotRequestOutcome<'a> {
    Ready(SlotResult),
    Queued(QueuePlace<'a>, oneshot::Receiver<SlotResult>),
}

/// A waiting request and the slot that it gets.
struct NextRequest {
    waiter: oneshot::Sender<SlotResult>,
    permit: Permit,
    worker: Arc<UpstreamWorker>,
}

fn worker_state(load: Load) -> UpstreamWorkerState {
    match load {
        Load { is_draining: true, .. } => UpstreamWorkerState::Draining,
        Load { is_held_back: true, .. } => UpstreamWorkerState::HeldBack,
        Load { is_suspended: true, .. } => UpstreamWorkerState::Unreachable,
        _ => UpstreamWorkerState::Serving,
    }
}

impl AppState {
    /// Iterates over the workers that are not draining.
    fn current(&self) -> impl Iterator<Item = &Arc<UpstreamWorker>> {
        let loads = self.dispatcher.loads().into_iter();
        loads.filter(|(_, load)| !load.is_draining).map(|(key, _)| &self.workers[&key])
    }

    fn end(&mut self, permit: Permit, clock: &Clock) -> Option<NextRequest> {
        self.dispatcher.end(permit);
        // Reads the clock only if a request waits.
        if self.dispatcher.waiting() > 0 { self.next(clock.now()) } else { None }
    }

    fn next(&mut self, now: Timestamp) -> Option<NextRequest> {
        let next = self.dispatcher.next(now)?;
        Some(self.with_worker(next))
    }

    fn with_worker(&self, (waiter, permit): (oneshot::Sender<SlotResult>, Permit)) -> NextRequest {
        NextRequest { worker: self.worker(&permit), waiter, permit }
    }

    fn worker(&self, permit: &Permit) -> Arc<UpstreamWorker> {
        Arc::clone(&self.workers[&permit.worker])
    }
}

impl fmt::Debug for ProxiedApp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ProxiedApp").field("name", &self.name).finish_non_exhaustive()
    }
}
