//! One core: its runtime, the state that its connections share, and its shutdown.

use std::cell::{RefCell, RefMut};
use std::future::{Future, pending};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use arc_swap::{ArcSwap, Guard};
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::clock::Clock;
use weir_base::semaphore::{Full, OwnedPermit, Permit, Semaphore};
use weir_base::token_bucket::{Rate, TokenBucket};

use super::accept::Acceptor;
use super::handshakes::Handshakes;
use super::limits::CONNECTIONS_MAX;
use super::open::ConnectionPermit;
use super::running::{DrainOutcome, ServerStop};
use super::{ConnectionService, ConnectionStream, HttpRequestHead, HttpServerLimits};
use crate::NetMetrics;
use crate::client::{ClientFull, Clients, TrustedProxies};

/// The size of the shared read buffer: the longest head that the default settings allow.
const SCRATCH_BYTES: usize = 16 << 10;

/// The number of a core, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoreIndex(pub usize);

impl fmt::Display for CoreIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// The state that all cores share.
#[derive(Debug)]
pub(super) struct ServerContext {
    pub(super) limits: Arc<ArcSwap<HttpServerLimits>>,
    pub(super) clock: Clock,
    pub(super) metrics: NetMetrics,
    pub(super) clients: Clients,
    connections: Arc<Semaphore>,
    /// A std mutex: it is held for one accept, which does not wait, and only if accepts are
    /// limited.
    accepts: Mutex<TokenBucket>,
}

impl ServerContext {
    pub(super) fn new(
        limits: Arc<ArcSwap<HttpServerLimits>>,
        clock: Clock,
        metrics: NetMetrics,
        proxies: TrustedProxies,
    ) -> Self {
        let connections_max = limits.load().connections_max;
        let connections = Semaphore::new("connections", CONNECTIONS_MAX, connections_max);
        let accepts = Mutex::default();
        let clients = Clients::new(proxies, Arc::clone(&limits), metrics.clone(), clock.clone());
        Self { limits, clock, metrics, clients, connections: Arc::new(connections), accepts }
    }

    /// Calls `accept` if the bucket has a token, and takes the token if that succeeds. Otherwise
    /// returns how long it takes until there is a token.
    pub(super) fn with_token<T>(
        &self,
        rate: Rate,
        accept: impl FnOnce() -> Poll<io::Result<T>>,
    ) -> Result<Poll<io::Result<T>>, Duration> {
        let mut bucket = self.accepts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = *bucket;
        after.take(rate, self.clock.now()).map_err(|empty| empty.wait)?;
        let accepted = accept();
        if let Poll::Ready(Ok(_)) = accepted {
            *bucket = after;
        }
        Ok(accepted)
    }
}

/// Why a connection gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionLimitError {
    /// `connections_max` connections are open.
    Connections,
    /// Its client has as many connections as it may have.
    Client(ClientFull),
}

/// The state that the connections of one core share.
#[derive(Debug)]
pub(super) struct CoreContext<S> {
    service: Rc<S>,
    shared: Arc<ServerContext>,
    scratch: RefCell<Box<[u8]>>,
    lingering: Semaphore,
    handshakes: Handshakes,
    /// Counts open connections through [`ConnectionPermit`].
    tracker: TaskTracker,
    /// Cancelled: accepts no connections, and each connection ends with its next response.
    draining: CancellationToken,
    /// Cancelled: idle connections are closed, too.
    stopping: CancellationToken,
}

impl<S: ConnectionService> CoreContext<S> {
    pub(super) fn new(service: Rc<S>, shared: Arc<ServerContext>, stop: &ServerStop) -> Self {
        let limits = shared.limits.load();
        let lingering =
            Semaphore::new("refusals", "front.limits.advanced.refusals_max", limits.refusals_max);
        let handshakes = Handshakes::new(limits.tls_handshakes_max);
        drop(limits);
        Self {
            service,
            shared,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            lingering,
            handshakes,
            tracker: TaskTracker::new(),
            draining: stop.drain.child_token(),
            stopping: stop.graceful.clone(),
        }
    }

    pub(super) fn service(&self) -> &Rc<S> {
        &self.service
    }

    pub(super) fn shared(&self) -> &ServerContext {
        &self.shared
    }

    pub(super) fn limits(&self) -> Guard<Arc<HttpServerLimits>> {
        self.shared.limits.load()
    }

    pub(super) fn metrics(&self) -> &NetMetrics {
        &self.shared.metrics
    }

    pub(super) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    pub(super) fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    pub(super) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Returns a permit for a rejected connection that lingers until its client has read why.
    pub(super) fn lingering_permit(&self) -> Result<Permit<'_>, Full> {
        self.lingering.set_limit(self.limits().refusals_max);
        self.lingering.try_acquire()
    }

    pub(super) fn clients(&self) -> &Clients {
        &self.shared.clients
    }

    /// Returns a permit for a connection from `address`; the limits apply over all cores.
    pub(super) fn open(
        &self,
        address: Option<IpAddr>,
    ) -> Result<ConnectionPermit, ConnectionLimitError> {
        let share = self.clients().connection(address).map_err(ConnectionLimitError::Client)?;
        let connections = &self.shared.connections;
        let limit = self.limits().connections_max;
        if connections.usage().limit != limit {
            connections.set_limit(limit);
        }
        let permit: OwnedPermit = connections
            .try_acquire_owned()
            .map_err(|Full { .. }| ConnectionLimitError::Connections)?;
        let gauge: &Gauge = self.shared.metrics.open();
        Ok(ConnectionPermit::new(gauge, permit, self.tracker.token(), share))
    }

    /// Returns the buffer that the core's connections read into. Do not hold it across an await.
    pub(super) fn scratch(&self) -> RefMut<'_, Box<[u8]>> {
        self.scratch.borrow_mut()
    }

    /// Returns whether the head requests an upgrade that the service claims.
    pub(super) fn claims(&self, head: &HttpRequestHead<'_>) -> bool {
        head.requests_upgrade() && self.service.claims_upgrade(head.path())
    }

    /// Reads and discards. Resolves to false if the client has disconnected.
    pub(super) fn poll_discard(
        &self,
        context: &mut Context<'_>,
        stream: &mut ConnectionStream,
    ) -> Poll<bool> {
        let read = ready!(stream.poll_read(context, &mut self.scratch()));
        Poll::Ready(matches!(read, Ok(1..)))
    }

    /// Runs `work`, which precedes a request, during a drain as usual: its request is served like
    /// any other. Once the core stops, `work` gets `last_request_timeout`, because the request may
    /// be on its way. Returns None if that was too short.
    pub(super) async fn while_serving<F: Future>(&self, work: F) -> Option<F::Output> {
        let ended = async {
            self.stopping.cancelled().await;
            sleep(self.limits().last_request_timeout).await;
        };
        tokio::select! {
            biased;
            output = work => Some(output),
            () = ended => None,
        }
    }
}

