//! The composition root: the only place that knows every part and joins them.

mod end;
mod realtime;

use std::future::pending;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::history::History;
use weir_base::shutdown::{Drained, Shutdown};
use weir_console::live::Live;
use weir_console::queue_histories::QueueHistories;
use weir_console::sampler::{self, Sampler};
use weir_console::{Deps, Routes};
use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{self, Ended, Outcome, Running, Start, Stop};
use weir_jobs::settings::Settings as JobsSettings;
use weir_net::{Listener, Tls};
use weir_supervisor::inherited::Inherited;

use self::end::End;
use self::realtime::Realtime;
use crate::config::Settings;
use crate::http::{self, Endpoint};
use crate::parent::ADMIN;
use crate::part::Part;
use crate::process_metrics::ProcessMetrics;
use crate::status::{self, Facts};

/// All parts, running.
pub(crate) struct Weir {
    clock: Clock,
    handle: Handle,
    stop: Stop,
    tls: Option<Arc<Tls>>,
    http: Shutdown,
    jobs: End<Outcome>,
    /// None: it has no socket here.
    realtime: Option<Realtime>,
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
        let (mut registry, metrics) = metrics(settings, &clock, &live);

        let tls = settings.jobs.tls.clone().map(Tls::load).transpose().context("jobs.tls")?;
        let tls = tls.map(Arc::new);
        let stop = stop(settings.shutdown_deadline);
        let listener = tcp_listener(&mut inherited, Part::Jobs)?;
        let jobs_address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let jobs = start_jobs(Start {
            listeners: listener.into_iter().collect(),
            settings: settings.jobs.settings.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            tls: tls.clone(),
            stop: stop.clone(),
        });
        let jobs = jobs.await?;
        let handle = jobs.handle();

        let realtime = Realtime::start(settings, &mut inherited, &mut registry, &clock)?;

        let http = Shutdown::new();
        let facts = Facts::new(&clock, settings, jobs_address);
        let registry = Arc::new(registry);
        let open = status::open_routes(handle.clone());
        let scrape = status::metrics_route(registry);
        let api = status::api(handle.clone(), facts.clone(), settings.admin.body_bytes_max);

        let on_socket =
            Router::new().nest("/v1", api.clone()).merge(open.clone()).merge(scrape.clone());
        let admin = Listener::adopt(ADMIN, inherited.expect(ADMIN)?)?;
        http::serve(admin, Endpoint::admin(on_socket, &settings.admin), &http)?;
        let console = tcp_listener(&mut inherited, Part::Console)?;
        let routes = Routes { api, metrics: scrape, open };
        if let Some(listener) = console {
            let jobs_url = facts.jobs_url();
            let deps = console_deps(
                &listener,
                settings,
                handle.clone(),
                clock.clone(),
                jobs_url,
                live,
                routes,
            )?;
            http.spawn(Sampler::new(&deps).run(http.clone()));
            let endpoint = Endpoint::console(weir_console::router(deps), &settings.admin);
            http::serve(Listener::Tcp(listener), endpoint, &http)?;
        }
        Ok(Self { clock, handle, stop, tls, http, jobs: End::of(jobs.join()), realtime })
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
            outcome = self.jobs.wait() => format!("the job server ended by itself: {outcome:?}"),
            why = realtime => why,
        })
    }

    /// Whether the job server answers within `patience`, if only "busy".
    pub(crate) async fn answers(&self, patience: Duration) -> bool {
        let answer = tokio::time::timeout(patience, self.handle.ready()).await;
        !matches!(answer, Ok(Err(HandleError::Gone)) | Err(_))
    }

    /// Puts new settings of the job server in force; answers what needs a restart.
    pub(crate) async fn reload_jobs(&self, settings: JobsSettings) -> anyhow::Result<Vec<String>> {
        if let Some(tls) = &self.tls {
            tls.reload().context("jobs.tls: the certificate of before stays")?;
        }
        Ok(self.handle.reload(settings).await?)
    }

    /// Puts new settings of the front and of realtime in force.
    pub(crate) fn reload_realtime(&self, settings: &Settings) -> anyhow::Result<()> {
        self.realtime.as_ref().map_or(Ok(()), |realtime| realtime.reload(settings))
    }

    /// Ends everything, in order:
    /// 1. nobody new over HTTP, live streams end; nobody new at the job server and at realtime;
    /// 2. what runs is finished, at most for `deadline` (zero: cut off at once);
    /// 3. the store is closed: what was acknowledged is durable;
    /// 4. what the applications' servers are to be told is sent, in what is left of the time.
    pub(crate) async fn stop(self, deadline: Duration) -> anyhow::Result<()> {
        let began = self.clock.now();
        if deadline.is_zero() {
            self.stop.at_once.cancel();
        }
        self.stop.graceful.cancel();
        let webhooks = self.realtime.as_ref().map(Realtime::webhooks);
        let realtime = async {
            match self.realtime {
                Some(realtime) => realtime.stop(deadline).await,
                None => Ok(()),
            }
        };
        let (jobs, realtime, drained) =
            tokio::join!(self.jobs.into_outcome(), realtime, self.http.drain(deadline));
        if let Drained::DeadlinePassed { tasks_left } = drained {
            tracing::warn!(tasks_left, "requests over HTTP cut off");
        }
        if let Ended::Cut { tasks } = jobs.ended {
            tracing::warn!(tasks, "connections to the job server cut off");
        }
        if let Some(webhooks) = webhooks {
            let left = deadline.saturating_sub(self.clock.now().since(began));
            if let Drained::DeadlinePassed { .. } = webhooks.drain(left).await {
                tracing::warn!("webhooks that were not sent yet are lost: no time is left");
            }
        }
        jobs.closed.context("the job store was not closed well")?;
        realtime
    }
}

/// Everything that a scrape shows.
fn metrics(settings: &Settings, clock: &Clock, live: &Live) -> (Registry, JobsMetrics) {
    let mut registry = Registry::default();
    let labels_max = settings.jobs.settings.limits.metrics_queues_max;
    let jobs = JobsMetrics::register(&mut registry, labels_max);
    registry.register_collector(Box::new(ProcessMetrics::new(clock)));
    live.metrics().register(&mut registry);
    (registry, jobs)
}

fn console_deps(
    listener: &TcpListener,
    settings: &Settings,
    handle: Handle,
    clock: Clock,
    jobs_url: String,
    live: Live,
    routes: Routes,
) -> anyhow::Result<Deps> {
    let mut console = settings.console.clone();
    // The port that the system chose, where it was to choose.
    console.listen = listener.local_addr()?;
    let queues_max = console.limits.chart_queues_max;
    let queue_histories =
        QueueHistories::new(&settings.history, queues_max, live.metrics().clone());
    Ok(Deps {
        handle,
        history: Arc::new(History::open(&settings.history, &sampler::COLUMNS)),
        queue_histories: Arc::new(queue_histories),
        live,
        clock,
        settings: console,
        jobs_limits: settings.jobs.settings.limits.clone(),
        jobs_url,
        routes,
    })
}

fn stop(deadline: Duration) -> Stop {
    Stop { graceful: CancellationToken::new(), at_once: CancellationToken::new(), deadline }
}

/// Opening blocks while a log is recovered, so it has a thread of its own.
async fn start_jobs(start: Start) -> anyhow::Result<Running> {
    let opening = tokio::task::spawn_blocking(move || server::start(start));
    Ok(opening.await.context("the job server panicked while it started")??)
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
