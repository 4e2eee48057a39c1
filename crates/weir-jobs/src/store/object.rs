//! Any store behind one type, so that the server is compiled once for all of them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_log::Damage;

use super::limit_states::LimitStates;
use super::{
    Action, BackupPoint, Capabilities, Counts, FailOutcome, FetchRequest, FindOutcome, LostWorkers,
    QueueAction, QueueTraffic, ReservationMark, Reserved, Restored, Sample, ScanPage, ScanRequest,
    Selection, Storage, Store, StoreError, TenantDepth, WorkerReport,
};
use crate::allocation::Allocation;
use crate::batches::{BatchDefinition, BatchStatus, ExportedBatch};
use crate::cron::{CronRunOutcome, CronState, CronStates};
use crate::custom::BatchId;
use crate::metrics::JobsMetrics;
use crate::model::{
    Delivery, EntryKey, FailureReport, JobLocation, NewJob, QueueName, Wid, WorkerDirective,
    WorkerEnd,
};
use crate::node::NodeReport;
use crate::settings::JobServerSettings;
use crate::tracks::{Track, TrackUpdate};

/// A boxed future that stays on its thread.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Opens a store that another crate implements.
pub trait OpenStore: Send + fmt::Debug {
    /// Opens the store in the `LocalSet` of the server's thread. Data that can't be reached now is
    /// no error: the store then serves [`StoreError::Unavailable`] and tries again.
    fn open(
        self: Box<Self>,
        settings: JobServerSettings,
        clock: Clock,
        metrics: JobsMetrics,
    ) -> LocalBoxFuture<'static, Result<AnyStore, StoreOpenError>>;
}

/// Why a store can never be opened; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreOpenError(pub String);

/// A store of any type.
#[derive(Clone, Debug)]
pub struct AnyStore(Rc<dyn ObjectStore>);

impl AnyStore {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: impl Store + fmt::Debug) -> Self {
        Self(Rc::new(store))
    }
}

/// Passes the asynchronous operations to the macro `$define`, with `$a` as their lifetime.
macro_rules! operations {
    ($define:ident, $a:lifetime) => {
        $define! {
            push(jobs: &$a [NewJob<$a>]) -> Result<(), StoreError>;
            push_each(jobs: &$a [NewJob<$a>]) -> Vec<Result<(), StoreError>>;
            are_redundant(jobs: &$a [NewJob<$a>]) -> Vec<bool>;
            restore(jobs: &$a [Restored<$a>]) -> Result<(), StoreError>;
            fetch(request: FetchRequest<$a>) -> Result<Vec<Delivery>, StoreError>;
            ack_from(reporter: Option<&$a Wid>, jids: &$a [&$a str])
                -> Result<Vec<usize>, StoreError>;
            fail_from(reporter: Option<&$a Wid>, reports: Vec<FailureReport>)
                -> Vec<Result<FailOutcome, StoreError>>;
            release_until(wid: &$a Wid, mark: &$a ReservationMark, end: WorkerEnd)
                -> Result<usize, StoreError>;
            extend(jid: &$a str, until: Timestamp) -> Result<bool, StoreError>;
            track(jid: &$a str) -> Result<Option<Track>, StoreError>;
            set_track(jid: &$a str, update: TrackUpdate) -> Result<(), StoreError>;
            batch_new(definition: BatchDefinition) -> Result<BatchId, StoreError>;
            batch_open(id: BatchId) -> Result<(), StoreError>;
            batch_commit(id: BatchId) -> Result<(), StoreError>;
            batch_status(id: BatchId) -> Result<BatchStatus, StoreError>;
            cron_states() -> Result<CronStates, StoreError>;
            cron_register(names: &$a [&$a str]) -> Result<CronStates, StoreError>;
            cron_run(name: &$a str, at: Timestamp, job: Option<NewJob<$a>>)
                -> Result<CronRunOutcome, StoreError>;
            cron_pause(name: &$a str, paused: bool) -> Result<(), StoreError>;
            cron_forget(name: &$a str) -> Result<(), StoreError>;
            export_batches(after: Option<BatchId>, limit: usize)
                -> Result<Vec<ExportedBatch>, StoreError>;
            import_batch(batch: ExportedBatch) -> Result<bool, StoreError>;
            export_tracks(after: Option<(Timestamp, Box<str>)>, limit: usize)
                -> Result<Vec<(Box<str>, Track)>, StoreError>;
            import_track(jid: &$a str, track: Track) -> Result<(), StoreError>;
            import_cron(name: &$a str, state: CronState) -> Result<(), StoreError>;
            act(place: &$a JobLocation, what: &$a Selection, action: Action)
                -> Result<u64, StoreError>;
            move_to(place: &$a JobLocation, keys: &$a [EntryKey], queue: &$a QueueName, paused: bool)
                -> Result<u64, StoreError>;
            scan(request: ScanRequest) -> Result<ScanPage, StoreError>;
            sample(place: &$a JobLocation, count: usize) -> Result<Sample, StoreError>;
            find(jid: &$a str) -> Result<FindOutcome, StoreError>;
            act_on_queues(queues: &$a [QueueName], action: QueueAction) -> Result<u64, StoreError>;
            flush() -> Result<(), StoreError>;
            counts() -> Counts;
            reservations(limit: usize) -> Vec<Reserved>;
            storage() -> Storage;
            acknowledge_damages() -> Result<u64, StoreError>;
            backup_point() -> Result<BackupPoint, StoreError>;
            exchange_reports(node: NodeReport, workers: Vec<WorkerReport>)
                -> Vec<(Wid, WorkerDirective)>;
            exchange_beats(received: &$a [(Wid, Duration)], overdue: &$a [Wid])
                -> Result<Vec<(Wid, Duration)>, StoreError>;
            close() -> Result<(), StoreError>;
        }
    };
}

