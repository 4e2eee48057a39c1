//! The workers that the parent runs: the service's part of it. It probes those of apps that start,
//! gives requests to those that are ready, lets go of those that are to leave, and has those
//! evicted that are stuck. Those of jobs only have their memory measured; they and all others are
//! replaced when they pass a limit.
//!
//! The parent's reports say how things are, not what has changed, so nothing here can get out of
//! step: what an app's workers are follows from the generations that are ready.

mod elsewhere;
mod freshen;
mod groups;
mod memory;
mod metrics;
mod probe;
mod recycling;
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
use weir_front::{Apps, Elsewhere, UpstreamAddress};
use weir_supervisor::control::{
    self, LineSplitter, ParentCommand, ParentReport, ParentRequest, REPORT_BYTES_MAX, Used,
    Vacancy, VacantSlot, WorkerPhase, WorkerReport, encode,
};

pub(super) use self::groups::groups;
pub(super) use self::metrics::RecyclingMetrics;
use self::probe::Probe;
use crate::sockets::{Seat, SocketApps};
use weir_admin::workers::{Asked, Reported};
use weir_config::{Processes, Recycling};

/// How often it is looked whether a worker that is to leave has finished, or one is stuck.
const LOOK: Duration = Duration::from_millis(20);
/// Workers that have answered their probe and were not heard yet.
const READY_MAX: usize = 64;
/// Orders that wait to be passed on.
const ORDERS_MAX: usize = 16;
/// What one read of reports can take.
const READ_BYTES: usize = 16 << 10;

/// Steers all workers.
pub(super) struct Workers {
    reports: OwnedReadHalf,
    requests: OwnedWriteHalf,
    apps: Arc<Apps>,
    /// Those of them whose workers share sockets.
    sockets: Arc<SocketApps>,
    processes: BTreeMap<String, Processes>,
    /// When workers are replaced by fresh ones: of apps, and of jobs.
    recycling: BTreeMap<String, Recycling>,
    /// As whom a warm-up asks, where the settings don't say, by the names of their apps.
    hosts: BTreeMap<String, String>,
    /// All that the parent has reported and that have not ended.
    known: BTreeMap<u64, Worker>,
    /// All of them are being reported anew: until the end some are missing.
    is_in_snapshot: bool,
    /// Those that were probed, or are being: once is enough.
    probed: BTreeSet<u64>,
    /// What service processes that were replaced still use of workers, by generation.
    elsewhere: BTreeMap<u64, Elsewhere>,
    /// What this one has told of itself, once it was replaced.
    told_used: BTreeMap<u64, Used>,
    /// Told after the first snapshot.
    are_known: Option<oneshot::Sender<()>>,
    /// Those of them that get nothing more for now, for they are [stuck].
    stuck: BTreeSet<u64>,
    /// Those of these whose eviction was asked for.
    evicted: BTreeSet<u64>,
    /// The same, for operators.
    reported: Arc<Mutex<Reported>>,
    answered: mpsc::Sender<u64>,
    ready: mpsc::Receiver<u64>,
    orders: mpsc::Receiver<Asked>,
    /// Those who wait for the parent's answer, by the number of their request.
    asked: BTreeMap<u64, oneshot::Sender<Result<(), String>>>,
    probes: ShutdownToken,
    clock: Clock,
    last_id: u64,
    /// Sizes of workers' memory, by generation.
    measured: mpsc::Receiver<Sizes>,
    give_measured: mpsc::Sender<Sizes>,
    /// A worker was to be replaced by a fresh one, and when: not at once again if that failed.
    recycled: BTreeMap<u64, Timestamp>,
    metrics: RecyclingMetrics,
    /// This process is on its way out: the next one looks after the workers.
    draining: CancellationToken,
}

type Sizes = BTreeMap<u64, u64>;

/// A generation of a worker.
struct Worker {
    app: String,
    slot: u32,
    pid: i32,
    started: Timestamp,
    way: Way,
    phase: WorkerPhase,
}

/// How requests get to it.
#[derive(Clone)]
enum Way {
    /// Through the proxy.
    Own(UpstreamAddress),
    /// By sockets that it shares with others.
    Shared(Seat),
    /// Not at all: it fetches jobs, wherever it likes.
    None,
}

impl Worker {
    /// Where the proxy reaches it.
    fn address(&self) -> Option<&UpstreamAddress> {
        match &self.way {
            Way::Own(address) => Some(address),
            Way::Shared(_) | Way::None => None,
        }
    }
}

/// The apps, and how their workers are run.
pub(super) struct Served {
    pub(super) apps: Arc<Apps>,
    pub(super) sockets: Arc<SocketApps>,
    /// By the names of their apps, with the first host of each.
    pub(super) processes: BTreeMap<String, (Processes, String)>,
    /// By the names of groups of job workers.
    pub(super) of_jobs: BTreeMap<String, Recycling>,
}

