//! The composition root: the only place that knows every part and connects them.

mod autopilot;
mod completion;
mod cores;
mod gems;
mod job_durability;
mod jobs;
mod linger;
mod observer;
mod pages;
mod realtime;
mod reload;
mod shedding;
mod stop;
#[cfg(test)]
mod tests;
mod watch;
mod workers;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_access::AuditLog;
use weir_access::metrics::AuditMetrics;
use weir_autopilot::JobSystem;
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_base::switchboard::Switchboard;
use weir_console::Accounts;
use weir_console::live::Live;
use weir_front::{
    AccessLog, AccessLogMetrics, AppSettings, Apps, Drain, FrontMetrics, Proxy, ProxySettings,
};
use weir_net::metrics::TlsMetrics;
use weir_net::{Listener, Successor, Tls};
use weir_supervisor::inherited::Inherited;
use weir_traces::{TraceMetrics, Tracer, exporter};

use self::autopilot::{RunningAutopilot, WatchedJobs};
use self::cores::{Cores, Sockets};
use self::gems::Gems;
use self::jobs::{Jobs, JobsSocket};
pub(crate) use self::linger::Lingering;
use self::observer::Observer;
use self::pages::Pages;
use self::realtime::Realtime;
pub(crate) use self::watch::UnexpectedEnd;
use self::watch::ended;
use self::workers::{ManagedApps, RecyclingMetrics, Workers, groups};
use crate::front::{Front, RealtimeRequests};
use crate::sockets::SocketApps;
use weir_admin::measured::Measured;
use weir_admin::observed::Observed;
use weir_admin::paused_apps::PausedApps;
use weir_admin::process_metrics::ProcessMetrics;
use weir_admin::restart::Restart;
use weir_admin::status::{CurrentVerdict, Facts};
use weir_admin::verdict_metrics::VerdictMetrics;
use weir_admin::workers::{ParentCommands, Reported};
use weir_admin::workers_metrics::WorkersMetrics;
use weir_cli::data_dir::handover_lock::{HandoverLock, HeldLock, LockedResource};
use weir_config::part::Part;
use weir_config::{App, Settings};

/// All running parts.
pub(crate) struct Weir {
    clock: Clock,
    /// None: not enabled in this process, or the store is not open yet.
    jobs: Option<Jobs>,
    /// None: no sockets for cores in this process.
    cores: Option<Cores>,
    /// None: no core serves it.
    realtime: Option<Realtime>,
    /// None: not enabled in this process.
    gems: Option<Gems>,
    /// What the observer has sampled last.
    observed: Observed,
    /// None: nothing is observed, or not by this process yet.
    observer: Option<Observer>,
    /// None: what it watches is not enabled in this process, or not open yet.
    autopilot: Option<RunningAutopilot>,
    /// The apps that the cores proxy requests to.
    apps: Arc<Apps>,
    /// Apps whose workers accept connections themselves.
    sockets: Arc<SocketApps>,
    /// The names of apps whose processes the parent runs.
    managed_apps: BTreeSet<String>,
    /// The users of the console. None: it is not served yet.
    accounts: Option<Accounts>,
    /// Apps that operators have paused.
    paused_apps: PausedApps,
    access_log: Option<AccessLog>,
    tracer: Tracer,
    /// The task that exports traces.
    trace_export: ShutdownToken,
    /// The workers of the apps, as reported by the parent, and the sender of commands to it.
    reported: Arc<Mutex<Reported>>,
    parent_commands: ParentCommands,
    /// The tasks that manage the workers.
    workers: ShutdownToken,
    /// Cancelled to close realtime's connections: another process takes over, or Weir shuts down.
    draining: CancellationToken,
    /// Cancelled to close WebSockets and event streams of apps.
    streams_end: CancellationToken,
    /// The delay until then after another process has taken over: the current `front.stream_drain`.
    stream_drain: Cell<Duration>,
    http: ShutdownToken,
    realtime_requests: RealtimeRequests,
    /// Set once another process has taken over.
    successor: Arc<OnceLock<Successor>>,
    locks: HeldLocks,
}

/// Locks that another service process waits for.
#[derive(Debug, Default)]
struct HeldLocks {
    histories: Option<HeldLock>,
    jobs_and_pages: Option<HeldLock>,
}

/// The parts that are not served yet.
#[derive(Debug)]
pub(crate) struct Unopened {
    only: Vec<Part>,
    inherited: Inherited,
    registry: Registry,
    /// None: there are no sockets for cores.
    sockets: Option<Sockets>,
    /// None: jobs are not enabled here.
    jobs_socket: Option<JobsSocket>,
    /// None: realtime is not enabled here, or already has its lock.
    histories: Option<HandoverLock>,
    jobs_and_pages: HandoverLock,
}

