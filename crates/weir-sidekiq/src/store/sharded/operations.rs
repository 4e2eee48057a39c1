//! The sharded store as the job server knows it.

use std::time::Duration;

use futures_util::future::join_all;
use weir_base::clock::{Clock, Timestamp};
use weir_jobs::allocation::Allocation;
use weir_jobs::batches::{BatchDefinition, BatchStatus, ExportedBatch};
use weir_jobs::custom::BatchId;
use weir_jobs::metrics::JobsMetrics;
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
    WorkerReport,
};
use weir_jobs::tracks::{Track, TrackUpdate};

use super::{Shard, ShardedStore, ShardedStoreOptions};
use crate::store::unsupported::{NO_BATCHES, check_supported};

impl OpenStore for ShardedStoreOptions {
    fn open(
        self: Box<Self>,
        settings: JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> LocalBoxFuture<'static, Result<AnyStore, StoreOpenError>> {
        Box::pin(async move {
            let opened = ShardedStore::open(&self, &settings, clock, metrics);
            let unreadable = |error| {
                let file = self.node_file.display();
                StoreOpenError(format!("{file}: {error}; it holds the name of this node"))
            };
            let store = opened.map_err(unreadable)?;
            store.check_layouts().await?;
            Ok(AnyStore::new(store))
        })
    }
}

impl ShardedStore {
    /// Connects to all shards and checks that this version knows the layout of Weir's keys there, and
    /// that no two of them are the same database. A shard that is away is no error.
    ///
    /// # Errors
    /// Returns an error if a later version has changed the layout, or for a database with two names.
    pub async fn check_layouts(&self) -> Result<(), StoreOpenError> {
        let shards = &self.core.shards;
        let checks = join_all(shards.iter().map(|shard| shard.store.check_layout())).await;
        for (shard, check) in shards.iter().zip(checks) {
            check.map_err(|StoreOpenError(text)| {
                StoreOpenError(format!("shard {}: {text}", shard.name))
            })?;
        }
        let identities = join_all(shards.iter().map(Shard::identity)).await;
        for (place, identity) in identities.iter().enumerate() {
            let twin = identities[..place].iter().position(|it| it.is_some() && it == identity);
            if let Some(twin) = twin {
                let (one, other) = (&shards[twin].name, &shards[place].name);
                return Err(StoreOpenError(format!(
                    "the shards {one} and {other} of jobs.store are the same database of one Redis: \
                     remove one"
                )));
            }
        }
        Ok(())
    }
}

impl Store for ShardedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            both_ends: true,
            scan_aside: true,
            shared: true,
            enterprise: false,
            cron: false,
        }
    }

    async fn push(&self, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        check_supported(jobs)?;
        self.core.add(jobs).await
    }

    async fn are_redundant(&self, jobs: &[NewJob<'_>]) -> Vec<bool> {
        let known = self.core.on_all(async |shard| shard.core().known_pushes(jobs).await).await;
        let is_known = |place: usize| known.done.iter().any(|(_, known)| known[place]);
        (0..jobs.len()).map(is_known).collect()
    }

    async fn batch_new(&self, _definition: BatchDefinition) -> Result<BatchId, StoreError> {
        Err(NO_BATCHES)
    }

    async fn batch_open(&self, _id: BatchId) -> Result<(), StoreError> {
        Err(NO_BATCHES)
    }

    async fn batch_commit(&self, _id: BatchId) -> Result<(), StoreError> {
        Err(NO_BATCHES)
    }

    async fn batch_status(&self, _id: BatchId) -> Result<BatchStatus, StoreError> {
        Err(NO_BATCHES)
    }

    async fn import_batch(&self, _batch: ExportedBatch) -> Result<bool, StoreError> {
        Err(NO_BATCHES)
    }

    fn traffic(&self, queue: &str) -> QueueTraffic {
        let traffic = self.core.shards.iter().map(|shard| shard.core().traffic(queue));
        traffic.fold(QueueTraffic::default(), |sum, of_shard| QueueTraffic {
            added: sum.added + of_shard.added,
            taken: sum.taken + of_shard.taken,
        })
    }

    async fn restore(&self, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        self.core.add(jobs).await
    }

    async fn fetch(&self, request: FetchRequest<'_>) -> Result<Vec<Delivery>, StoreError> {
        self.core.fetch(request).await
    }

    async fn ack_from(
        &self,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        self.core.ack(reporter, jids).await
    }

    async fn fail_from(
        &self,
        reporter: Option<&Wid>,
        reports: Vec<FailureReport>,
    ) -> Vec<Result<FailOutcome, StoreError>> {
        self.core.fail_all(reporter, reports).await
    }

    async fn release_until(
        &self,
        wid: &Wid,
        mark: &ReservationMark,
        end: WorkerEnd,
    ) -> Result<usize, StoreError> {
        self.core.release(wid, mark, end).await
    }

    fn reservation_mark(&self) -> ReservationMark {
        let shards = self.core.shards.iter();
        ReservationMark::new(shards.map(|it| it.core().state.borrow().reservations.last_arrival()))
    }

    fn watch_workers(&self, lost: LostWorkers) {
        for shard in &self.core.shards {
            shard.core().state.borrow_mut().lost_workers = lost.clone();
        }
    }

    async fn extend(&self, jid: &str, until: Timestamp) -> Result<bool, StoreError> {
        self.core.extend(jid, until).await
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

    async fn act(
        &self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
    ) -> Result<u64, StoreError> {
        self.core.act(place, what, action).await
    }

    async fn move_to(
        &self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
    ) -> Result<u64, StoreError> {
        self.core.move_to(place, keys, queue, paused).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError> {
        self.core.scan(request).await
    }

    async fn sample(&self, place: &JobLocation, count: usize) -> Result<Sample, StoreError> {
        self.core.sample(place, count).await
    }

    async fn find(&self, jid: &str) -> Result<FindOutcome, StoreError> {
        self.core.find(jid).await
    }

    async fn act_on_queues(
        &self,
        queues: &[QueueName],
        action: QueueAction,
    ) -> Result<u64, StoreError> {
        self.core.act_on_queues(queues, action).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.core.flush().await
    }

    async fn counts(&self) -> Counts {
        self.core.counts().await
    }

    async fn reservations(&self, limit: usize) -> Vec<Reserved> {
        self.core.reservations(limit).await
    }

    fn busy(&self, wid: &Wid) -> u64 {
        self.core.shards.iter().map(|shard| shard.store.busy(wid)).sum()
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
        self.core.exchange_reports(node, workers).await
    }

    async fn exchange_beats(
        &self,
        received: &[(Wid, Duration)],
        overdue: &[Wid],
    ) -> Result<Vec<(Wid, Duration)>, StoreError> {
        self.core.exchange_beats(received, overdue).await
    }

    fn allocate(&self, allocation: Allocation) {
        for shard in &self.core.shards {
            shard.store.allocate(allocation.clone());
        }
        self.core.dispatcher.borrow_mut().retain(&self.core.allocation.borrow(), &allocation);
        *self.core.allocation.borrow_mut() = allocation;
        self.core.work_arrived.notify_one();
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.core.line.dismiss();
        let closed = join_all(self.core.shards.iter().map(|shard| shard.store.close())).await;
        self.core.closed.set(true);
        closed.into_iter().collect()
    }
}
