//! Manages the workers that the parent runs. For apps it probes starting workers, routes requests
//! to ready ones, releases those that are leaving and evicts those that are stuck. Job workers only
//! have their memory measured. All workers are replaced when they exceed a limit.
//!
//! The parent's reports describe state, not changes, so the two cannot get out of step: an app's
//! workers follow from the generations that are ready.

mod groups;
mod memory;
mod metrics;
mod probe;
mod recycling;
mod remote_use;
mod replacement;
mod shared;
mod stuck;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use weir_base::clock::{Clock, Timestamp};
use weir_base::shutdown::ShutdownToken;
use weir_front::{Apps, ExternalLoad, UpstreamAddress};
use weir_supervisor::control::{
    self, LineSplitter, ParentCommand, ParentReport, ParentRequest, REPORT_BYTES_MAX, Used,
    Vacancy, VacantSlot, WorkerPhase, WorkerReport, encode,
};

pub(super) use self::groups::groups;
pub(super) use self::metrics::RecyclingMetrics;
use self::probe::Probe;
use crate::sockets::{SocketApps, SocketWorker};
use weir_admin::workers::{CommandResult, PendingCommand, Reported};
use weir_config::{Processes, Recycling};

/// Interval of checks for workers that have finished or are stuck.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Limit of workers that passed their probe and were not processed yet.
const READY_MAX: usize = 64;
/// Limit of orders that wait to be sent.
const ORDERS_MAX: usize = 16;
/// The size of a read of reports.
const READ_BYTES: usize = 16 << 10;

/// Manages all workers.
pub(super) struct Workers {
    reports: OwnedReadHalf,
    requests: OwnedWriteHalf,
    apps: Arc<Apps>,
    /// Apps whose workers share sockets.
    sockets: Arc<SocketApps>,
    processes: BTreeMap<String, Processes>,
    /// Limits after which workers of apps and of jobs are replaced.
    recycling: BTreeMap<String, Recycling>,
    /// The `Host` of warm-up requests, where the settings have none, by app.
    hosts: BTreeMap<String, String>,
    /// All workers that the parent has reported and that have not ended.
    known: BTreeMap<u64, Worker>,
    /// Whether a snapshot is being received, so that some workers are missing.
    is_in_snapshot: bool,
    /// Generations that were probed or are being probed: once is enough.
    probed: BTreeSet<u64>,
    /// The requests and streams that replaced service processes still have at workers, by generation.
    remote_use: BTreeMap<u64, ExternalLoad>,
    /// The use that this process reported last, after it was replaced.
    reported_use: BTreeMap<u64, Used>,
    /// Notified after the first snapshot.
    snapshot_done: Option<oneshot::Sender<()>>,
    /// Workers that get no requests for now because they are [stuck].
    stuck: BTreeSet<u64>,
    /// Stuck workers whose eviction was requested.
    evicted: BTreeSet<u64>,
    /// The reported state for operators.
    reported: Arc<Mutex<Reported>>,
    /// Receives the generations that became ready.
    ready_sender: mpsc::Sender<u64>,
    ready_receiver: mpsc::Receiver<u64>,
    parent_commands: mpsc::Receiver<PendingCommand>,
    /// Pending requests to the parent, by number.
    pending: BTreeMap<u64, oneshot::Sender<CommandResult>>,
    probes: ShutdownToken,
    clock: Clock,
    last_id: u64,
    /// Memory sizes of workers, by generation.
    measured: mpsc::Receiver<Sizes>,
    measured_sender: mpsc::Sender<Sizes>,
    /// Workers for which a replacement was requested, and when: it is not retried at once.
    recycled: BTreeMap<u64, Timestamp>,
    metrics: RecyclingMetrics,
    /// Cancelled when this process was replaced: the next one manages the workers.
    draining: CancellationToken,
}

type Sizes = BTreeMap<u64, u64>;

/// A generation of a worker.
struct Worker {
    app: String,
    slot: u32,
    pid: i32,
    started: Timestamp,
    route: WorkerRoute,
    phase: WorkerPhase,
}

