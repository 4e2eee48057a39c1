//! The store that forgets: every operation of [`Store`] in memory, for tests and development, and
//! the simple model that the durable store is compared with.
//!
//! It keeps every promise of the trait but durability. It lives on one thread, in a `LocalSet`.

mod batching;
mod fair;
mod lanes;
mod limit_states;
mod look;
mod moves;
mod shared_resources;
mod state;
mod work;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_log::Damage;

use crate::allocation::Allocation;
use crate::batches::{BatchDefinition, BatchStatus, ExportedBatch};
use crate::cron::{CronRunOutcome, CronState, CronStates};
use crate::custom::BatchId;
use crate::metrics::JobsMetrics;
use crate::model::{
    Delivery, EntryKey, FailureReport, JobLocation, NewJob, QueueName, Wid, WorkerEnd,
};
use crate::settings::JobServerSettings;
use crate::store::limit_states::LimitStates;
use crate::store::{
    Action, BatchSize, Capabilities, Counts, FailOutcome, FetchRequest, FindOutcome, LostWorkers,
    QueueAction, ReservationMark, Reserved, Restored, Sample, ScanPage, ScanRequest, Selection,
    Storage, Store, StoreCondition, StoreError, TenantDepth,
};
use crate::tracks::{Track, TrackUpdate};
use crate::waiters::{Waiters, serve_in_turn};
use state::MemoryState;
use work::MemoryFetch;

/// Maximum sleep of the timer, so that it notices changes of the system clock.
const TIMER_SLEEP_MAX: Duration = Duration::from_secs(60);

/// A store in memory. No job survives the end of the process.
#[derive(Debug)]
pub struct MemoryStore {
    inner: Rc<MemoryStoreInner>,
    timer: JoinHandle<()>,
}

#[derive(Debug)]
struct MemoryStoreInner {
    state: RefCell<MemoryState>,
    waiters: Waiters<QueueName, Fetcher, Vec<MemoryFetch>>,
    /// Notified when a job may be due earlier than the timer expects.
    timer_changed: Rc<Notify>,
    timer_at: Cell<Option<Timestamp>>,
    closed: Cell<bool>,
    clock: Clock,
}

/// A FETCH that waits.
#[derive(Debug)]
struct Fetcher {
    wid: Option<Wid>,
    max: BatchSize,
}

impl MemoryStore {
    /// Opens an empty store. Must be called in a `LocalSet`.
    #[must_use]
    pub fn open(settings: &JobServerSettings, clock: Clock, metrics: JobsMetrics) -> Self {
        let allocation = Allocation::of_settings(settings);
        let state = MemoryState::new(allocation, settings.limits.clone(), metrics);
        let inner = Rc::new_cyclic(|inner: &Weak<MemoryStoreInner>| {
            let inner = inner.clone();
            let give_back = move |taken: Vec<MemoryFetch>| {
                if let Some(inner) = inner.upgrade() {
                    inner.give_back(&taken);
                }
            };
            MemoryStoreInner {
                state: RefCell::new(state),
                waiters: Waiters::new(give_back),
                timer_changed: Rc::default(),
                timer_at: Cell::new(None),
                closed: Cell::new(false),
                clock,
            }
        });
        let timer = tokio::task::spawn_local(run_timer(Rc::downgrade(&inner)));
        Self { inner, timer }
    }

