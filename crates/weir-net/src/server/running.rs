//! Starts the cores, and reports how they ended.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use std::{fmt, io, thread};

use arc_swap::ArcSwap;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;

use super::accept::Acceptor;
use super::liveness::{self, LivenessProbe, PingReceiver};
use super::runtime::{self, CoreContext, ServerContext};
use super::{ConnectionService, CoreIndex, HttpServerLimits};
use crate::client::TrustedProxies;
use crate::{Listener, NetMetrics, Tls};

/// An address to listen on: one socket for each core, or several ([`Listener::bind_group`]). Each
/// has a backlog, which the kernel caps, so that more sockets hold more waiting connections.
#[derive(Debug)]
pub struct CoreListener {
    pub sockets: Vec<Listener>,
    /// None: without TLS.
    pub tls: Option<Arc<Tls>>,
}

/// The configuration of a server.
pub struct ServerOptions<F> {
    pub listeners: Vec<CoreListener>,
    pub cores: usize,
    pub limits: Arc<ArcSwap<HttpServerLimits>>,
    pub clock: Clock,
    pub metrics: NetMetrics,
    /// The proxies whose forwarded addresses are trusted.
    pub trusted_proxies: TrustedProxies,
    /// Creates a core's service, on the core's thread, inside its runtime.
    pub service: F,
    pub stop: ServerStop,
}

impl<F> fmt::Debug for ServerOptions<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = formatter.debug_struct("ServerOptions");
        all.field("listeners", &self.listeners).field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// The tokens and the deadline that end the cores.
#[derive(Clone, Debug)]
pub struct ServerStop {
    /// Stop accepting, because another process serves the sockets now. Each connection ends with
    /// its next response (`Connection: close`, GOAWAY), when its client disconnects, or after
    /// `idle_timeout`, so no request meets a closed connection. A drain has no deadline.
    pub drain: CancellationToken,
    /// Stop accepting and finish the requests in progress; idle connections are closed after
    /// `last_request_timeout`. Notify the service separately.
    pub graceful: CancellationToken,
    /// Cut the connections that are still open.
    pub at_once: CancellationToken,
    /// How long the requests in progress may take, from `graceful` on.
    pub deadline: Duration,
}

impl ServerStop {
    /// Creates tokens that are not cancelled, with a `deadline` as above.
    #[must_use]
    pub fn within(deadline: Duration) -> Self {
        let token = CancellationToken::new;
        Self { drain: token(), graceful: token(), at_once: token(), deadline }
    }
}

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The number of cores is 0.
    #[error("cannot serve with 0 cores; at least 1 is needed")]
    NoCores,
    /// A listener does not have a socket for each core.
    #[error(
        "listener {listener} has {sockets} sockets for {cores} cores; each core needs one of its own"
    )]
    Sockets { listener: usize, sockets: usize, cores: usize },
    /// A unix socket cannot have TLS.
    #[error(
        "listener {listener} is a unix socket, which can't have TLS; leave out its certificate"
    )]
    TlsOnUnix { listener: usize },
    /// The system provided no thread, runtime or socket.
    #[error("cannot start {thread}: {source}")]
    System { thread: String, source: io::Error },
    /// The thread panicked before its core was started.
    #[error("cannot start {thread}: it panicked while making its service")]
    Panicked { thread: String },
}

/// How the cores ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOutcome {
    pub ended: DrainOutcome,
}

/// Why the connections ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainOutcome {
    /// All ended by themselves.
    Clean,
    /// The deadline passed, or `at_once` was cancelled: this many connections were cut.
    Cut { connections: usize },
    /// A core panicked; the others were stopped.
    Panicked { core: CoreIndex },
}

/// The cores of a started server.
#[derive(Debug)]
pub struct RunningServer {
    cores: Vec<oneshot::Receiver<DrainOutcome>>,
    liveness: LivenessProbe,
}

impl RunningServer {
    /// Returns the handle that checks whether the cores still run.
    #[must_use]
    pub fn liveness(&self) -> LivenessProbe {
        self.liveness.clone()
    }

    /// Resolves once all cores have ended.
    pub async fn join(self) -> ServerOutcome {
        let mut outcome = DrainOutcome::Clean;
        for (index, core) in self.cores.into_iter().enumerate() {
            let ended = core.await.unwrap_or(DrainOutcome::Panicked { core: CoreIndex(index) });
            outcome = worse(outcome, ended);
        }
        ServerOutcome { ended: outcome }
    }
}

fn worse(one: DrainOutcome, other: DrainOutcome) -> DrainOutcome {
    match (one, other) {
        (DrainOutcome::Panicked { .. }, _) | (_, DrainOutcome::Clean) => one,
        (DrainOutcome::Cut { connections }, DrainOutcome::Cut { connections: more }) => {
            DrainOutcome::Cut { connections: connections + more }
        }
        _ => other,
    }
}