impl Weir {
    /// Prepares everything possible before serving, so that errors in the settings appear while
    /// another service process may still serve. `only` are the enabled parts (empty: all).
    pub(crate) async fn prepare(
        settings: &Settings,
        only: &[Part],
        mut inherited: Inherited,
    ) -> anyhow::Result<(Self, Unopened)> {
        let clock = Clock::system();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(&clock)));
        let apps = apps(settings, only, &clock, &mut registry)?;
        let (tracer, trace_export) = start_tracing(settings, &clock, &mut registry);
        let paused_apps = PausedApps::new(Arc::clone(&apps), settings.paused_apps_file());
        paused_apps.restore();
        let mut weir = Self {
            apps,
            paused_apps,
            managed_apps: BTreeSet::new(),
            accounts: None,
            sockets: Arc::new(SocketApps::take(settings, &mut inherited, &mut registry)),
            clock,
            jobs: None,
            cores: None,
            realtime: None,
            gems: None,
            observed: Observed::default(),
            observer: None,
            autopilot: None,
            access_log: None,
            tracer,
            trace_export,
            reported: Arc::default(),
            parent_commands: ParentCommands::default(),
            workers: ShutdownToken::new(),
            draining: CancellationToken::new(),
            streams_end: CancellationToken::new(),
            stream_drain: Cell::new(settings.front.stream_drain),
            http: ShutdownToken::new(),
            realtime_requests: RealtimeRequests::default(),
            successor: Arc::default(),
            locks: HeldLocks::default(),
        };
        let certificates = TlsMetrics::register(&mut registry);
        let sockets = Sockets::take(settings, &mut inherited, &certificates)?;
        let take_socket = || JobsSocket::take(settings, &mut inherited, &certificates);
        let jobs_socket = Part::Jobs.is_among(only).then(take_socket).transpose()?;
        if are_gems_enabled(settings, only) {
            weir.gems = Some(Gems::open(settings, &weir.clock, &mut registry).await?);
        }
        let has_realtime = sockets.as_ref().is_some_and(Sockets::have_realtime);
        let is_realtime_enabled = has_realtime && Part::Realtime.is_among(only);
        let histories = is_realtime_enabled
            .then(|| HandoverLock::open(LockedResource::Histories, &settings.data_dir));
        let histories = histories.transpose()?;
        let jobs_and_pages = HandoverLock::open(LockedResource::JobsAndPages, &settings.data_dir)?;
        if let Some(channel) = inherited.control() {
            let metrics = RecyclingMetrics::register(&mut registry);
            weir.manage_workers(settings, channel, metrics).await?;
        }
        let only = only.to_vec();
        let unopened =
            Unopened { only, inherited, registry, sockets, jobs_socket, histories, jobs_and_pages };
        Ok((weir, unopened))
    }

    /// Serves everything that needs no store, so that clients of the front and of realtime do not
    /// wait for it. Calls `on_standby` when another service process may begin to end. With realtime
    /// that is before anything is served, because the histories of channels have one owner.
    pub(crate) async fn serve(
        &mut self,
        settings: &Settings,
        unopened: &mut Unopened,
        on_standby: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let Unopened { only, registry, sockets, histories, .. } = unopened;
        let has_histories = histories.is_some() && !settings.realtime.apps.is_empty();
        let mut sockets = sockets.take();
        if !has_histories && let Some(sockets) = sockets.take() {
            self.serve_cores(settings, only, sockets, registry).await?;
        }
        on_standby();
        if let Some(lock) = histories.take() {
            self.locks.histories = Some(lock.acquire().await?);
        }
        match sockets {
            Some(sockets) => self.serve_cores(settings, only, sockets, registry).await,
            None => Ok(()),
        }
    }

    /// Starts to manage the workers that the parent runs.
    async fn manage_workers(
        &mut self,
        settings: &Settings,
        channel: UnixStream,
        metrics: RecyclingMetrics,
    ) -> anyhow::Result<()> {
        let processes = settings.front.apps.iter().filter_map(|app| {
            let AppSettings { name, hosts, .. } = &app.settings;
            let host = hosts.first().cloned().unwrap_or_else(|| "localhost".to_owned());
            Some((name.clone(), (app.processes.clone()?, host)))
        });
        let job_groups = settings.workers.iter();
        let job_groups =
            job_groups.map(|(name, workers)| (name.clone(), workers.launch.recycling.clone()));
        let of_limited = settings.limited_groups().into_iter().filter_map(|group| {
            let limited_of = group.jobs.as_ref()?.limited_of.as_ref()?;
            let recycling = settings.workers.get(limited_of)?.launch.recycling.clone();
            Some((group.name.to_string(), recycling))
        });
        let job_groups = job_groups.chain(of_limited);
        let managed = ManagedApps {
            apps: Arc::clone(&self.apps),
            sockets: Arc::clone(&self.sockets),
            processes: processes.collect(),
            job_groups: job_groups.collect(),
        };
        self.managed_apps = managed.processes.keys().cloned().collect();
        let (reported, probes) = (Arc::clone(&self.reported), self.workers.clone());
        let metrics_and_draining = (metrics, self.draining.clone());
        let (workers, parent_commands, snapshot_done) =
            Workers::new(channel, managed, reported, probes, &self.clock, metrics_and_draining)?;
        self.parent_commands = ParentCommands(Some(parent_commands));
        self.workers.spawn(workers.run());
        // The first request already finds the running workers.
        if tokio::time::timeout(WORKERS_TIMEOUT, snapshot_done).await.is_err() {
            tracing::warn!("the parent has sent no list of workers; continuing without it");
        }
        Ok(())
    }

    /// Serves the sockets of the cores.
    async fn serve_cores(
        &mut self,
        settings: &Settings,
        only: &[Part],
        sockets: Sockets,
        registry: &mut Registry,
    ) -> anyhow::Result<()> {
        if sockets.have_realtime() && Part::Realtime.is_among(only) {
            let (cores, draining) = (sockets.cores(settings), self.draining.clone());
            let (clock, tracer) = (&self.clock, self.tracer.clone());
            let starting = Realtime::start(settings, cores, registry, clock, draining, tracer);
            self.realtime = Some(starting.await?);
        }
        let shards = self.realtime.as_ref().map(Realtime::shards);
        let (apps, streams_end) = (Arc::clone(&self.apps), self.streams_end.clone());
        let drain_window = settings.realtime.settings.drain_window;
        let log_metrics = AccessLogMetrics::register(registry);
        let log = settings.front.access_log.clone().filter(|_| Part::Front.is_among(only));
        let log = log.map(|log| AccessLog::open(log, log_metrics)).transpose();
        self.access_log = log.context("front.access_log.path")?;
        let proxy_settings = ProxySettings {
            trusted_proxies: settings.front.trusted_proxies.clone().into(),
            access_log: self.access_log.clone(),
            tracer: self.tracer.clone(),
        };
        let (front_listener, realtime_requests) =
            (sockets.front_listener(), self.realtime_requests.clone());
        let successor = Arc::clone(&self.successor);
        let gems = self.gems.as_ref();
        let gems = gems.map(|gems| gems.mounts(sockets.gems_listener(), front_listener));
        let service = move |core| {
            let drain = Drain { started: streams_end.clone(), window: drain_window };
            Rc::new(Front {
                realtime: shards.as_ref().map(|shards| shards(core)),
                proxy: Proxy::new(Arc::clone(&apps), proxy_settings.clone(), core, drain),
                gems: gems.clone(),
                front_listener,
                realtime_requests: realtime_requests.clone(),
                successor: Arc::clone(&successor),
            })
        };
        let cores = Cores::start(settings, sockets, registry, &self.clock, service)?;
        self.watch_certificates("front.tls", cores.tls().front.as_ref());
        self.watch_certificates("gems.tls", cores.tls().gems.as_ref());
        self.cores = Some(cores);
        Ok(())
    }

    /// Reloads changed certificates until the end.
    fn watch_certificates(&self, setting: &'static str, tls: Option<&Arc<Tls>>) {
        let Some(reloading) = tls.map(|tls| Arc::clone(tls).watch(setting)) else {
            return;
        };
        let http = self.http.clone();
        self.http.spawn(async move {
            tokio::select! {
                () = reloading => {}
                () = http.requested() => {}
            }
        });
    }

    /// Opens the store, if jobs are enabled, and serves all remaining sockets.
    pub(crate) async fn open(
        &mut self,
        settings: &Settings,
        unopened: Unopened,
    ) -> anyhow::Result<()> {
        let (pages, mut inherited) = self.open_parts(settings, unopened).await?;
        pages.serve(&mut inherited, &self.http)
    }

    /// Opens the store, and returns what the pages read, with the sockets that are not served yet.
    async fn open_parts<'a>(
        &mut self,
        settings: &'a Settings,
        unopened: Unopened,
    ) -> anyhow::Result<(Pages<'a>, Inherited)> {
        let Unopened { only, inherited, mut registry, jobs_socket, jobs_and_pages, .. } = unopened;
        self.locks.jobs_and_pages = Some(tokio::select! {
            lock = jobs_and_pages.acquire() => lock?,
            error = ended(&mut self.cores) => bail!(error),
        });
        self.restore_operator_state();
        if let Some(gems) = &mut self.gems {
            gems.start(&settings.data_dir)?;
        }
        let live = Live::new(&settings.console.limits);
        live.metrics().register(&mut registry);
        if let Some(jobs_socket) = jobs_socket {
            let (clock, tracer) = (&self.clock, self.tracer.clone());
            let opening = Jobs::start(settings, jobs_socket, &mut registry, clock, tracer);
            self.jobs = Some(tokio::select! {
                jobs = opening => jobs?,
                error = ended(&mut self.cores) => bail!(error),
            });
            self.watch_certificates("jobs.tls", self.jobs.as_ref().and_then(Jobs::tls));
        }
        if self.jobs.is_some() {
            self.workers.spawn(job_durability::log(settings.clone(), self.draining.clone()));
        }
        let jobs = self.jobs.as_ref().map(Jobs::handle);
        shedding::start(settings, &self.apps, jobs, (&self.workers, &self.draining));
        self.start_autopilot(settings, &only, &mut registry)?;
        Ok((self.pages(settings, only, live, registry)?, inherited))
    }

    /// Starts the autopilot if this process has what it watches.
    fn start_autopilot(
        &mut self,
        settings: &Settings,
        only: &[Part],
        registry: &mut Registry,
    ) -> anyhow::Result<()> {
        let jobs = match settings.autopilot_system() {
            JobSystem::JobServer => {
                self.jobs.as_ref().map(|jobs| WatchedJobs::JobServer(jobs.handle()))
            }
            JobSystem::Sidekiq => is_observing(settings, only).then(|| WatchedJobs::Sidekiq {
                observed: self.observed.clone(),
                reported: Arc::clone(&self.reported),
                parent_commands: self.parent_commands.clone(),
            }),
        };
        let start = |jobs| RunningAutopilot::start(settings, jobs, &self.clock, registry);
        self.autopilot = jobs.map(start).transpose()?;
        Ok(())
    }

    fn pages<'a>(
        &mut self,
        settings: &'a Settings,
        only: Vec<Part>,
        live: Live,
        mut registry: Registry,
    ) -> anyhow::Result<Pages<'a>> {
        let front = self.admin_front(settings);
        let latest = live.clone();
        let verdict = CurrentVerdict::new(move || latest.verdict());
        registry.register_collector(Box::new(VerdictMetrics::new(verdict.clone())));
        let measured = self.start_observing(settings, &only, &front, &verdict, &mut registry)?;
        let (jobs, realtime) = (self.jobs.as_ref(), self.realtime.as_ref());
        registry.register_collector(Box::new(WorkersMetrics(front.clone())));
        let accounts = Accounts::new(&settings.console);
        self.accounts = Some(accounts.clone());
        let audit = self.open_audit_log(settings, &mut registry)?;
        Ok(Pages {
            accounts,
            audit,
            settings,
            clock: self.clock.clone(),
            jobs: jobs.map(Jobs::handle),
            realtime: realtime.map(Realtime::admin_handles),
            gems: self.gems.as_ref().map(Gems::admin_handles),
            autopilot: self.autopilot.as_ref().map(RunningAutopilot::handle),
            front,
            observed: self.observer.as_ref().map(|_| self.observed.clone()),
            measured,
            restart: Restart {
                parent_commands: self.parent_commands.clone(),
                deadline: settings.supervisor.replace_deadline,
            },
            facts: self.facts(settings, &only),
            only,
            live,
            verdict,
            registry,
        })
    }

    fn open_audit_log(
        &self,
        settings: &Settings,
        registry: &mut Registry,
    ) -> anyhow::Result<AuditLog> {
        let metrics = AuditMetrics::default();
        metrics.register(registry);
        let (folder, clock) = (settings.audit_folder(), self.clock.clone());
        let log = AuditLog::open(&folder, settings.admin.audit_bytes_max, clock, metrics);
        log.context("the thread of the audit log cannot be started")
    }

    /// Starts to measure Weir's own parts and to observe the configured sources.
    fn start_observing(
        &mut self,
        settings: &Settings,
        only: &[Part],
        front: &weir_admin::workers::Front,
        verdict: &CurrentVerdict,
        registry: &mut Registry,
    ) -> anyhow::Result<Measured> {
        let apps = Part::Front.is_among(only).then(|| front.clone());
        let measured =
            Measured::new(&self.clock, self.jobs.as_ref().map(Jobs::handle), apps, verdict.clone());
        self.http.spawn(measured.clone().run(self.http.clone()));
        if is_observing(settings, only) {
            let observed = self.observed.clone();
            self.observer = Observer::start(settings, &self.clock, observed, &measured, registry)?;
        }
        Ok(measured)
    }

    /// Restores what operators have changed: until now their requests went to the previous process.
    fn restore_operator_state(&self) {
        self.paused_apps.restore();
        let switches = [
            self.realtime.as_ref().map(|it| it.admin_handles().switches),
            self.gems.as_ref().map(|it| it.admin_handles().switches),
        ];
        switches.iter().flatten().for_each(Switchboard::read_again);
    }

    fn facts(&self, settings: &Settings, only: &[Part]) -> Facts {
        let gems_mount = self.gems.as_ref().and_then(|_| settings.gems.mount());
        Facts {
            clock: self.clock.clone(),
            started: self.clock.now(),
            data_dir: settings.data_dir.display().to_string(),
            only: only.iter().map(|part| part.name()).collect(),
            jobs_listen: self.jobs.as_ref().map(Jobs::address),
            cores: self.cores.as_ref().map(Cores::addresses).unwrap_or_default(),
            gems_mount: gems_mount.map(str::to_owned),
        }
    }

    fn admin_front(&self, settings: &Settings) -> weir_admin::workers::Front {
        weir_admin::workers::Front {
            clock: self.clock.clone(),
            apps: Arc::clone(&self.apps),
            sockets: Arc::clone(&self.sockets) as _,
            groups: Arc::new(groups(settings)),
            paused_apps: self.paused_apps.clone(),
            reported: Arc::clone(&self.reported),
            parent_commands: self.parent_commands.clone(),
            autopilot: self.autopilot.as_ref().map(RunningAutopilot::handle),
        }
    }
}

