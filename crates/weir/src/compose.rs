//! The composition root: the only place that knows every part and joins them.

mod cores;
mod end;
mod jobs;
mod pages;
mod realtime;
#[cfg(test)]
mod tests;
mod workers;

use std::future::pending;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::shutdown::{Drained, Shutdown};
use weir_console::live::Live;
use weir_front::{AppSettings, Apps, Drain, FrontMetrics, Proxy};
use weir_net::metrics::TlsMetrics;
use weir_net::{Listener, Tls};
use weir_supervisor::inherited::Inherited;

pub(crate) use self::cores::Addresses;
use self::cores::{Cores, Sockets};
use self::jobs::Jobs;
use self::pages::Pages;
use self::realtime::Realtime;
use self::workers::Workers;
use crate::config::Settings;
use crate::front::Front;
use crate::part::Part;
use crate::process_metrics::ProcessMetrics;
use crate::status::Facts;
use crate::workers_admin::{self, Asked, Reported};

/// All parts, running.
pub(crate) struct Weir {
    clock: Clock,
    /// None: not wanted in this process, or the store is not open yet.
    jobs: Option<Jobs>,
    /// None: they have no socket here.
    cores: Option<Cores>,
    /// None: no core serves it.
    realtime: Option<Realtime>,
    /// What the cores pass on to apps.
    apps: Arc<Apps>,
    /// What the parent has reported of the apps' workers, and the way to tell it something.
    reported: Arc<Mutex<Reported>>,
    orders: Option<mpsc::Sender<Asked>>,
    /// Those who steer the workers.
    workers: Shutdown,
    /// Says that WebSockets and streams of events are to be closed.
    draining: CancellationToken,
    http: Shutdown,
    certificates: TlsMetrics,
}

/// What waits until the store is open.
#[derive(Debug)]
pub(crate) struct Unopened {
    only: Vec<Part>,
    inherited: Inherited,
    registry: Registry,
}

/// A part that ended by itself, and how.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) String);

