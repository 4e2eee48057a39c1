//! The store as the job server knows it.

use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_jobs::allocation::Allocation;
use weir_jobs::batches::{BatchDefinition, BatchStatus, ExportedBatch};
use weir_jobs::cron::{CronRunOutcome, CronState, CronStates};
use weir_jobs::custom::BatchId;
use weir_jobs::metrics::{JobsMetrics, StoreOperation};
use weir_jobs::model::{
    Delivery, EntryKey, FailureReport, JobLocation, NewJob, QueueName, Wid, WorkerDirective,
    WorkerEnd,
};
use weir_jobs::node::NodeReport;
use weir_jobs::settings::JobServerSettings;
use weir_jobs::store::{
    Action, AnyStore, Capabilities, Counts, Damage, FailOutcome, FetchRequest, FindOutcome,
    LocalBoxFuture, LostWorkers, OpenStore, QueueAction, QueueTraffic, ReservationMark, Reserved,
    Restored, Sample, ScanPage, ScanRequest, Selection, Storage, Store, StoreError, StoreOpenError,
    WorkerReport, store_parts,
};
use weir_jobs::tracks::{Track, TrackUpdate};

use super::inspection::NO_RESOURCES_IN_CLUSTER;
use super::{RedisStore, RedisStoreOptions};

impl OpenStore for RedisStoreOptions {
    fn open(
        self: Box<Self>,
        settings: JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> LocalBoxFuture<'static, Result<AnyStore, StoreOpenError>> {
        Box::pin(async move {
            let opened = RedisStore::open(&self, &settings, clock, metrics);
            let unreadable = |error| {
                let file = self.node_file.display();
                StoreOpenError(format!("{file}: {error}; it holds the name of this node"))
            };
            let store = opened.map_err(unreadable)?;
            store.check_layout().await?;
            Ok(AnyStore::new(store))
        })
    }
}

impl RedisStore {
    /// Connects and checks that this version knows the layout of Weir's keys in Redis, and that this
    /// Redis can confirm pushes as the settings ask. A Redis that is away is no error: the store tries
    /// again with each operation.
    ///
    /// # Errors
    /// Returns an error if a later version has changed the layout, if Redis lacks `WAITAOF`, or if it is a cluster
    /// and there are shared resources.
    pub async fn check_layout(&self) -> Result<(), StoreOpenError> {
        let Ok(mut connection) = self.core.link.connection().await else { return Ok(()) };
        if let Ok(Some(text)) = self.core.layout_error(&mut connection).await {
            return Err(StoreOpenError(text));
        }
        let has_resources = !self.core.state.borrow().allocation.resources.of.is_empty();
        if has_resources && self.core.is_split() {
            return Err(StoreOpenError(NO_RESOURCES_IN_CLUSTER.to_owned()));
        }
        match self.core.confirmed.lasting_refusal(&mut connection).await {
            Some(text) => Err(StoreOpenError(format!("Redis can't confirm pushes: {text}"))),
            None => Ok(()),
        }
    }
}

impl RedisStore {
    /// Measures an operation. That of a FETCH is measured without its wait, where it is served.
    async fn timed<T>(&self, operation: StoreOperation, work: impl Future<Output = T>) -> T {
        self.core.measured.timed(operation, work).await
    }
}

impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            both_ends: true,
            scan_aside: true,
            shared: true,
            enterprise: self.core.keeps_features(),
            cron: true,
        }
    }

    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        self.timed(StoreOperation::Push, self.core.push(jobs)).await
    }

    async fn push_each(&self, jobs: &[NewJob<'_>]) -> Vec<Result<(), StoreError>> {
        let in_parts =
            || store_parts(jobs, StoreError::is_of_one_job, async |part| self.push(part).await);
        let is_plain = |job: &NewJob<'_>| job.custom.unique.is_none() && job.custom.batch.is_none();
        if jobs.iter().all(is_plain) {
            return in_parts().await;
        }
        match self.timed(StoreOperation::Push, self.core.push_each(jobs)).await {
            Ok(results) => results,
            Err(error) if error.is_of_one_job() => in_parts().await,
            Err(error) => vec![Err(error); jobs.len()],
        }
    }

    async fn are_redundant(&self, jobs: &[NewJob<'_>]) -> Vec<bool> {
        let none = |_| vec![false; jobs.len()];
        let known = self.core.known_pushes(jobs).await.unwrap_or_else(none);
        let locked = self.core.locked_jobs(jobs).await.unwrap_or_else(none);
        known.into_iter().zip(locked).map(|(known, locked)| known || locked).collect()
    }

    async fn batch_new(&self, definition: BatchDefinition) -> Result<BatchId, StoreError> {
        self.core.batch_new(definition).await
    }

    async fn batch_open(&self, id: BatchId) -> Result<(), StoreError> {
        self.core.batch_open(id).await
    }

    async fn batch_commit(&self, id: BatchId) -> Result<(), StoreError> {
        self.core.batch_commit(id).await
    }

    async fn batch_status(&self, id: BatchId) -> Result<BatchStatus, StoreError> {
        self.core.batch_status(id).await
    }

    async fn export_batches(
        &self,
        after: Option<BatchId>,
        limit: usize,
    ) -> Result<Vec<ExportedBatch>, StoreError> {
        self.core.export_batches(after, limit).await
    }

    async fn import_batch(&self, batch: ExportedBatch) -> Result<bool, StoreError> {
        self.core.import_batch(&batch).await
    }

    fn traffic(&self, queue: &str) -> QueueTraffic {
        self.core.traffic(queue)
    }

    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        self.timed(StoreOperation::Push, self.core.restore(jobs)).await
    }

    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError> {
        self.core.fetch(request).await
    }

    async fn ack_from(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        self.timed(StoreOperation::Ack, self.core.ack(reporter, jids)).await
    }

    async fn fail_from(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        self.timed(StoreOperation::Fail, self.core.fail_all(reporter, reports)).await
    }

    async fn release_until(
        &self,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        let last = mark.last_in(0);
        self.timed(StoreOperation::Release, self.core.release(wid, last, end)).await
    }

    fn reservation_mark(&self) -> ReservationMark {
        ReservationMark::new([self.core.state.borrow().reservations.last_arrival()])
    }

    fn watch_workers(&self, lost: LostWorkers) {
        self.core.state.borrow_mut().lost_workers = lost;
    }

    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError> {
        self.core.check_open()?;
        let mut state = self.core.state.borrow_mut();
        let number = state.reservations.with_jid(jid).next();
        number.iter().for_each(|number| state.reservations.extend(*number, until));
        Ok(number.is_some())
    }

    async fn track(&self, jid: &str) -> Result<Option<Track>, StoreError> {
        self.core.track(jid).await
    }

    async fn set_track(&self, jid: &str, update: TrackUpdate) -> Result<(), StoreError> {
        self.core.set_track(jid, update).await
    }

    async fn export_tracks(
        &self,
        after: Option<(Timestamp, Box<str>)>,
        limit: usize,
    ) -> Result<Vec<(Box<str>, Track)>, StoreError> {
        self.core.export_tracks(after, limit).await
    }

    async fn import_track(&self, jid: &str, track: Track) -> Result<(), StoreError> {
        self.core.import_track(jid, track).await
    }

    async fn cron_states(&self) -> Result<CronStates, StoreError> {
        self.core.cron_register(&[]).await
    }

    async fn cron_register(&self, names: &[&str]) -> Result<CronStates, StoreError> {
        self.core.cron_register(names).await
    }

    async fn cron_run(
        &self,
        name: &str,
        at: Timestamp,
        job: Option<NewJob<'_>>,
    ) -> Result<CronRunOutcome, StoreError> {
        self.timed(StoreOperation::Push, self.core.cron_run(name, at, job)).await
    }

    async fn cron_pause(&self, name: &str, paused: bool) -> Result<(), StoreError> {
        self.core.cron_set(name, None, paused).await
    }

    async fn cron_forget(&self, name: &str) -> Result<(), StoreError> {
        self.core.cron_forget(name).await
    }

    async fn import_cron(&self, name: &str, state: CronState) -> Result<(), StoreError> {
        self.core.cron_set(name, Some(state.last), state.paused).await
    }

    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        self.timed(StoreOperation::Act, self.core.act(place, what, action)).await
    }

    async fn move_to(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        self.timed(StoreOperation::Act, self.core.move_to(place, keys, queue, paused)).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError> {
        self.timed(StoreOperation::Scan, self.core.scan(&request)).await
    }

    async fn sample(&self, place: &JobLocation, count: usize) -> Result<Sample, StoreError> {
        let jobs = self.timed(StoreOperation::Scan, self.core.sample(place, count)).await?;
        Ok(Sample { jobs, missing: None })
    }

    async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError> {
        self.timed(StoreOperation::Find, self.core.find(jid)).await
    }

    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        self.timed(StoreOperation::Act, self.core.act_on_queues(queues, action)).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.core.flush().await
    }

    async fn counts(&self) -> Counts {
        self.timed(StoreOperation::Count, self.core.counts()).await
    }

    async fn reservations(&self, limit: usize) -> Vec<Reserved> {
        self.core.reservations(limit).await
    }

    fn busy(&self, wid: &Wid) -> u64 {
        self.core.state.borrow().reservations.busy(wid)
    }

    async fn storage(&self) -> Storage {
        self.core.storage().await
    }

    fn damages(&self) -> Vec<Damage> {
        Vec::new()
    }

    async fn acknowledge_damages(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn exchange_reports(
        &self,
        node: NodeReport,
        workers: Vec<WorkerReport>,
    ) -> Vec<(Wid, WorkerDirective)> {
        // What is missed now is reported with the next call.
        self.core.exchange_reports(node, workers).await.unwrap_or_default()
    }

    async fn exchange_beats(
        &self,
        received: &[(Wid, Duration)],
        overdue: &[Wid],
    ) -> Result<Vec<(Wid, Duration)>, StoreError> {
        self.core.exchange_beats(received, overdue).await
    }

    fn allocate(&self, allocation: Allocation) {
        let mut state = self.core.state.borrow_mut();
        let old = std::mem::replace(&mut state.allocation, allocation.clone());
        state.dispatcher.retain(&old, &allocation);
        state.sleeping.clear();
        state.allocations += 1;
        state.has_counted_running = false;
        state.has_unlimited |= old.resources != allocation.resources;
        self.core.work_arrived.notify_one();
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.core.waiting.dismiss();
        // Acknowledged jobs are in Redis already. Otherwise the reservations return when the
        // lease is over, and the counters of the last seconds are missing.
        if let Err(error) = self.core.deregister().await {
            tracing::warn!(%error, "Redis can't be told that this node stops");
        }
        self.core.closed.set(true);
        Ok(())
    }
}