impl Workers {
    /// Over the parent's control channel. Also the way for operators' orders, and the moment when all
    /// workers are known.
    pub(super) fn new(
        channel: UnixStream,
        served: Served,
        reported: Arc<Mutex<Reported>>,
        probes: ShutdownToken,
        clock: &Clock,
        (metrics, draining): (RecyclingMetrics, CancellationToken),
    ) -> anyhow::Result<(Self, mpsc::Sender<Asked>, oneshot::Receiver<()>)> {
        channel.set_nonblocking(true).context("the parent's control channel")?;
        let stream = tokio::net::UnixStream::from_std(channel)?;
        let (reports, requests) = stream.into_split();
        let (answered, ready) = mpsc::channel(READY_MAX);
        let (give_orders, orders) = mpsc::channel(ORDERS_MAX);
        let Served { apps, sockets, processes, of_jobs } = served;
        let of_apps = processes.iter();
        let of_apps = of_apps.map(|(app, (own, _))| (app.clone(), own.launch.recycling.clone()));
        let recycling = of_apps.chain(of_jobs).collect();
        let hosts = processes.iter().map(|(app, (_, host))| (app.clone(), host.clone())).collect();
        let (tell, are_known) = oneshot::channel();
        let (give_measured, measured) = mpsc::channel(1);
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
            elsewhere: BTreeMap::new(),
            told_used: BTreeMap::new(),
            are_known: Some(tell),
            stuck: BTreeSet::new(),
            evicted: BTreeSet::new(),
            reported,
            answered,
            ready,
            orders,
            asked: BTreeMap::new(),
            probes,
            clock: clock.clone(),
            last_id: 0,
            measured,
            give_measured,
            recycled: BTreeMap::new(),
            metrics,
            draining,
        };
        Ok((workers, give_orders, are_known))
    }

    /// Until the parent is gone, or the service ends.
    pub(super) async fn run(mut self) {
        let ending = self.probes.clone();
        let steered = tokio::select! {
            steered = self.steer() => steered,
            () = ending.requested() => return,
        };
        if let Err(error) = steered {
            tracing::error!(%error, "lost the control channel to the parent; workers can no longer be controlled");
        }
    }

    async fn steer(&mut self) -> io::Result<()> {
        let mut lines = LineSplitter::new(REPORT_BYTES_MAX);
        let mut chunk = vec![0; READ_BYTES];
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples = interval(self.sample_interval());
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                read = self.reports.read(&mut chunk) => match read? {
                    0 => return Ok(()),
                    count => {
                        lines.add(&chunk[..count]);
                        self.hear(&mut lines).await?;
                    }
                },
                Some(generation) = self.ready.recv() => {
                    self.ask(ParentCommand::Ready { generation }).await?;
                }
                Some(Asked { command, answer }) = self.orders.recv() => {
                    // Those who have given up waiting; the rest is bounded by their patience.
                    self.asked.retain(|_, answer| !answer.is_closed());
                    self.asked.insert(self.last_id + 1, answer);
                    self.ask(command).await?;
                }
                _ = looks.tick() => self.look().await?,
                _ = samples.tick() => self.measure(),
                Some(sizes) = self.measured.recv() => self.recycle(&sizes).await?,
            }
        }
    }

    async fn hear(&mut self, lines: &mut LineSplitter) -> io::Result<()> {
        while let Some(line) = lines.next_line().map_err(io::Error::other)? {
            let report = serde_json::from_slice(&line)?;
            let now = self.clock.now();
            self.reported.lock().unwrap_or_else(PoisonError::into_inner).note(&report, now);
            match report {
                ParentReport::SnapshotBegins => {
                    self.known.clear();
                    self.elsewhere.clear();
                    self.is_in_snapshot = true;
                }
                ParentReport::SnapshotEnds => self.end_snapshot(),
                ParentReport::Worker(worker) => self.note(worker),
                ParentReport::Slot(slot) => self.give(&slot.group),
                ParentReport::Elsewhere { generation, used } => {
                    self.note_elsewhere(generation, used)
                }
                ParentReport::Done { id } => self.tell(id, Ok(())),
                ParentReport::Refused { id: Some(id), reason } => self.tell(id, Err(reason)),
                ParentReport::Refused { id: None, reason } => {
                    tracing::warn!(reason, "rejected by the parent");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells who asked for it what came of a request.
    fn tell(&mut self, id: u64, outcome: Result<(), String>) {
        match (self.asked.remove(&id), outcome) {
            // Whoever has given up waiting needs no answer.
            (Some(answer), outcome) => drop(answer.send(outcome)),
            (None, Err(reason)) => tracing::warn!(reason, "rejected by the parent"),
            (None, Ok(())) => {}
        }
    }

    fn note(&mut self, state: WorkerReport) {
        let WorkerReport { group: app, slot, generation, pid, address, started_ms_ago, phase } =
            state;
        if let WorkerPhase::Ended { .. } = phase {
            self.known.remove(&generation);
            self.elsewhere.remove(&generation);
            self.told_used.remove(&generation);
            self.probed.remove(&generation);
            self.stuck.remove(&generation);
            self.evicted.remove(&generation);
            self.recycled.remove(&generation);
            return self.give(&app);
        }
        let place = usize::try_from(slot).unwrap_or(usize::MAX);
        let way = match address {
            None => Way::None,
            Some(control::WorkerAddress::Unix(path)) => Way::Own(UpstreamAddress::Unix(path)),
            Some(control::WorkerAddress::Port(port)) => {
                Way::Own(UpstreamAddress::Tcp(([127, 0, 0, 1], port).into()))
            }
            Some(control::WorkerAddress::Shared { record }) => {
                Way::Shared(Seat { slot: place, pid, record })
            }
        };
        // One that was replaced leaves that to the next, which warms workers up, too.
        let is_mine = phase == WorkerPhase::Starting && !self.draining.is_cancelled();
        if is_mine && self.probed.insert(generation) {
            self.probe(&app, slot, generation, &way);
        }
        let started = self.clock.now() - Duration::from_millis(started_ms_ago);
        let worker = Worker { app: app.clone(), slot, pid, started, way, phase };
        self.known.insert(generation, worker);
        self.give(&app);
    }

    fn probe(&self, app: &str, slot: u32, generation: u64, way: &Way) {
        let Some(processes) = self.processes.get(app) else { return };
        let way = match way {
            Way::Own(address) => probe::Way::Own(address.clone()),
            Way::Shared(seat) => {
                probe::Way::Shared(Arc::clone(&self.sockets), app.to_owned(), *seat)
            }
            Way::None => return,
        };
        let host = processes.warm_up_host.as_ref().or_else(|| self.hosts.get(app));
        let probe = Probe {
            name: format!("{app}-{slot}"),
            way,
            ready_path: processes.ready_path.clone(),
            warm_up: processes.warm_up.clone(),
            host: host.cloned().unwrap_or_default(),
            start_deadline: processes.launch.start_deadline,
        };
        let answered = self.answered.clone();
        let probing = async move {
            if probe.passes().await {
                // Nobody hears it when the service ends.
                let _ = answered.send(generation).await;
            }
        };
        let ending = self.probes.clone();
        self.probes.spawn(async move {
            tokio::select! {
                () = probing => {}
                () = ending.requested() => {}
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
            self.give(app);
        }
        // Nobody waits any more when it took too long.
        let _ = self.are_known.take().map(|tell| tell.send(()));
    }

    /// Makes those that are ready the workers of the app.
    fn give(&self, app: &str) {
        let is_proxied = self.processes.contains_key(app) && self.sockets.get(app).is_none();
        if self.is_in_snapshot || !is_proxied {
            return;
        }
        let is_ready = |worker: &&Worker| worker.app == app && worker.phase == WorkerPhase::Ready;
        let ready = self.known.values().filter(is_ready);
        let addresses = ready.filter_map(|worker| worker.address().cloned());
        let addresses: Vec<UpstreamAddress> = addresses.collect();
        if let Err(error) = self.apps.set_workers(app, &addresses) {
            tracing::warn!(%error, "workers of an app that is not served here");
        }
        if let Err(error) = self.apps.set_no_program(app, self.has_no_program(app)) {
            tracing::debug!(%error, "workers of an app that is not served here");
        }
        self.give_elsewhere(app);
    }

    /// Whether all places of an app's workers are given up for now.
    fn has_no_program(&self, app: &str) -> bool {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slots = reported.slots.values().filter(|slot| slot.group == app).peekable();
        let is_given_up = |slot: &VacantSlot| matches!(slot.vacancy, Some(Vacancy::Failed { .. }));
        slots.peek().is_some() && slots.all(is_given_up)
    }

    /// Lets go of those that have finished, and has those evicted that are stuck.
    async fn look(&mut self) -> io::Result<()> {
        let leaving = self.known.iter().filter(|(_, worker)| worker.phase == WorkerPhase::Leaving);
        let idle = leaving.filter(|(_, worker)| match &worker.way {
            Way::Own(address) => !self.apps.has_worker(&worker.app, address),
            Way::Shared(seat) => self.may_leave(worker, seat),
            Way::None => true,
        });
        let finished: Vec<u64> = idle.map(|(generation, _)| *generation).collect();
        for generation in finished {
            self.ask(ParentCommand::LetGo { generation }).await?;
        }
        if self.draining.is_cancelled() {
            self.report_used().await?;
        }
        let aged = self.check_words();
        for (generation, reason) in self.find_stuck().into_iter().chain(aged) {
            tracing::warn!(generation, reason, "evicted");
            self.evicted.insert(generation);
            self.ask(ParentCommand::Evict { generation, reason }).await?;
        }
        Ok(())
    }

    async fn ask(&mut self, command: ParentCommand) -> io::Result<()> {
        self.last_id += 1;
        let line = encode(&ParentRequest { id: self.last_id, command })?;
        self.requests.write_all(&line).await
    }
}