/// How requests reach a worker.
#[derive(Clone)]
enum WorkerRoute {
    /// Through the proxy.
    Proxied(UpstreamAddress),
    /// By sockets that it shares with others.
    Shared(SocketWorker),
    /// Not at all: it fetches jobs.
    None,
}

impl Worker {
    /// Returns its address for the proxy.
    fn address(&self) -> Option<&UpstreamAddress> {
        match &self.route {
            WorkerRoute::Proxied(address) => Some(address),
            WorkerRoute::Shared(_) | WorkerRoute::None => None,
        }
    }
}

/// The apps, and how their workers are run.
pub(super) struct ManagedApps {
    pub(super) apps: Arc<Apps>,
    pub(super) sockets: Arc<SocketApps>,
    /// By app, with the first host of each.
    pub(super) processes: BTreeMap<String, (Processes, String)>,
    /// By group of job workers.
    pub(super) job_groups: BTreeMap<String, Recycling>,
}

impl Workers {
    /// Creates the manager over the parent's control channel. Also returns the sender of operators'
    /// orders, and the receiver that is notified when all workers are known.
    pub(super) fn new(
        channel: UnixStream,
        served: ManagedApps,
        reported: Arc<Mutex<Reported>>,
        probes: ShutdownToken,
        clock: &Clock,
        (metrics, draining): (RecyclingMetrics, CancellationToken),
    ) -> anyhow::Result<(Self, mpsc::Sender<PendingCommand>, oneshot::Receiver<()>)> {
        channel.set_nonblocking(true).context("the parent's control channel")?;
        let stream = tokio::net::UnixStream::from_std(channel)?;
        let (reports, requests) = stream.into_split();
        let (ready_sender, ready_receiver) = mpsc::channel(READY_MAX);
        let (command_sender, parent_commands) = mpsc::channel(ORDERS_MAX);
        let ManagedApps { apps, sockets, processes, job_groups } = served;
        let app_recycling = processes.iter();
        let app_recycling =
            app_recycling.map(|(app, (own, _))| (app.clone(), own.launch.recycling.clone()));
        let recycling = app_recycling.chain(job_groups).collect();
        let hosts = processes.iter().map(|(app, (_, host))| (app.clone(), host.clone())).collect();
        let (snapshot_sender, snapshot_done) = oneshot::channel();
        let (measured_sender, measured) = mpsc::channel(1);
        let workers = Self {
            reports,
            requests,
            apps,
            sockets,
            processes: processes
                .into_iter()
                .map(|(app, (processes, _))| (app, processes))
                .collect(),
            recycling,
            hosts,
            known: BTreeMap::new(),
            is_in_snapshot: false,
            probed: BTreeSet::new(),
            remote_use: BTreeMap::new(),
            reported_use: BTreeMap::new(),
            snapshot_done: Some(snapshot_sender),
            stuck: BTreeSet::new(),
            evicted: BTreeSet::new(),
            reported,
            ready_sender,
            ready_receiver,
            parent_commands,
            pending: BTreeMap::new(),
            probes,
            clock: clock.clone(),
            last_id: 0,
            measured,
            measured_sender,
            recycled: BTreeMap::new(),
            metrics,
            draining,
        };
        Ok((workers, command_sender, snapshot_done))
    }

    /// Runs until the parent is gone or the service ends.
    pub(super) async fn run(mut self) {
        let shutdown = self.probes.clone();
        let outcome = tokio::select! {
            outcome = self.process_events() => outcome,
            () = shutdown.requested() => return,
        };
        if let Err(error) = outcome {
            tracing::error!(%error, "lost the control channel to the parent; workers can no longer be controlled");
        }
    }