/// Runs a core after its start, until it ends.
pub(super) async fn serve<S: ConnectionService>(
    core: &Rc<CoreContext<S>>,
    acceptors: Vec<Acceptor<S>>,
    stop: &ServerStop,
) -> DrainOutcome {
    let work = async {
        Rc::clone(&core.service).run().await;
        pending().await
    };
    tokio::select! {
        ended = work => ended,
        ended = serve_until_stopped(core, acceptors, stop) => ended,
    }
}

/// Serves until the core is stopped, and then shuts it down in order.
async fn serve_until_stopped<S: ConnectionService>(
    core: &CoreContext<S>,
    acceptors: Vec<Acceptor<S>>,
    stop: &ServerStop,
) -> DrainOutcome {
    let mut accepting = JoinSet::new();
    for acceptor in acceptors {
        accepting.spawn_local(acceptor.run());
    }
    tokio::select! {
        () = core.draining.cancelled() => {}
        () = core.stopping.cancelled() => {}
        () = stop.at_once.cancelled() => core.stopping.cancel(),
        // Acceptors only end during a drain, so this one has panicked.
        Some(Err(error)) = accepting.join_next() => resume(error),
    }
    core.draining.cancel();
    // 1. Accept no more: the acceptors end, and this core's sockets are closed.
    while let Some(ended) = accepting.join_next().await {
        ended.unwrap_or_else(resume);
    }
    // 2. Finish: a connection ends with its next response while the core drains, or soon when it
    // stops; the service ends those that it took over.
    core.tracker.close();
    let deadline = async {
        core.stopping.cancelled().await;
        sleep(stop.deadline).await;
    };
    let drained = tokio::select! {
        biased;
        () = core.tracker.wait() => true,
        () = stop.at_once.cancelled() => core.tracker.is_empty(),
        () = deadline => false,
    };
    // 3. Connections that are still open are cut when the runtime is dropped.
    if drained {
        DrainOutcome::Clean
    } else {
        DrainOutcome::Cut { connections: core.tracker.len() }
    }
}

/// Continues a task's panic on the core's thread.
fn resume(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use hyper::body::Incoming;
    use hyper::{Request, Response};

    use super::super::{Peer, RejectedUpgrade, ResponseBody, Upgrade};
    use super::*;
    use crate::client::{ClientLimits, ClientUse};
    use crate::metrics::HttpServerLimit;

    struct Nothing;

    impl ConnectionService for Nothing {
        fn claims_upgrade(&self, _path: &str) -> bool {
            false
        }

        fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
            Err(upgrade.reject(hyper::StatusCode::NOT_FOUND, ""))
        }

        async fn http(self: Rc<Self>, _: Request<Incoming>, _: Peer) -> Response<ResponseBody> {
            Response::new(ResponseBody::empty())
        }
    }

    fn core(connections_max: u32, of_client: u32) -> CoreContext<Nothing> {
        let clients = ClientLimits { connections_max: of_client, ..ClientLimits::default() };
        let limits = HttpServerLimits { connections_max, clients, ..HttpServerLimits::default() };
        let limits = Arc::new(ArcSwap::from_pointee(limits));
        let proxies = TrustedProxies::default();
        let shared = ServerContext::new(limits, Clock::system(), NetMetrics::detached(), proxies);
        CoreContext::new(Rc::new(Nothing), Arc::new(shared), &ServerStop::within(Duration::ZERO))
    }

    /// Without sockets, because clients on this machine have no limit.
    #[test]
    fn the_connection_limit_per_client_leaves_room_for_others() {
        let core = core(4, 2);
        let open = |text: &str| core.open(Some(text.parse().expect("an address")));
        let mine = [open("192.0.2.7").expect("a place"), open("192.0.2.7").expect("a place")];
        let full = ConnectionLimitError::Client(ClientFull(ClientUse::Connections));
        assert_eq!(open("192.0.2.7").map(drop), Err(full));
        let other = open("192.0.2.8").expect("a place");
        let _own = open("127.0.0.1").expect("a place");
        assert_eq!(open("192.0.2.9").map(drop), Err(ConnectionLimitError::Connections));
        drop((mine, other));
        // A rejected connection holds no permit.
        let again: Vec<_> = (0..2).map(|_| open("192.0.2.9").expect("a place")).collect();
        assert_eq!(open("192.0.2.9").map(drop), Err(full));
        assert_eq!(core.metrics().limit_hits(HttpServerLimit::ClientConnections), 2);
        drop(again);
    }
}
