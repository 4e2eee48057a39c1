//! The embedded store: the engine, the tasks that wait for its results, and the thread that syncs
//! its log.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_log::{Damage, Disk, RealDisk, RecoveryReport};

use super::core::{Engine, EngineError, EngineOpenError};
use super::due::NextCall;
use super::inner::{BatchedJob, EngineShared, Fetcher, Refusals};
use super::limited::ExtendOutcome;
use super::push::Arrival;
use super::scan::{ScanOutcome, ScanWalk};
use crate::allocation::Allocation;
use crate::batches::{BatchDefinition, BatchStatus, ExportedBatch};
use crate::cron::{CronRunOutcome, CronState, CronStates};
use crate::custom::BatchId;
use crate::metrics::{
    EMBEDDED_SHARD, EMBEDDED_TIMED_OF, JobsMetrics, StoreMetrics, StoreOperation,
};
use crate::model::{
    Delivery, EntryKey, FailureReport, JobLocation, NewJob, QueueName, Wid, WorkerEnd,
};
use crate::settings::JobServerSettings;
use crate::store::limit_states::LimitStates;
use crate::store::{
    Action, BackupPoint, Capabilities, Counts, FailOutcome, FetchRequest, Filter, FindOutcome,
    LostWorkers, QueueAction, ReservationMark, Reserved, Restored, Sample, ScanPage, ScanRequest,
    Selection, Storage, Store, StoreError, TenantDepth,
};

use crate::tracks::{Track, TrackUpdate};

/// Maximum number of stops of a scan that are read on the serving thread; longer scans are read on
/// a thread of their own.
const READ_ASIDE_STOPS: usize = 64;

/// A store in the segment log. It lives on the thread that serves the connections, in a `LocalSet`.
#[derive(Debug)]
pub struct EmbeddedStore<D: Disk = RealDisk> {
    inner: Rc<EngineShared<D>>,
    measured: StoreMetrics,
    tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl EmbeddedStore<RealDisk> {
    /// Opens the log in `settings.directory`, which is created if it is missing, and rebuilds the
    /// state in memory. Must be called in a `LocalSet`.
    pub fn open(
        settings: &JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> Result<(Self, RecoveryReport), EngineOpenError> {
        let disk = RealDisk::new(&settings.directory).map_err(EngineOpenError::Directory)?;
        Self::open_on(disk, settings, clock, metrics)
    }
}

impl<D: Disk> EmbeddedStore<D> {
    /// Like [`EmbeddedStore::open`], on any disk.
    pub fn open_on(
        disk: D,
        settings: &JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> Result<(Self, RecoveryReport), EngineOpenError> {
        let measured = metrics.store(EMBEDDED_SHARD, EMBEDDED_TIMED_OF);
        let (inner, report) = EngineShared::open(disk, settings, clock, metrics)?;
        let tasks = RefCell::new(EngineShared::spawn_tasks(&inner));
        Ok((Self { inner, measured, tasks }, report))
    }

    /// Processes everything that is due by the clock. The store's timer does so by itself; tests
    /// call it after they move a manual clock.
    pub async fn tick(&self) -> Result<(), StoreError> {
        while self.inner.tick().await? == NextCall::Now {}
        Ok(())
    }
}

impl<D: Disk> EmbeddedStore<D> {
    /// Stores all `jobs` or none.
    async fn store_all(&self, jobs: &[impl Arrival]) -> Result<(), StoreError> {
        let stored = self.store_batch(jobs, Refusals::Stop).await?;
        self.inner.promise_of_push(&stored).await
    }

    /// Stores each job that is not refused on its own account, or none.
    async fn store_each(&self, jobs: &[NewJob<'_>]) -> Vec<Result<(), StoreError>> {
        let stored = match self.store_batch(jobs, Refusals::Continue).await {
            Ok(stored) => stored,
            Err(error) => return vec![Err(error); jobs.len()],
        };
        let promised = self.inner.promise_of_push(&stored).await;
        let result = |job| match job {
            BatchedJob::Stored(..) => promised.clone(),
            BatchedJob::Refused(error) => Err(error),
        };
        stored.into_iter().map(result).collect()
    }

    async fn store_batch(
        &self,
        jobs: &[impl Arrival],
        refusals: Refusals,
    ) -> Result<Vec<BatchedJob>, StoreError> {
        let inner = &*self.inner;
        let mut stored = Vec::with_capacity(jobs.len());
        while stored.len() < jobs.len() {
            match inner.store_jobs(jobs, refusals, &mut stored) {
                Ok(()) => {}
                Err(EngineError::Behind) => inner.room().await?,
                Err(EngineError::Store(error)) => {
                    inner.take_back(&stored);
                    return Err(error);
                }
            }
        }
        Ok(stored)
    }

    async fn ack_all(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        let inner = &*self.inner;
        let (mut unknown, mut ends_logged) = (Vec::new(), false);
        for (place, jid) in jids.iter().enumerate() {
            let acked = inner.retrying(|engine, now| engine.ack(reporter, jid, now)).await?;
            if acked.is_none() {
                unknown.push(place);
            }
            ends_logged |= acked.is_some_and(|acked| acked.was_logged);
            inner.offer_numbered(acked.map(|acked| acked.queue));
        }
        if ends_logged {
            // After a crash, a lost ACK would count against the limit until the end of the lease.
            inner.promise().await?;
        } else {
            inner.promise_of_ack().await?;
        }
        Ok(unknown)
    }

    async fn fail_each(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        let inner = &*self.inner;
        let mut outcomes = Vec::with_capacity(reports.len());
        for report in reports {
            let fail = |engine: &mut Engine<D>, now| engine.fail(reporter, report.clone(), now);
            let failed = inner.retrying(fail).await;
            outcomes.push(failed.map(|(outcome, queue)| {
                inner.offer_numbered([queue]);
                outcome
            }));
        }
        // A job that could not be read has left a free slot.
        inner.rearm();
        if outcomes.iter().any(Result::is_ok)
            && let Err(error) = inner.promise().await
        {
            let ended = outcomes.iter_mut().filter(|outcome| outcome.is_ok());
            ended.for_each(|outcome| *outcome = Err(error.clone()));
        }
        outcomes
    }
}

impl<D: Disk> Drop for EmbeddedStore<D> {
    fn drop(&mut self) {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }
}

impl<D: Disk> Store for EmbeddedStore<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            both_ends: true,
            scan_aside: true,
            shared: false,
            enterprise: true,
            cron: true,
        }
    }

    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        self.measured.timed(StoreOperation::Push, self.store_all(jobs)).await
    }