impl Weir {
    /// Serves what needs no store. [`Weir::open`] serves the rest, which may take long: clients of
    /// realtime do not wait for it. Of the parts, `only` these are wanted (none: all).
    pub(crate) async fn start(
        settings: &Settings,
        only: &[Part],
        mut inherited: Inherited,
    ) -> anyhow::Result<(Self, Unopened)> {
        let clock = Clock::system();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(&clock)));
        let mut weir = Self {
            apps: apps(settings, only, &clock, &mut registry),
            clock,
            jobs: None,
            cores: None,
            realtime: None,
            reported: Arc::default(),
            orders: None,
            workers: Shutdown::new(),
            draining: CancellationToken::new(),
            http: Shutdown::new(),
            certificates: TlsMetrics::register(&mut registry),
        };
        if let Some(channel) = inherited.control() {
            weir.steer_workers(settings, channel)?;
        }
        if let Some(sockets) = Sockets::take(&mut inherited)? {
            weir.serve(settings, only, sockets, &mut registry).await?;
        }
        Ok((weir, Unopened { only: only.to_vec(), inherited, registry }))
    }

    /// Steers the workers that the parent runs.
    fn steer_workers(&mut self, settings: &Settings, channel: UnixStream) -> anyhow::Result<()> {
        let apps = settings.front.apps.iter();
        let processes =
            apps.filter_map(|app| Some((app.settings.name.clone(), app.processes.clone()?)));
        let (apps, probes) = (Arc::clone(&self.apps), self.workers.clone());
        let reported = Arc::clone(&self.reported);
        let (workers, orders) =
            Workers::new(channel, apps, reported, processes.collect(), probes, &self.clock)?;
        self.orders = Some(orders);
        self.workers.spawn(workers.run());
        Ok(())
    }

    /// Serves the sockets of the cores.
    async fn serve(
        &mut self,
        settings: &Settings,
        only: &[Part],
        sockets: Sockets,
        registry: &mut Registry,
    ) -> anyhow::Result<()> {
        if Part::Realtime.is_among(only) {
            let (cores, draining) = (sockets.cores(settings), self.draining.clone());
            let starting = Realtime::start(settings, cores, registry, &self.clock, draining);
            self.realtime = Some(starting.await);
        }
        let shards = self.realtime.as_ref().map(Realtime::shards);
        let (apps, draining) = (Arc::clone(&self.apps), self.draining.clone());
        let drain_window = settings.realtime.settings.drain_window;
        let front_listener = sockets.front_listener();
        let service = move |core| {
            let drain = Drain { begun: draining.clone(), window: drain_window };
            Rc::new(Front {
                realtime: shards.as_ref().map(|shards| shards(core)),
                proxy: Proxy::new(Arc::clone(&apps), core, drain),
                front_listener,
            })
        };
        let certificates = &self.certificates;
        let cores = Cores::start(settings, sockets, registry, &self.clock, certificates, service)?;
        self.watch("front.tls", cores.tls());
        self.cores = Some(cores);
        Ok(())
    }

    /// Takes new certificates as they come, until the end.
    fn watch(&self, setting: &'static str, tls: Option<&Arc<Tls>>) {
        let Some(watching) = tls.map(|tls| Arc::clone(tls).watch(setting)) else { return };
        let http = self.http.clone();
        self.http.spawn(async move {
            tokio::select! {
                () = watching => {}
                () = http.requested() => {}
            }
        });
    }

    /// Opens the store, where jobs are wanted, and serves every socket that is left.
    pub(crate) async fn open(
        &mut self,
        settings: &Settings,
        unopened: Unopened,
    ) -> anyhow::Result<()> {
        let Unopened { only, mut inherited, mut registry } = unopened;
        let live = Live::new(&settings.console.limits);
        live.metrics().register(&mut registry);
        if Part::Jobs.is_among(&only) {
            let (clock, certificates) = (&self.clock, &self.certificates);
            let opening = Jobs::start(settings, &mut inherited, &mut registry, clock, certificates);
            self.jobs = Some(tokio::select! {
                jobs = opening => jobs?,
                why = ended(&mut self.cores) => bail!(why),
            });
            self.watch("jobs.tls", self.jobs.as_ref().and_then(Jobs::tls));
        }
        let (jobs, realtime) = (self.jobs.as_ref(), self.realtime.as_ref());
        let pages = Pages {
            settings,
            clock: &self.clock,
            jobs: jobs.map(Jobs::handle),
            realtime: realtime.map(Realtime::for_operators),
            front: workers_admin::Front {
                clock: self.clock.clone(),
                apps: Arc::clone(&self.apps),
                reported: Arc::clone(&self.reported),
                orders: self.orders.clone(),
            },
            facts: Facts {
                clock: self.clock.clone(),
                started: self.clock.now(),
                data_dir: settings.data_dir.display().to_string(),
                only,
                jobs_listen: jobs.map(Jobs::address),
                cores: self.cores.as_ref().map(Cores::addresses).unwrap_or_default(),
            },
            live,
            registry,
        };
        pages.serve(&mut inherited, &self.http)
    }

    /// Resolves when a part has ended by itself, which none should.
    pub(crate) async fn joined(&mut self) -> Joined {
        let jobs = async {
            match &mut self.jobs {
                Some(jobs) => jobs.ended().await,
                None => pending().await,
            }
        };
        Joined(tokio::select! {
            why = jobs => why,
            why = ended(&mut self.cores) => why,
        })
    }

    /// The parts that do not answer within `patience`, if only "busy". (The pages are on the thread
    /// that asks.)
    pub(crate) async fn silent(&self, patience: Duration) -> Vec<String> {
        let jobs = async {
            match &self.jobs {
                Some(jobs) if !jobs.answers(patience).await => vec!["the job server".to_owned()],
                _ => Vec::new(),
            }
        };
        let cores = async {
            match &self.cores {
                Some(cores) => cores.silent(patience).await,
                None => Vec::new(),
            }
        };
        let (mut silent, cores) = tokio::join!(jobs, cores);
        silent.extend(cores);
        silent
    }

    /// Puts new settings in force; answers what needs a restart. `wants_realtime`: it was not
    /// started without that part.
    pub(crate) async fn reload(
        &self,
        settings: &Settings,
        wants_realtime: bool,
    ) -> anyhow::Result<Vec<String>> {
        let mut kept = match &self.jobs {
            Some(jobs) => jobs.reload(settings).await?,
            None => Vec::new(),
        };
        if let Some(cores) = &self.cores {
            cores.reload(settings)?;
        }
        match &self.realtime {
            Some(realtime) => realtime.reload(settings),
            // Its sockets are bound when Weir starts.
            None if wants_realtime && settings.has_front() => kept.push("realtime.apps".to_owned()),
            None => {}
        }
        kept.extend(self.reload_apps(settings));
        Ok(kept)
    }

    /// Workers of apps come and go; a new app needs a restart, as do other limits.
    fn reload_apps(&self, settings: &Settings) -> Option<String> {
        let mut is_new = false;
        for app in settings.front.apps.iter().filter(|app| app.processes.is_none()) {
            let AppSettings { name, workers, .. } = &app.settings;
            is_new |= self.apps.set_workers(name, workers).is_err();
        }
        is_new.then(|| "front.apps".to_owned())
    }

    /// Ends everything, in order (a store that is still being opened has promised nothing, and is
    /// not waited for):
    /// 1. nobody new over HTTP, live streams end; nobody new at the job server and at realtime;
    /// 2. what runs is finished, at most for `deadline` (zero: cut off at once);
    /// 3. the store is closed: what was acknowledged is durable;
    /// 4. nobody publishes any more: histories are saved, and what the applications' servers are to
    ///    be told is sent, in what is left of the time.
    pub(crate) async fn stop(self, deadline: Duration) -> anyhow::Result<()> {
        let began = self.clock.now();
        self.draining.cancel();
        let jobs = async {
            match self.jobs {
                Some(jobs) => jobs.stop(deadline).await,
                None => Ok(()),
            }
        };
        let cores = async {
            match self.cores {
                Some(cores) => cores.stop(deadline).await,
                None => Ok(()),
            }
        };
        let (jobs, cores, drained) = tokio::join!(jobs, cores, self.http.drain(deadline));
        // Whatever is left of them has nobody to speak for any more.
        self.workers.drain(Duration::ZERO).await;
        if let Drained::DeadlinePassed { tasks_left } = drained {
            tracing::warn!(tasks_left, "requests over HTTP cut off");
        }
        if let Some(left) = self.realtime.map(Realtime::left) {
            let time_left = deadline.saturating_sub(self.clock.now().since(began));
            left.finish(time_left).await;
        }
        jobs.and(cores)
    }
}

/// The apps of the front, where it is wanted.
fn apps(settings: &Settings, only: &[Part], clock: &Clock, registry: &mut Registry) -> Arc<Apps> {
    let all = settings.front.apps.iter().map(|app| app.settings.clone());
    let apps = if Part::Front.is_among(only) { all.collect() } else { Vec::new() };
    Apps::new(apps, clock, &FrontMetrics::register(registry))
}

/// Resolves when the cores have ended by themselves; never where there are none.
async fn ended(cores: &mut Option<Cores>) -> String {
    match cores {
        Some(cores) => cores.ended().await,
        None => pending().await,
    }
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
