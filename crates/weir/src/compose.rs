//! The composition root: the only place that knows every part and joins them.

mod end;
mod jobs;
mod pages;
mod realtime;

use std::future::pending;
use std::net::TcpListener;
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
    jobs: Jobs,
    /// None: it has no socket here.
    realtime: Option<Realtime>,
    http: Shutdown,
}

/// A part that ended by itself, and how.
#[derive(Debug)]
pub(crate) struct Joined(pub(crate) String);

impl Weir {
    /// Opens the store and serves every socket that was handed over.
    pub(crate) async fn start(
        settings: &Settings,
        mut inherited: Inherited,
    ) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let live = Live::new(&settings.console.limits);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new(&clock)));
        live.metrics().register(&mut registry);
        let jobs = Jobs::start(settings, &mut inherited, &mut registry, &clock).await?;
        let realtime = Realtime::start(settings, &mut inherited, &mut registry, &clock).await?;
        let http = Shutdown::new();
        let pages = Pages {
            settings,
            clock: &clock,
            handle: jobs.handle(),
            realtime: realtime.as_ref().map(Realtime::for_operators),
            facts: Facts::new(
                &clock,
                settings,
                jobs.address(),
                realtime.as_ref().map(Realtime::addresses),
            ),
            live,
            registry,
        };
        pages.serve(&mut inherited, &http)?;
        Ok(Self { clock, jobs, realtime, http })
    }

    /// Resolves when a part has ended by itself, which none should.
    pub(crate) async fn joined(&mut self) -> Joined {
        let realtime = async {
            match &mut self.realtime {
                Some(realtime) => realtime.ended().await,
                None => pending().await,
            }
        };
        Joined(tokio::select! {
            why = self.jobs.ended() => why,
            why = realtime => why,
        })
    }

    /// Whether the job server answers within `patience`, if only "busy".
    pub(crate) async fn answers(&self, patience: Duration) -> bool {
        self.jobs.answers(patience).await
    }

    /// Puts new settings in force; answers what needs a restart. `wants_realtime`: it was not
    /// started without that part.
    pub(crate) async fn reload(
        &self,
        settings: &Settings,
        wants_realtime: bool,
    ) -> anyhow::Result<Vec<String>> {
        let mut kept = self.jobs.reload(settings).await?;
        match &self.realtime {
            Some(realtime) => realtime.reload(settings)?,
            // Its sockets are bound when Weir starts.
            None if wants_realtime && settings.has_front() => kept.push("realtime.apps".to_owned()),
            None => {}
        }
        Ok(kept)
    }

    /// Ends everything, in order:
    /// 1. nobody new over HTTP, live streams end; nobody new at the job server and at realtime;
    /// 2. what runs is finished, at most for `deadline` (zero: cut off at once);
    /// 3. the store is closed: what was acknowledged is durable;
    /// 4. nobody publishes any more: histories are saved, and what the applications' servers are to
    ///    be told is sent, in what is left of the time.
    pub(crate) async fn stop(self, deadline: Duration) -> anyhow::Result<()> {
        let began = self.clock.now();
        let left_of_realtime = self.realtime.as_ref().map(Realtime::left);
        let realtime = async {
            match self.realtime {
                Some(realtime) => realtime.stop(deadline).await,
                None => Ok(()),
            }
        };
        let (jobs, realtime, drained) =
            tokio::join!(self.jobs.stop(deadline), realtime, self.http.drain(deadline));
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

fn tcp_listener(inherited: &mut Inherited, part: Part) -> anyhow::Result<Option<TcpListener>> {
    let Some(descriptor) = inherited.take(part.name()) else {
        return Ok(None);
    };
    match Listener::adopt(part.name(), descriptor)? {
        Listener::Tcp(listener) => Ok(Some(listener)),
        Listener::Unix(_) => bail!("{} was handed a unix socket", part.name()),
    }
}