    /// Processes everything that is due by the clock. The store's timer does so by itself; tests
    /// call it after they move a manual clock.
    pub fn tick(&self) {
        self.inner.tick();
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

/// Processes due jobs, then sleeps until the next one is due, until the store is dropped.
async fn run_timer(inner: Weak<MemoryStoreInner>) {
    loop {
        let Some((sleep, changed)) = inner.upgrade().map(|inner| {
            inner.tick();
            (inner.until_due(), Rc::clone(&inner.timer_changed))
        }) else {
            return;
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            () = changed.notified() => {}
        }
    }
}

impl MemoryStoreInner {
    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.get() { Err(StoreError::Closed) } else { Ok(()) }
    }

    fn tick(&self) {
        if !self.closed.get() {
            let start = self.clock.now();
            let queues = self.state.borrow_mut().tick(start);
            let took = self.clock.now().since(start);
            self.state.borrow().metrics.tasks().passed(took);
            self.offer(&queues);
        }
    }

    fn until_due(&self) -> Duration {
        let due = self.state.borrow().next_due();
        self.timer_at.set(due);
        due.map_or(TIMER_SLEEP_MAX, |at| at.since(self.clock.now()).min(TIMER_SLEEP_MAX))
    }

    /// Wakes the timer if a job is due before its next wake-up.
    fn note_due(&self) {
        let due = self.state.borrow().next_due();
        let is_earlier = |due: Timestamp| self.timer_at.get().is_none_or(|at| due < at);
        if due.is_some_and(is_earlier) {
            self.timer_at.set(due);
            self.timer_changed.notify_one();
        }
    }

    /// Delivers jobs of `queues` to the fetches that wait for them, the longest waiting first. Wakes the timer if the next
    /// job may start, or the reservation of one ends, before its next wake-up.
    fn offer<'a>(&self, queues: impl IntoIterator<Item = &'a QueueName>) {
        // Those that wait for a resource which a job has left come before its queue.
        let freed = self.state.borrow_mut().take_freed();
        serve_in_turn(freed, |queue| self.offer_once(queue));
        for queue in queues {
            while self.offer_once(queue) {}
        }
        self.note_due();
    }

    /// Serves the fetch that has waited longest for `queue`. Returns false if none waits, or if no job may start.
    fn offer_once(&self, queue: &QueueName) -> bool {
        let Some(picked) = self.waiters.pick(queue) else { return false };
        let taken = picked
            .who()
            .map(|(fetcher, queues)| self.take(fetcher.wid.as_ref(), queues, fetcher.max));
        match taken {
            Some(taken) if !taken.is_empty() => {
                picked.serve(taken);
                true
            }
            _ => false,
        }
    }

    /// Stores the callbacks of batches that are due.
    fn run_batches(&self) {
        let queues = self.state.borrow_mut().run_batches(self.clock.now());
        self.offer(&queues);
    }

    fn take(&self, wid: Option<&Wid>, queues: &[QueueName], max: BatchSize) -> Vec<MemoryFetch> {
        let (mut state, now) = (self.state.borrow_mut(), self.clock.now());
        let (mut taken, mut size) = (Vec::new(), BatchSize { jobs: 0, bytes: 0 });
        while !max.is_reached(size)
            && let Some(next) =
                state.take(wid, queues, |queue| self.waiters.waiting_for(queue), now)
        {
            size.jobs += 1;
            size.bytes += next.delivery.json.len();
            taken.push(next);
        }
        taken
    }

    fn give_back(&self, taken: &[MemoryFetch]) {
        let back: Vec<QueueName> = {
            let mut state = self.state.borrow_mut();
            taken.iter().filter_map(|taken| state.put_back(taken)).collect()
        };
        if !self.closed.get() {
            self.offer(&back);
        }
    }

    async fn wait(&self, request: FetchRequest<'_>) -> Result<Vec<MemoryFetch>, StoreError> {
        let fetcher = Fetcher { wid: request.wid.cloned(), max: request.max };
        let waiting = {
            let state = self.state.borrow();
            self.waiters.register_within(&state.limits, &state.metrics, request.queues, fetcher)?
        };
        let taken = tokio::time::timeout(request.wait, waiting).await;
        let mut taken = taken.ok().flatten().unwrap_or_default();
        let state = self.state.borrow();
        taken.retain(|taken| state.is_held(taken));
        Ok(taken)
    }
}

fn deliveries(taken: Vec<MemoryFetch>) -> Vec<Delivery> {
    taken.into_iter().map(|taken| taken.delivery).collect()
}

impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: false,
            both_ends: true,
            scan_aside: false,
            shared: false,
            enterprise: true,
            cron: true,
        }
    }

    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        self.inner.check_open()?;
        let queues = self.inner.state.borrow_mut().push(jobs, self.inner.clock.now())?;
        self.inner.offer(&queues);
        Ok(())
    }

    async fn push_each(&self, jobs: &[NewJob<'_>]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            results.push(self.push(std::slice::from_ref(job)).await);
        }
        results
    }

    async fn are_redundant(&self, jobs: &[NewJob<'_>]) -> Vec<bool> {
        let (state, now) = (self.inner.state.borrow(), self.inner.clock.now());
        jobs.iter().map(|job| state.is_locked(job, now)).collect()
    }

    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        self.inner.check_open()?;
        let queues = self.inner.state.borrow_mut().restore(jobs, self.inner.clock.now())?;
        self.inner.offer(&queues);
        Ok(())
    }

    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError> {
        self.inner.check_open()?;
        let mut taken = self.inner.take(request.wid, request.queues, request.max);
        if taken.is_empty() && !request.wait.is_zero() {
            // A rate may end the wait.
            self.inner.note_due();
            taken = self.inner.wait(request).await?;
        }
        self.inner.note_due();
        Ok(deliveries(taken))
    }

    async fn ack_from(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        self.inner.check_open()?;
        let now = self.inner.clock.now();
        let mut unknown = Vec::new();
        for (place, jid) in jids.iter().enumerate() {
            let freed = self.inner.state.borrow_mut().ack(reporter, jid, now);
            if freed.is_none() {
                unknown.push(place);
            }
            self.inner.offer(&freed);
        }
        self.inner.run_batches();
        Ok(unknown)
    }

    async fn fail_from(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        let fail = |report| {
            self.inner.check_open()?;
            let now = self.inner.clock.now();
            let failed = self.inner.state.borrow_mut().fail(reporter, report, now);
            let (outcome, queue) = failed?;
            self.inner.offer([&queue]);
            Ok(outcome)
        };
        let outcomes = reports.into_iter().map(fail).collect();
        self.inner.run_batches();
        outcomes
    }

    async fn release_until(
        &self,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        self.inner.check_open()?;
        let (last, now) = (mark.last_in(0), self.inner.clock.now());
        let queues = self.inner.state.borrow_mut().release(wid, last, end, now);
        self.inner.offer(&queues);
        Ok(queues.len())
    }

    fn reservation_mark(&self) -> ReservationMark {
        ReservationMark::new([self.inner.state.borrow().last_ticket])
    }

    fn watch_workers(&self, lost: LostWorkers) {
        self.inner.state.borrow_mut().lost_workers = lost;
    }

    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow_mut().extend(jid, until))
    }

    async fn track(&self, jid: &str) -> Result<Option<Track>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow().features.tracks.get(jid).cloned())
    }

    async fn set_track(&self, jid: &str, update: TrackUpdate) -> Result<(), StoreError> {
        self.inner.check_open()?;
        let now = self.inner.clock.now();
        self.inner.state.borrow_mut().features.tracks.update(jid, update, now);
        Ok(())
    }

    async fn batch_new(&self, definition: BatchDefinition) -> Result<BatchId, StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().batch_new(&definition, self.inner.clock.now())
    }

    async fn batch_open(&self, id: BatchId) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().batch_open(id, self.inner.clock.now())
    }

    async fn batch_commit(&self, id: BatchId) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().batch_commit(id, self.inner.clock.now())?;
        self.inner.run_batches();
        Ok(())
    }

    async fn batch_status(&self, id: BatchId) -> Result<BatchStatus, StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow().batch_status(id)
    }

    async fn cron_states(&self) -> Result<CronStates, StoreError> {
        self.inner.check_open()?;
        let by_name = self.inner.state.borrow().features.cron.states().clone();
        Ok(CronStates { now: self.inner.clock.now(), by_name })
    }

    async fn cron_run(
        &self,
        name: &str,
        at: Timestamp,
        job: Option<NewJob<'_>>,
    ) -> Result<CronRunOutcome, StoreError> {
        self.inner.check_open()?;
        let outcome = self.inner.state.borrow().features.cron.outcome_of(name, at, job.is_some());
        if outcome == CronRunOutcome::HandledBefore {
            return Ok(outcome);
        }
        if let Some(job) = job.filter(|_| outcome == CronRunOutcome::Handled) {
            match self.push(std::slice::from_ref(&job)).await {
                Ok(()) | Err(StoreError::NotUnique) => {}
                Err(error) => return Err(error),
            }
        }
        self.inner.state.borrow_mut().features.cron.handled(name, at);
        Ok(outcome)
    }

    async fn cron_pause(&self, name: &str, paused: bool) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().features.cron.pause(name, paused);
        Ok(())
    }

    async fn cron_forget(&self, name: &str) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().features.cron.remove(name);
        Ok(())
    }

    async fn export_batches(
        &self,
        after: Option<BatchId>,
        limit: usize,
    ) -> Result<Vec<ExportedBatch>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow().features.batches.export(after, limit))
    }

    async fn import_batch(&self, batch: ExportedBatch) -> Result<bool, StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().import_batch(batch, self.inner.clock.now())
    }

    async fn export_tracks(
        &self,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow().features.tracks.export(after.as_ref(), limit))
    }

    async fn import_track(&self, jid: &str, track: Track) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().import_track(jid, track);
        Ok(())
    }

    async fn import_cron(&self, name: &str, state: CronState) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().features.cron.set(name, state);
        Ok(())
    }

    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        self.inner.check_open()?;
        let now = self.inner.clock.now();
        let acted = self.inner.state.borrow_mut().act(place, what, action, now);
        self.inner.offer(&acted.queues);
        self.inner.run_batches();
        Ok(acted.jobs)
    }

    async fn move_to(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        self.inner.check_open()?;
        let now = self.inner.clock.now();
        let moved = self.inner.state.borrow_mut().move_to(place, keys, queue, paused, now)?;
        self.inner.offer(&moved.queues);
        Ok(moved.jobs)
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow().scan(&request))
    }

    async fn sample(&self, place: &JobLocation, count: usize) -> Result<Sample, StoreError> {
        self.inner.check_open()?;
        Ok(Sample { jobs: self.inner.state.borrow_mut().sample(place, count), missing: None })
    }

    async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.state.borrow().find(jid).into())
    }

    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        self.inner.check_open()?;
        let act = |name: &QueueName| self.inner.state.borrow_mut().act_on_queue(name, action);
        let gone = queues.iter().map(act).sum();
        self.inner.offer(queues);
        self.inner.run_batches();
        Ok(gone)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.inner.check_open()?;
        self.inner.state.borrow_mut().flush();
        Ok(())
    }

    async fn counts(&self) -> Counts {
        let fetches_waiting = self.inner.waiters.len() as u64;
        let now = self.inner.clock.now();
        Counts { fetches_waiting, ..self.inner.state.borrow_mut().counts(now) }
    }

    async fn reservations(&self, limit: usize) -> Vec<Reserved> {
        self.inner.state.borrow().reservations(limit)
    }

    fn busy(&self, wid: &Wid) -> u64 {
        self.inner.state.borrow().busy(wid)
    }

    fn limit_states(&self, tenants_max: usize) -> LimitStates {
        let now = self.inner.clock.now();
        self.inner.state.borrow_mut().limit_states(now, tenants_max)
    }

    fn waiting_bytes(&self, queue: &str) -> Option<u64> {
        self.inner.state.borrow().waiting_bytes(queue)
    }

    fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
        self.inner.state.borrow().tenant_depth(queue, json)
    }

    fn depth(&self, queue: &str) -> Option<u64> {
        Some(self.inner.state.borrow().depth(queue))
    }

    async fn storage(&self) -> Storage {
        let bytes = self.inner.state.borrow().bytes as u64;
        Storage { kind: "memory", bytes, condition: StoreCondition::Ok, ..Storage::default() }
    }

    fn damages(&self) -> Vec<Damage> {
        Vec::new()
    }

    async fn acknowledge_damages(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn allocate(&self, allocation: Allocation) {
        let queues = self.inner.state.borrow_mut().allocate(allocation);
        self.inner.offer(&queues);
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.closed.set(true);
        self.inner.waiters.dismiss();
        Ok(())
    }
}