    async fn push_each(&self, jobs: &[NewJob<'_>]) -> Vec<Result<(), StoreError>> {
        self.measured.timed(StoreOperation::Push, self.store_each(jobs)).await
    }

    async fn are_redundant(&self, jobs: &[NewJob<'_>]) -> Vec<bool> {
        let (mut engine, now) = (self.inner.engine.borrow_mut(), self.inner.clock.now());
        jobs.iter().map(|job| engine.is_locked(job, now)).collect()
    }

    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        let work = async {
            self.store_all(jobs).await?;
            self.inner.retrying(|engine, _| engine.trim_dead()).await
        };
        self.measured.timed(StoreOperation::Push, work).await
    }

    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError> {
        let inner = &*self.inner;
        inner.check_open()?;
        let now = inner.clock.now();
        let timer = self.measured.begin(StoreOperation::Fetch);
        let taken = inner.take(request.wid, request.queues, request.max, now);
        self.measured.end(StoreOperation::Fetch, timer);
        let taken = taken?;
        if !taken.is_empty() || request.wait.is_zero() {
            return inner.deliver(taken).await;
        }
        let fetcher = Fetcher { wid: request.wid.cloned(), max: request.max };
        let waiting = inner.waiters.register_within(
            &inner.engine.borrow().settings.limits,
            &inner.metrics,
            request.queues,
            fetcher,
        )?;
        match tokio::time::timeout(request.wait, waiting).await {
            Ok(Some(taken)) => inner.deliver(inner.without_ended(taken)).await,
            Ok(None) | Err(_) => Ok(Vec::new()),
        }
    }

    async fn ack_from(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        self.measured.timed(StoreOperation::Ack, self.ack_all(reporter, jids)).await
    }

    async fn fail_from(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        self.measured.timed(StoreOperation::Fail, self.fail_each(reporter, reports)).await
    }

    async fn release_until(
        &self,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        let work = async {
            let inner = &*self.inner;
            inner.check_open()?;
            let held = inner.engine.borrow().held_until(wid, mark.last_in(0));
            let (mut queues, mut failed) = (Vec::new(), None);
            for (jid, ticket) in held {
                let release =
                    |engine: &mut Engine<D>, now| engine.release_job(&jid, ticket, end, now);
                match inner.retrying(release).await {
                    Ok(queue) => queues.extend(queue),
                    // A job that can't be made dead now keeps no other one.
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            let released = queues.len();
            // Offer the jobs only now: a FETCH of the vanished worker that still waits must not receive
            // them.
            inner.offer_numbered(queues);
            if let Some(error) = failed {
                return Err(error);
            }
            inner.promise().await?;
            Ok(released)
        };
        self.measured.timed(StoreOperation::Release, work).await
    }

    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError> {
        let extended = self.inner.retrying(|engine, _| engine.extend(jid, until)).await?;
        if extended == ExtendOutcome::InLog {
            self.inner.promise().await?;
        }
        Ok(extended != ExtendOutcome::Unknown)
    }

    async fn track(&self, jid: &str) -> Result<Option<Track>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.engine.borrow().state.features.tracks.get(jid).cloned())
    }

    async fn set_track(&self, jid: &str, update: TrackUpdate) -> Result<(), StoreError> {
        self.inner.check_open()?;
        let now = self.inner.clock.now();
        self.inner.engine.borrow_mut().update_track(jid, update, now);
        self.inner.promise_of_ack().await
    }

    async fn batch_new(&self, definition: BatchDefinition) -> Result<BatchId, StoreError> {
        let new = |engine: &mut Engine<D>, now| engine.batch_new(&definition, now);
        let id = self.inner.retrying(new).await?;
        self.inner.promise().await?;
        Ok(id)
    }

    async fn batch_open(&self, id: BatchId) -> Result<(), StoreError> {
        self.inner.retrying(|engine, now| engine.batch_open(id, now)).await?;
        self.inner.promise().await
    }

    async fn batch_commit(&self, id: BatchId) -> Result<(), StoreError> {
        self.inner.retrying(|engine, now| engine.batch_commit(id, now)).await?;
        self.inner.promise().await
    }

    async fn batch_status(&self, id: BatchId) -> Result<BatchStatus, StoreError> {
        self.inner.check_open()?;
        let status = self.inner.engine.borrow().state.features.batches.status(id);
        status.ok_or(StoreError::NoSuchBatch(id))
    }

    async fn cron_states(&self) -> Result<CronStates, StoreError> {
        self.inner.check_open()?;
        let by_name = self.inner.engine.borrow().state.features.cron.states().clone();
        Ok(CronStates { now: self.inner.clock.now(), by_name })
    }

    async fn cron_run(
        &self,
        name: &str,
        at: Timestamp,
        job: Option<NewJob<'_>>,
    ) -> Result<CronRunOutcome, StoreError> {
        let run = |engine: &mut Engine<D>, now| engine.cron_run(name, at, job.as_ref(), now);
        let outcome = self.inner.retrying(run).await?;
        self.inner.promise().await?;
        Ok(outcome)
    }

    async fn cron_pause(&self, name: &str, paused: bool) -> Result<(), StoreError> {
        self.inner.retrying(|engine, _| engine.cron_pause(name, paused)).await?;
        self.inner.promise().await
    }

    async fn cron_forget(&self, name: &str) -> Result<(), StoreError> {
        self.inner.retrying(|engine, _| engine.cron_forget(name)).await?;
        self.inner.promise().await
    }

    async fn export_batches(
        &self,
        after: Option<BatchId>,
        limit: usize,
    ) -> Result<Vec<ExportedBatch>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.engine.borrow().state.features.batches.export(after, limit))
    }

    async fn import_batch(&self, batch: ExportedBatch) -> Result<bool, StoreError> {
        let import = |engine: &mut Engine<D>, now| engine.import_batch(&batch, now);
        let is_new = self.inner.retrying(import).await?;
        self.inner.promise().await?;
        Ok(is_new)
    }

    async fn export_tracks(
        &self,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        self.inner.check_open()?;
        Ok(self.inner.engine.borrow().state.features.tracks.export(after.as_ref(), limit))
    }

    async fn import_track(&self, jid: &str, track: Track) -> Result<(), StoreError> {
        self.inner.retrying(|engine, _| engine.import_track(jid, &track)).await?;
        self.inner.promise().await
    }

    async fn import_cron(&self, name: &str, state: CronState) -> Result<(), StoreError> {
        self.inner.retrying(|engine, _| engine.import_cron(name, &state)).await?;
        self.inner.promise().await
    }

    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        let work = async {
            let count = match (what, place, action) {
                (Selection::All, JobLocation::Set(set), Action::Discard) => {
                    self.inner.retrying(|engine, _| engine.clear_set(*set)).await?
                }
                (Selection::All, JobLocation::Queue(name), Action::Discard) => {
                    let clear = QueueAction::Clear;
                    self.inner
                        .retrying(|engine, _| engine.act_on_queue(name.as_str(), clear))
                        .await?
                }
                (Selection::All, _, _) => self.inner.act_on_all(place, action).await?,
                (Selection::Entries(keys), _, _) => {
                    self.inner.act_on_entries(place, keys, action).await?
                }
            };
            self.inner.promise().await?;
            Ok(count)
        };
        self.measured.timed(StoreOperation::Act, work).await
    }

    async fn move_to(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        let work = async {
            let count = self.inner.move_entries(place, keys, queue, paused).await?;
            self.inner.promise().await?;
            Ok(count)
        };
        self.measured.timed(StoreOperation::Act, work).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError> {
        let work = async {
            let walk = self.inner.walk(&request);
            if walk.stops.len() > READ_ASIDE_STOPS {
                let aside = tokio::task::spawn_blocking(|| walk.read()).await;
                let read = aside.map_err(|error| {
                    StoreError::Failed(format!("the search ended early: {error}"))
                })?;
                if let Some(found) = read {
                    return self.inner.page(found);
                }
            }
            // On this thread no record can move in the meantime.
            self.inner.page(self.inner.walk(&request).read().unwrap_or_default())
        };
        self.measured.timed(StoreOperation::Scan, work).await
    }

    async fn sample(&self, place: &JobLocation, count: usize) -> Result<Sample, StoreError> {
        let work = async {
            self.inner.check_open()?;
            let walk = self.inner.drawn(place, count);
            let aside = tokio::task::spawn_blocking(|| walk.read()).await;
            let read = aside
                .map_err(|error| StoreError::Failed(format!("the search ended early: {error}")))?;
            // A record was moved in the meantime: these draws are repeated with the next call.
            let page = self.inner.page(read.unwrap_or_default())?;
            Ok(Sample { jobs: page.jobs, missing: None })
        };
        self.measured.timed(StoreOperation::Scan, work).await
    }

    async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError> {
        let timer = self.measured.begin(StoreOperation::Find);
        let found = self.inner.engine.borrow().find_job(jid);
        self.measured.end(StoreOperation::Find, timer);
        Ok(found.into())
    }

    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        let work = async {
            let mut count = 0;
            for name in queues {
                let act = |engine: &mut Engine<D>, _| engine.act_on_queue(name.as_str(), action);
                count += self.inner.retrying(act).await?;
                if action == QueueAction::Resume {
                    self.inner.offer(name);
                }
            }
            self.inner.promise().await?;
            Ok(count)
        };
        self.measured.timed(StoreOperation::Act, work).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.inner.retrying(|engine, _| engine.flush()).await?;
        self.inner.promise().await
    }

    async fn counts(&self) -> Counts {
        let fetches_waiting = self.inner.waiters.len() as u64;
        let now = self.inner.clock.now();
        Counts { fetches_waiting, ..self.inner.engine.borrow_mut().counts(now) }
    }

    async fn reservations(&self, limit: usize) -> Vec<Reserved> {
        self.inner.engine.borrow().reservations(limit)
    }

    fn busy(&self, wid: &Wid) -> u64 {
        self.inner.engine.borrow().state.reserved.busy(wid)
    }

    fn reservation_mark(&self) -> ReservationMark {
        ReservationMark::new([self.inner.engine.borrow().state.reserved.last_ticket()])
    }

    fn watch_workers(&self, lost: LostWorkers) {
        self.inner.engine.borrow_mut().lost_workers = lost;
    }

    fn limit_states(&self, tenants_max: usize) -> LimitStates {
        let now = self.inner.clock.now();
        self.inner.engine.borrow_mut().limit_states(now, tenants_max)
    }

    fn waiting_bytes(&self, queue: &str) -> Option<u64> {
        self.inner.engine.borrow().waiting_bytes(queue)
    }

    fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
        self.inner.engine.borrow().tenant_depth(queue, json)
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.inner.engine.borrow_mut().journal.bytes())
    }

    fn depth(&self, queue: &str) -> Option<u64> {
        Some(self.inner.engine.borrow().depth(queue))
    }

    async fn storage(&self) -> Storage {
        self.inner.storage()
    }

    fn damages(&self) -> Vec<Damage> {
        self.inner.engine.borrow().journal.log.damages().list()
    }

    async fn acknowledge_damages(&self) -> Result<u64, StoreError> {
        let damages = self.inner.engine.borrow().journal.log.damages();
        let acknowledged = tokio::task::spawn_blocking(move || damages.acknowledge()).await;
        acknowledged
            .map_err(|error| StoreError::Failed(format!("it ended early: {error}")))?
            .map_err(|error| StoreError::Failed(format!("the damage stays listed: {error}")))
    }

    async fn backup_point(&self) -> Result<BackupPoint, StoreError> {
        self.inner.backup_point().await
    }

    fn allocate(&self, allocation: Allocation) {
        let mut names: Vec<QueueName> = allocation.queues.keys().cloned().collect();
        let mut engine = self.inner.engine.borrow_mut();
        let without_rules = |name: &&QueueName| !allocation.queues.contains_key(*name);
        names.extend(engine.allocation.queues.keys().filter(without_rules).cloned());
        if !allocation.resources.of.is_empty() || !engine.state.resources.is_empty() {
            // Jobs of any queue may use them.
            names = engine.state.queues.iter().map(|(_, queue)| queue.name.clone()).collect();
        }
        engine.allocate(allocation);
        drop(engine);
        // Changed lanes are filled by the timer.
        self.inner.rearm();
        // A limit that was raised or removed may allow waiting jobs to run.
        for name in &names {
            self.inner.offer(name);
        }
    }

    async fn close(&self) -> Result<(), StoreError> {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        self.inner.close()
    }
}