/// Starts the threads. Returns once every core is serving.
pub fn start<F, S>(start: ServerOptions<F>) -> Result<RunningServer, StartError>
where
    F: Fn(CoreIndex) -> Rc<S> + Send + Sync + Clone + 'static,
    S: ConnectionService,
{
    let ServerOptions {
        listeners,
        cores,
        limits,
        clock,
        metrics,
        trusted_proxies,
        service,
        mut stop,
    } = start;
    // A core that fails ends the others, but does not cancel the caller's token.
    stop.graceful = stop.graceful.child_token();
    let ends_others = stop.graceful.clone().drop_guard();
    let shared = Arc::new(ServerContext::new(limits, clock, metrics, trusted_proxies));
    let mut receivers = Vec::with_capacity(cores);
    let mut probes = Vec::with_capacity(cores);
    for (index, sockets) in by_core(listeners, cores)?.into_iter().enumerate() {
        let (sender, pings) = liveness::pings();
        probes.push(sender);
        let core = Starting {
            index: CoreIndex(index),
            sockets,
            shared: Arc::clone(&shared),
            service: service.clone(),
            stop: stop.clone(),
            pings,
        };
        receivers.push(core.start()?);
    }
    ends_others.disarm();
    Ok(RunningServer { cores: receivers, liveness: LivenessProbe::new(probes) })
}

/// A core's sockets, each with the index of its listener and its TLS.
type CoreSockets = Vec<(usize, Listener, Option<Arc<Tls>>)>;

fn by_core(listeners: Vec<CoreListener>, cores: usize) -> Result<Vec<CoreSockets>, StartError> {
    if cores == 0 {
        return Err(StartError::NoCores);
    }
    let mut all: Vec<CoreSockets> = (0..cores).map(|_| Vec::new()).collect();
    for (listener, group) in listeners.into_iter().enumerate() {
        let sockets = group.sockets.len();
        if sockets < cores {
            return Err(StartError::Sockets { listener, sockets, cores });
        }
        if group.tls.is_some() && group.sockets.iter().any(|one| matches!(one, Listener::Unix(_))) {
            return Err(StartError::TlsOnUnix { listener });
        }
        for (index, socket) in group.sockets.into_iter().enumerate() {
            all[index % cores].push((listener, socket, group.tls.clone()));
        }
    }
    Ok(all)
}

/// A core before its start.
struct Starting<F> {
    index: CoreIndex,
    sockets: CoreSockets,
    shared: Arc<ServerContext>,
    service: F,
    stop: ServerStop,
    pings: PingReceiver,
}

impl<F, S> Starting<F>
where
    F: Fn(CoreIndex) -> Rc<S> + Send + 'static,
    S: ConnectionService,
{
    fn start(self) -> Result<oneshot::Receiver<DrainOutcome>, StartError> {
        let thread = format!("weir-core-{}", self.index);
        let (started, is_started) = sync_channel(1);
        let (end, outcome) = oneshot::channel();
        let spawned = thread::Builder::new().name(thread.clone()).spawn(move || {
            // Also dropped by a panic.
            let ends_others = self.stop.graceful.clone().drop_guard();
            if let Some(ended) = self.run(&started) {
                // During a drain, each core ends with its own last connection.
                ends_others.disarm();
                // Fails if the server's handle was dropped.
                let _ = end.send(ended);
            }
        });
        let system = |source| StartError::System { thread: thread.clone(), source };
        spawned.map_err(system)?;
        match is_started.recv() {
            Ok(Ok(())) => Ok(outcome),
            Ok(Err(source)) => Err(system(source)),
            Err(_) => Err(StartError::Panicked { thread }),
        }
    }

    /// Runs the core. Returns None if it could not start, after sending the error to `started`.
    fn run(self, started: &SyncSender<io::Result<()>>) -> Option<DrainOutcome> {
        let mut builder = Builder::new_current_thread();
        let runtime = match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = started.send(Err(error));
                return None;
            }
        };
        runtime.block_on(async {
            let service = (self.service)(self.index);
            let core = Rc::new(CoreContext::new(service, self.shared, &self.stop));
            let acceptors: io::Result<Vec<_>> = self
                .sockets
                .into_iter()
                .map(|(listener, socket, tls)| Acceptor::new(&core, listener, socket, tls))
                .collect();
            let (acceptors, result) = match acceptors {
                Ok(acceptors) => (Some(acceptors), Ok(())),
                Err(error) => (None, Err(error)),
            };
            tokio::task::spawn_local(self.pings.reply_to_all());
            let _ = started.send(result);
            Some(runtime::serve(&core, acceptors?, &self.stop).await)
        })
    }
}
