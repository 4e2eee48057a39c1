//! The composition root: the only place that knows every part and joins them.

mod end;
mod jobs;
mod pages;
mod realtime;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::bail;
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::shutdown::{Drained, Shutdown};
use weir_console::live::Live;
use weir_net::Listener;
use weir_supervisor::inherited::Inherited;

use self::jobs::Jobs;
use self::pages::Pages;
pub(crate) use self::realtime::Addresses;
use self::realtime::Realtime;
use crate::config::Settings;
use crate::part::Part;
use crate::process_metrics::ProcessMetrics;
use crate::status::Facts;

/// All parts, running.
pub(crate) struct Weir {
    clock: Clock,
    /// None: not wanted in this process, or the store is not open yet.
    jobs: Option<Jobs>,
    /// None: it has no socket here.
    realtime: Option<Realtime>,
    http: Shutdown,
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
        let realtime = Realtime::start(settings, &mut inherited, &mut registry, &clock).await?;
        let weir = Self { clock, jobs: None, realtime, http: Shutdown::new() };
        Ok((weir, Unopened { only: only.to_vec(), inherited, registry }))
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
            let opening = Jobs::start(settings, &mut inherited, &mut registry, &self.clock);
            self.jobs = Some(tokio::select! {
                jobs = opening => jobs?,
                why = ended(&mut self.realtime) => bail!(why),
            });
        }
        let (jobs, realtime) = (self.jobs.as_ref(), self.realtime.as_ref());
        let pages = Pages {
            settings,
            clock: &self.clock,
            jobs: jobs.map(Jobs::handle),
            realtime: realtime.map(Realtime::for_operators),
            facts: Facts {
                clock: self.clock.clone(),
                started: self.clock.now(),
                data_dir: settings.data_dir.display().to_string(),
                only,
                jobs_listen: jobs.map(Jobs::address),
                realtime: realtime.map(Realtime::addresses).unwrap_or_default(),
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
            why = ended(&mut self.realtime) => why,
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
        let realtime = async {
            match &self.realtime {
                Some(realtime) => realtime.silent(patience).await,
                None => Vec::new(),
            }
        };
        let (mut silent, cores) = tokio::join!(jobs, realtime);
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
        match &self.realtime {
            Some(realtime) => realtime.reload(settings)?,
            // Its sockets are bound when Weir starts.
            None if wants_realtime && settings.has_front() => kept.push("realtime.apps".to_owned()),
            None => {}
        }
        Ok(kept)
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
        let left_of_realtime = self.realtime.as_ref().map(Realtime::left);
        let jobs = async {
            match self.jobs {
                Some(jobs) => jobs.stop(deadline).await,
                None => Ok(()),
            }
        };
        let realtime = async {
            match self.realtime {
                Some(realtime) => realtime.stop(deadline).await,
                None => Ok(()),
            }
        };
        let (jobs, realtime, drained) = tokio::join!(jobs, realtime, self.http.drain(deadline));
        if let Drained::DeadlinePassed { tasks_left } = drained {
            tracing::warn!(tasks_left, "requests over HTTP cut off");
        }
        if let Some(left) = left_of_realtime {
            let time_left = deadline.saturating_sub(self.clock.now().since(began));
            left.finish(time_left).await;
        }
        jobs.and(realtime)
    }
}

/// Resolves when realtime has ended by itself; never where there is none.
async fn ended(realtime: &mut Option<Realtime>) -> String {
    match realtime {
        Some(realtime) => realtime.ended().await,
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
