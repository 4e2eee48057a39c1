//! The thread that owns the store: its runtime, its tasks, its shutdown.

use std::rc::Rc;
use std::sync::mpsc::SyncSender;

use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use weir_base::shutdown::{Drained, ShutdownToken};

use super::{
    JobServerOptions, JobServerStop, JobService, StartError, accept, cron, descriptors, requests,
    tasks, watch,
};
use crate::engine::EmbeddedStore;
use crate::faktory::SignalLevel;
use crate::handle::Envelope;
use crate::job_traces::JobTraces;
use crate::memory::MemoryStore;
use crate::server::tasks::Tasks;
use crate::settings::StoreKind;
use crate::store::{AnyStore, Store, StoreError, StoreOpenError};

/// How a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobServerOutcome {
    pub ended: OwnerEnd,
    /// Whether everything that was acknowledged is durable.
    pub closed: Result<(), StoreError>,
}

/// Why the connections ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerEnd {
    /// All commands were completed.
    Clean,
    /// The deadline passed, or the stop was immediate: this many tasks were aborted.
    Cut { tasks: usize },
    /// The thread panicked.
    Panicked,
}

/// Runs a server on this thread. Sends to `opened` whether it started. Returns `None` if it did
/// not.
pub(super) fn run(
    mut start: JobServerOptions,
    requests: Receiver<Envelope>,
    opened: &SyncSender<Result<(), StartError>>,
) -> Option<JobServerOutcome> {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(error.into()));
            return None;
        }
    };
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        // The only code that distinguishes the kinds of store.
        let served = match start.settings.store {
            StoreKind::Embedded => match open_embedded(&start).await {
                Ok(store) => serve(Rc::new(store), start, requests, opened).await,
                Err(error) => Err(error),
            },
            StoreKind::Memory | StoreKind::External => match open_any(&mut start).await {
                Ok(store) => serve(Rc::new(store), start, requests, opened).await,
                Err(error) => Err(error),
            },
        };
        served.map_err(|error| opened.send(Err(error))).ok()
    })
}

async fn open_embedded(start: &JobServerOptions) -> Result<EmbeddedStore, StartError> {
    let JobServerOptions { settings, clock, metrics, .. } = start;
    let (store, report) = EmbeddedStore::open(settings, clock.clone(), metrics.clone())
        .map_err(|source| StartError::Store { directory: settings.directory.clone(), source })?;
    log_report(&report);
    log_damages(&store).await;
    Ok(store)
}

async fn open_any(start: &mut JobServerOptions) -> Result<AnyStore, StartError> {
    let (settings, clock) = (start.settings.clone(), start.clock.clone());
    let metrics = start.metrics.clone();
    match start.external.take() {
        Some(external) => Ok(external.open(settings, clock, metrics).await?),
        None if settings.store == StoreKind::External => {
            Err(StoreOpenError("nothing opens a store in Redis here".to_owned()).into())
        }
        None => Ok(AnyStore::new(MemoryStore::open(&settings, clock, metrics))),
    }
}

fn log_report(report: &weir_log::RecoveryReport) {
    tracing::info!(segments = report.segments, records = report.records, "job store opened");
    if let Some(cut) = &report.cut {
        tracing::warn!(
            position = ?cut.position,
            bytes = cut.bytes,
            "torn end of the job log cut off: it was never acknowledged"
        );
    }
}

async fn log_damages(store: &impl Store) {
    let damages = store.storage().await.damages;
    if damages > 0 {
        tracing::error!(
            damages,
            "the job store has damage that no operator has acknowledged: see `weir jobs damage`"
        );
    }
}

async fn serve<S: Store>(
    store: Rc<S>,
    start: JobServerOptions,
    requests: Receiver<Envelope>,
    opened: &SyncSender<Result<(), StartError>>,
) -> Result<JobServerOutcome, StartError> {
    let JobServerOptions {
        listeners,
        mut settings,
        console,
        clock,
        metrics,
        tracer,
        tls,
        stop,
        ..
    } = start;
    descriptors::limit_connections(&mut settings.limits);
    metrics.types().begin(clock.now(), store.capabilities().shared);
    let mut service = JobService::new(store, settings, clock, metrics);
    service.console = console;
    service.traces = JobTraces::new(tracer);
    service.tasks = Tasks::open(&service.settings(), service.clock.now());
    let service = Rc::new(service);
    service.watch_workers();
    expect_workers(&service).await;
    let shutdown = ShutdownToken::new();
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let acceptor = accept::Acceptor::new(&service, tls.clone(), &shutdown);
        shutdown.spawn_local(acceptor.run(TcpListener::from_std(listener)?));
    }
    shutdown.spawn_local(tasks::supervise(Rc::clone(&service), shutdown.clone()));
    shutdown.spawn_local(requests::run(Rc::clone(&service), requests, shutdown.clone()));
    let _ = opened.send(Ok(()));
    Ok(serve_until_stopped(&service, &shutdown, &stop).await)
}

/// Registers the workers whose reservations the store has restored, so that their jobs return if they do not.
async fn expect_workers<S: Store>(service: &JobService<S>) {
    if service.store.capabilities().shared {
        return;
    }
    let (held, now) = (service.store.reservations(usize::MAX).await, service.clock.now());
    let mut workers = service.workers.borrow_mut();
    for wid in held.iter().filter_map(|held| held.wid.as_ref()) {
        workers.expect(wid, now);
    }
}

/// Serves until a stop is requested, then shuts down in order.
async fn serve_until_stopped<S: Store>(
    service: &Rc<JobService<S>>,
    shutdown: &ShutdownToken,
    stop: &JobServerStop,
) -> JobServerOutcome {
    // These tasks never end by themselves, so the shutdown does not wait for them.
    let mut endless = JoinSet::new();
    endless.spawn_local(watch::reap_workers(Rc::clone(service)));
    endless.spawn_local(watch::sample_totals(Rc::clone(service)));
    endless.spawn_local(cron::run_cron(Rc::clone(service)));
    if service.store.capabilities().shared {
        endless.spawn_local(watch::exchange_reports(Rc::clone(service)));
    }
    tokio::select! {
        () = stop.graceful.cancelled() => {}
        () = stop.at_once.cancelled() => {}
    }
    // 1. Accept no more: the listeners close here, while the process that passed them keeps its
    // own.
    shutdown.request();
    // 2. Waiting FETCHes return null, commands that arrived are run, connections close.
    service.connections.signal_all(SignalLevel::Close);
    // 3. Commands in progress finish and their replies are sent, until the deadline.
    let drained = tokio::select! {
        drained = shutdown.drain(stop.deadline) => drained,
        () = stop.at_once.cancelled() => Drained::DeadlinePassed { tasks_left: shutdown.tasks() },
    };
    let ended = match drained {
        Drained::Clean | Drained::DeadlinePassed { tasks_left: 0 } => OwnerEnd::Clean,
        Drained::DeadlinePassed { tasks_left } => OwnerEnd::Cut { tasks: tasks_left },
    };
    drop(endless);
    // 4. Everything acknowledged is made durable.
    let closing = timeout(stop.deadline, service.store.close()).await;
    let late = StoreError::Failed(format!("not closed within {:?}", stop.deadline));
    JobServerOutcome { ended, closed: closing.unwrap_or(Err(late)) }
}