/// Limit of the time until the parent reports the workers.
const WORKERS_TIMEOUT: Duration = Duration::from_secs(5);

fn are_gems_enabled(settings: &Settings, only: &[Part]) -> bool {
    settings.gems.is_enabled && Part::Gems.is_among(only)
}

/// Returns the tracer, and the running task that exports its spans, if there is a collector.
fn start_tracing(
    settings: &Settings,
    clock: &Clock,
    registry: &mut Registry,
) -> (Tracer, ShutdownToken) {
    let metrics = TraceMetrics::register(registry);
    let (tracer, exporter) = exporter::create(&settings.traces, clock.clone(), metrics);
    let running = ShutdownToken::new();
    if let Some(exporter) = exporter {
        running.spawn(exporter.run(running.clone()));
    }
    (tracer, running)
}

/// Returns whether this process observes the sources of `[observe]`: for the console, or for an autopilot of the workers that
/// this Weir runs.
fn is_observing(settings: &Settings, only: &[Part]) -> bool {
    let is_steering = settings.autopilot_system() == JobSystem::Sidekiq
        && settings.autopilot.manage.iter().any(|managed| managed.group().is_some());
    Part::Console.is_among(only) || is_steering && Part::Workers.is_among(only)
}

/// Returns the apps of the front, where it is enabled.
fn apps(
    settings: &Settings,
    only: &[Part],
    clock: &Clock,
    registry: &mut Registry,
) -> anyhow::Result<Arc<Apps>> {
    let all = settings.front.apps.iter().filter(|app| app.sockets.is_none());
    let enabled = all.filter(|_| Part::Front.is_among(only));
    let apps: anyhow::Result<Vec<_>> = enabled.map(load_maintenance_page).collect();
    Ok(Apps::new(apps?, clock, &FrontMetrics::register(registry)))
}

fn load_maintenance_page(app: &App) -> anyhow::Result<AppSettings> {
    let mut settings = app.settings.clone();
    let page =
        app.page().map_err(|error| anyhow!("maintenance_page of {}: {error}", settings.name))?;
    settings.maintenance_page = page.map(Into::into);
    Ok(settings)
}

fn tcp_listener(inherited: &mut Inherited, part: Part) -> anyhow::Result<Option<TcpListener>> {
    inherited.take(part.name()).map(|descriptor| adopt(part, descriptor)).transpose()
}

fn adopt(part: Part, descriptor: OwnedFd) -> anyhow::Result<TcpListener> {
    match Listener::adopt(part.name(), descriptor)? {
        Listener::Tcp(listener) => Ok(listener),
        Listener::Unix(_) => bail!("{} was handed a unix socket", part.name()),
    }
}