impl<D: Disk> EngineShared<D> {
    fn walk(&self, request: &ScanRequest) -> ScanWalk<D> {
        let engine = self.engine.borrow();
        let mut stops = engine.stops(request);
        let more = stops.len() > request.scan_max;
        stops.truncate(request.scan_max);
        ScanWalk {
            reader: engine.journal.reader.clone(),
            stops: stops.into_iter().map(|stop| engine.named(stop)).collect(),
            filter: request.filter.clone(),
            after: request.after.clone(),
            limit: request.limit,
            more,
        }
    }

    /// Returns a walk through jobs that are drawn at random.
    fn drawn(&self, place: &JobLocation, count: usize) -> ScanWalk<D> {
        let mut engine = self.engine.borrow_mut();
        let stops = engine.draw(place, count);
        ScanWalk {
            reader: engine.journal.reader.clone(),
            stops: stops.into_iter().map(|stop| engine.named(stop)).collect(),
            filter: Filter::default(),
            after: None,
            limit: usize::MAX,
            more: false,
        }
    }

    /// Drops the jobs that can't be read and returns the page.
    fn page(&self, found: ScanOutcome) -> Result<ScanPage, StoreError> {
        let mut engine = self.engine.borrow_mut();
        for (stop, error) in &found.unreadable {
            engine.drop_stop(stop, error)?;
        }
        Ok(found.page)
    }
}