    async fn process_events(&mut self) -> io::Result<()> {
        let mut lines = LineSplitter::new(REPORT_BYTES_MAX);
        let mut chunk = vec![0; READ_BYTES];
        let mut ticks = interval(CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = interval(self.sample_interval());
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = self.reports.read(&mut chunk) => match read? {
                    0 => return Ok(()),
                    count => {
                        lines.add(&chunk[..count]);
                        self.process_reports(&mut lines).await?;
                    }
                },
                Some(generation) = self.ready_receiver.recv() => {
                    self.send_command(ParentCommand::Ready { generation }).await?;
                }
                Some(PendingCommand { command, reply_sender }) = self.parent_commands.recv() => {
                    // Drop requests whose senders have timed out; the number of others is limited
                    // by their timeouts.
                    self.pending.retain(|_, reply| !reply.is_closed());
                    self.pending.insert(self.last_id + 1, reply_sender);
                    self.send_command(command).await?;
                }
                _ = ticks.tick() => self.check_workers().await?,
                _ = samples.tick() => self.measure(),
                Some(sizes) = self.measured.recv() => self.recycle(&sizes).await?,
            }
        }
    }

    async fn process_reports(&mut self, lines: &mut LineSplitter) -> io::Result<()> {
        while let Some(line) = lines.next_line().map_err(io::Error::other)? {
            let report = serde_json::from_slice(&line)?;
            let now = self.clock.now();
            self.reported.lock().unwrap_or_else(PoisonError::into_inner).record(&report, now);
            match report {
                ParentReport::SnapshotBegins => {
                    self.known.clear();
                    self.remote_use.clear();
                    self.is_in_snapshot = true;
                }
                ParentReport::SnapshotEnds => self.end_snapshot(),
                ParentReport::Worker(worker) => self.update_worker(worker),
                ParentReport::Slot(slot) => self.update_upstreams(&slot.group),
                ParentReport::Elsewhere { generation, used } => {
                    self.record_remote_use(generation, used)
                }
                ParentReport::Done { id, outcome } => {
                    self.complete_command(id, Ok(outcome.map(|outcome| *outcome)));
                }
                ParentReport::Refused { id: Some(id), reason } => {
                    self.complete_command(id, Err(reason))
                }
                ParentReport::Refused { id: None, reason } => {
                    tracing::warn!(reason, "rejected by the parent");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends the outcome of a request to its sender.
    fn complete_command(&mut self, id: u64, outcome: CommandResult) {
        match (self.pending.remove(&id), outcome) {
            // A sender that has timed out needs no reply.
            (Some(reply), outcome) => drop(reply.send(outcome)),
            (None, Err(reason)) => tracing::warn!(reason, "rejected by the parent"),
            (None, Ok(_)) => {}
        }
    }

    fn update_worker(&mut self, state: WorkerReport) {
        let WorkerReport { group: app, slot, generation, pid, address, started_ms_ago, phase } =
            state;
        if let WorkerPhase::Ended { .. } = phase {
            self.known.remove(&generation);
            self.remote_use.remove(&generation);
            self.reported_use.remove(&generation);
            self.probed.remove(&generation);
            self.stuck.remove(&generation);
            self.evicted.remove(&generation);
            self.recycled.remove(&generation);
            return self.update_upstreams(&app);
        }
        let slot_index = usize::try_from(slot).unwrap_or(usize::MAX);
        let route = match address {
            None => WorkerRoute::None,
            Some(control::WorkerAddress::Unix(path)) => {
                WorkerRoute::Proxied(UpstreamAddress::Unix(path))
            }
            Some(control::WorkerAddress::Port(port)) => {
                WorkerRoute::Proxied(UpstreamAddress::Tcp(([127, 0, 0, 1], port).into()))
            }
            Some(control::WorkerAddress::Shared { record }) => {
                WorkerRoute::Shared(SocketWorker { slot: slot_index, pid, record })
            }
        };
        // A replaced service leaves probes and warm-ups to the next one.
        let is_managed_here = phase == WorkerPhase::Starting && !self.draining.is_cancelled();
        if is_managed_here && self.probed.insert(generation) {
            self.probe(&app, slot, generation, &route);
        }
        let started = self.clock.now() - Duration::from_millis(started_ms_ago);
        let worker = Worker { app: app.clone(), slot, pid, started, route, phase };
        self.known.insert(generation, worker);
        self.update_upstreams(&app);
    }

    fn probe(&self, app: &str, slot: u32, generation: u64, route: &WorkerRoute) {
        let Some(processes) = self.processes.get(app) else { return };
        let route = match route {
            WorkerRoute::Proxied(address) => probe::ProbeTarget::Proxied(address.clone()),
            WorkerRoute::Shared(socket_worker) => probe::ProbeTarget::Shared(
                Arc::clone(&self.sockets),
                app.to_owned(),
                *socket_worker,
            ),
            WorkerRoute::None => return,
        };
        let host = processes.warm_up_host.as_ref().or_else(|| self.hosts.get(app));
        let probe = Probe {
            name: format!("{app}-{slot}"),
            target: route,
            ready_path: processes.ready_path.clone(),
            warm_up: processes.warm_up.clone(),
            host: host.cloned().unwrap_or_default(),
            start_deadline: processes.launch.start_deadline,
        };
        let ready_sender = self.ready_sender.clone();
        let probing = async move {
            if probe.is_ready_in_time().await {
                // The receiver is gone when the service ends.
                let _ = ready_sender.send(generation).await;
            }
        };
        let shutdown = self.probes.clone();
        self.probes.spawn(async move {
            tokio::select! {
                () = probing => {}
                () = shutdown.requested() => {}
            }
        });
    }

    fn end_snapshot(&mut self) {
        self.is_in_snapshot = false;
        self.probed.retain(|generation| self.known.contains_key(generation));
        self.stuck.retain(|generation| self.known.contains_key(generation));
        self.evicted.retain(|generation| self.known.contains_key(generation));
        self.recycled.retain(|generation, _| self.known.contains_key(generation));
        for app in self.processes.keys() {
            self.update_upstreams(app);
        }
        // The receiver is gone if it took too long.
        let _ = self.snapshot_done.take().map(|snapshot_sender| snapshot_sender.send(()));
    }

    /// Makes the ready workers the upstreams of the app.
    fn update_upstreams(&self, app: &str) {
        let is_proxied = self.processes.contains_key(app) && self.sockets.get(app).is_none();
        if self.is_in_snapshot || !is_proxied {
            return;
        }
        let is_ready = |worker: &&Worker| worker.app == app && worker.phase == WorkerPhase::Ready;
        let ready_workers = self.known.values().filter(is_ready);
        let addresses = ready_workers.filter_map(|worker| worker.address().cloned());
        let addresses: Vec<UpstreamAddress> = addresses.collect();
        if let Err(error) = self.apps.set_workers(app, &addresses) {
            tracing::warn!(%error, "workers of an app that is not served here");
        }
        if let Err(error) = self.apps.set_no_program(app, self.has_no_program(app)) {
            tracing::debug!(%error, "workers of an app that is not served here");
        }
        self.apply_remote_use(app);
    }

    /// Returns whether all slots of an app are given up for now.
    fn has_no_program(&self, app: &str) -> bool {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slots = reported.slots.values().filter(|slot| slot.group == app).peekable();
        let is_given_up = |slot: &VacantSlot| matches!(slot.vacancy, Some(Vacancy::Failed { .. }));
        slots.peek().is_some() && slots.all(is_given_up)
    }

    /// Releases workers that have finished, and evicts those that are stuck.
    async fn check_workers(&mut self) -> io::Result<()> {
        let leaving = self.known.iter().filter(|(_, worker)| worker.phase == WorkerPhase::Leaving);
        let idle = leaving.filter(|(_, worker)| match &worker.route {
            WorkerRoute::Proxied(address) => !self.apps.has_worker(&worker.app, address),
            WorkerRoute::Shared(socket_worker) => self.can_leave(worker, socket_worker),
            WorkerRoute::None => true,
        });
        let finished: Vec<u64> = idle.map(|(generation, _)| *generation).collect();
        for generation in finished {
            self.send_command(ParentCommand::LetGo { generation }).await?;
        }
        if self.draining.is_cancelled() {
            self.report_use().await?;
        }
        let aged = self.check_records();
        for (generation, reason) in self.find_stuck().into_iter().chain(aged) {
            tracing::warn!(generation, reason, "evicted");
            self.evicted.insert(generation);
            self.send_command(ParentCommand::Evict { generation, reason }).await?;
        }
        Ok(())
    }

    async fn send_command(&mut self, command: ParentCommand) -> io::Result<()> {
        self.last_id += 1;
        let line = encode(&ParentRequest { id: self.last_id, command })?;
        self.requests.write_all(&line).await
    }
}
