//! The job server in the service process.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::server::{
    self, JobServerOptions, JobServerOutcome, JobServerStop, OwnerEnd, RunningJobServer,
};
use weir_jobs::store::OpenStore;
use weir_net::Tls;
use weir_net::metrics::TlsMetrics;
use weir_net::tls::AlpnProtocols;
use weir_sidekiq::store::{RedisStoreOptions, ShardedStoreOptions};
use weir_supervisor::inherited::Inherited;
use weir_traces::Tracer;

use super::adopt;
use super::completion::Completion;
use weir_config::Settings;
use weir_config::part::Part;

/// The listening socket and TLS of the job server.
#[derive(Debug)]
pub(super) struct JobsSocket {
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
}

/// The running job server.
pub(super) struct Jobs {
    handle: Handle,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    stop: JobServerStop,
    running: Completion<JobServerOutcome>,
}

impl JobsSocket {
    /// Takes the inherited socket, and loads its certificate.
    pub(super) fn take(
        settings: &Settings,
        inherited: &mut Inherited,
        certificates: &TlsMetrics,
    ) -> anyhow::Result<Self> {
        let load = |tls| {
            Tls::load(tls, AlpnProtocols::Nothing, certificates.for_listener("jobs.tls"))
                .map(Arc::new)
        };
        let tls = settings.jobs.tls.clone().map(load).transpose().context("jobs.tls")?;
        let listener = adopt(Part::Jobs, inherited.expect(Part::Jobs.name())?)?;
        Ok(Self { listener, tls })
    }
}

impl Jobs {
    /// Opens the store and serves the socket.
    pub(super) async fn start(
        settings: &Settings,
        JobsSocket { listener, tls }: JobsSocket,
        registry: &mut Registry,
        clock: &Clock,
        tracer: Tracer,
    ) -> anyhow::Result<Self> {
        let stop = JobServerStop {
            graceful: CancellationToken::new(),
            at_once: CancellationToken::new(),
            deadline: settings.shutdown_deadline,
        };
        // If the start is cancelled, the server must not continue to start in the background.
        let unless_started = stop.graceful.clone().drop_guard();
        let address = listener.local_addr()?;
        let running = start(JobServerOptions {
            listeners: vec![listener],
            settings: settings.jobs.settings.clone(),
            console: settings.console.address().unwrap_or_default(),
            clock: clock.clone(),
            tracer,
            metrics: JobsMetrics::register(registry, &settings.jobs.settings.limits),
            tls: tls.clone(),
            stop: stop.clone(),
            external: redis_store(settings),
        });
        let running = running.await?;
        unless_started.disarm();
        let handle = running.handle();
        Ok(Self { handle, address, tls, stop, running: Completion::new(running.join()) })
    }

    /// Returns the handle for requests to the server.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns its TLS state; None: no TLS.
    pub(super) fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// Returns its listening address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when it has ended by itself.
    pub(super) async fn ended(&mut self) -> String {
        format!("the job server ended unexpectedly: {:?}", self.running.wait().await)
    }

    /// Returns whether it replies within `timeout`, even if only "busy".
    pub(super) async fn responds(&self, timeout: Duration) -> bool {
        let reply = tokio::time::timeout(timeout, self.handle.ready()).await;
        !matches!(reply, Ok(Err(HandleError::Gone)) | Err(_))
    }

    /// Applies new settings; returns those that need a restart.
    pub(super) async fn reload(&self, settings: &Settings) -> anyhow::Result<Vec<String>> {
        if let Some(tls) = &self.tls {
            tls.reload().context("jobs.tls: the previous certificate stays in use")?;
        }
        Ok(self.handle.reload(settings.jobs.settings.clone()).await?)
    }

    /// Stops the server: finishes running commands within `deadline` (zero: at once), then closes
    /// the store.
    pub(super) async fn stop(mut self, deadline: Duration) -> anyhow::Result<()> {
        self.stop.graceful.cancel();
        if deadline.is_zero() || tokio::time::timeout(deadline, self.running.wait()).await.is_err()
        {
            self.stop.at_once.cancel();
        }
        let outcome = self.running.into_outcome().await;
        if let OwnerEnd::Cut { tasks } = outcome.ended {
            tracing::warn!(
                tasks,
                "closed connections to the job server that were still open at the shutdown deadline"
            );
        }
        outcome.closed.context("the job store could not be closed cleanly")
    }
}

/// Returns what opens the store in Redis; `None`: another store.
fn redis_store(settings: &Settings) -> Option<Box<dyn OpenStore>> {
    let jobs = &settings.jobs;
    let node_file = settings.node_file();
    let redis = jobs.redis.clone();
    match &jobs.redis_shards[..] {
        [] => None,
        [only] => {
            let endpoint = only.endpoint.clone();
            Some(Box::new(RedisStoreOptions { endpoint, node_file, settings: redis }))
        }
        shards => {
            let shards = shards.to_vec();
            Some(Box::new(ShardedStoreOptions { shards, node_file, settings: redis }))
        }
    }
}

/// Opens the store on its own thread, since the recovery of a log blocks.
async fn start(start: JobServerOptions) -> anyhow::Result<RunningJobServer> {
    let opening = tokio::task::spawn_blocking(move || server::start(start));
    Ok(opening.await.context("the job server panicked while it started")??)
}