macro_rules! object_store {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {
        /// [`Store`] with boxed futures.
        trait ObjectStore: fmt::Debug {
            $(fn $name<'a>(&'a self, $($argument: $type),*) -> LocalBoxFuture<'a, $output>;)+
            fn capabilities(&self) -> Capabilities;
            fn busy(&self, wid: &Wid) -> u64;
            fn depth(&self, queue: &str) -> Option<u64>;
            fn traffic(&self, queue: &str) -> QueueTraffic;
            fn limit_states(&self, tenants_max: usize) -> LimitStates;
            fn disk_bytes(&self) -> Option<u64>;
            fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth>;
            fn waiting_bytes(&self, queue: &str) -> Option<u64>;
            fn damages(&self) -> Vec<Damage>;
            fn allocate(&self, allocation: Allocation);
            fn reservation_mark(&self) -> ReservationMark;
            fn watch_workers(&self, lost: LostWorkers);
        }

        impl<S: Store + fmt::Debug> ObjectStore for S {
            $(fn $name<'a>(&'a self, $($argument: $type),*) -> LocalBoxFuture<'a, $output> {
                Box::pin(Store::$name(self, $($argument),*))
            })+
            fn capabilities(&self) -> Capabilities {
                Store::capabilities(self)
            }
            fn busy(&self, wid: &Wid) -> u64 {
                Store::busy(self, wid)
            }
            fn depth(&self, queue: &str) -> Option<u64> {
                Store::depth(self, queue)
            }
            fn traffic(&self, queue: &str) -> QueueTraffic {
                Store::traffic(self, queue)
            }
            fn limit_states(&self, tenants_max: usize) -> LimitStates {
                Store::limit_states(self, tenants_max)
            }
            fn disk_bytes(&self) -> Option<u64> {
                Store::disk_bytes(self)
            }
            fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
                Store::tenant_depth(self, queue, json)
            }
            fn waiting_bytes(&self, queue: &str) -> Option<u64> {
                Store::waiting_bytes(self, queue)
            }
            fn damages(&self) -> Vec<Damage> {
                Store::damages(self)
            }
            fn allocate(&self, allocation: Allocation) {
                Store::allocate(self, allocation);
            }
            fn reservation_mark(&self) -> ReservationMark {
                Store::reservation_mark(self)
            }
            fn watch_workers(&self, lost: LostWorkers) {
                Store::watch_workers(self, lost);
            }
        }
    };
}

macro_rules! any_store {
    ($($name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {
        impl Store for AnyStore {
            $(async fn $name(&self, $($argument: $type),*) -> $output {
                ObjectStore::$name(&*self.0, $($argument),*).await
            })+
            fn capabilities(&self) -> Capabilities {
                ObjectStore::capabilities(&*self.0)
            }
            fn busy(&self, wid: &Wid) -> u64 {
                ObjectStore::busy(&*self.0, wid)
            }
            fn depth(&self, queue: &str) -> Option<u64> {
                ObjectStore::depth(&*self.0, queue)
            }
            fn traffic(&self, queue: &str) -> QueueTraffic {
                ObjectStore::traffic(&*self.0, queue)
            }
            fn limit_states(&self, tenants_max: usize) -> LimitStates {
                ObjectStore::limit_states(&*self.0, tenants_max)
            }
            fn disk_bytes(&self) -> Option<u64> {
                ObjectStore::disk_bytes(&*self.0)
            }
            fn tenant_depth(&self, queue: &str, json: &[u8]) -> Option<TenantDepth> {
                ObjectStore::tenant_depth(&*self.0, queue, json)
            }
            fn waiting_bytes(&self, queue: &str) -> Option<u64> {
                ObjectStore::waiting_bytes(&*self.0, queue)
            }
            fn damages(&self) -> Vec<Damage> {
                ObjectStore::damages(&*self.0)
            }
            fn allocate(&self, allocation: Allocation) {
                ObjectStore::allocate(&*self.0, allocation);
            }
            fn reservation_mark(&self) -> ReservationMark {
                ObjectStore::reservation_mark(&*self.0)
            }
            fn watch_workers(&self, lost: LostWorkers) {
                ObjectStore::watch_workers(&*self.0, lost);
            }
        }
    };
}

operations!(object_store, 'a);
operations!(any_store, '_);
