//! A proxy with one app, its clients and its workers.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_base::clock::Clock;
use weir_front::{
    AppLimits, AppSettings, Apps, Drain, FrontMetrics, Proxy, ProxySettings, UpstreamAddress,
};
use weir_net::server::{
    ConnectionService, CoreIndex, CoreListener, HttpServerLimits, Peer, RejectedUpgrade,
    ResponseBody, ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};

/// Longer than anything takes that a test waits for: only a test that fails waits so long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

struct ProxyService(Rc<Proxy>);

impl ConnectionService for ProxyService {
    fn claims_upgrade(&self, _path: &str) -> bool {
        true
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        self.0.upgrade(upgrade)
    }

    async fn run(self: Rc<Self>) {
        Rc::clone(&self.0).run().await;
    }

    fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>> {
        Rc::clone(&self.0).handle(request, peer)
    }
}

/// A proxy that runs until it is dropped.
pub(crate) struct TestFront {
    address: std::net::SocketAddr,
    registry: Registry,
    pub(crate) apps: Arc<Apps>,
    /// Says that it is to end.
    pub(crate) graceful: CancellationToken,
    _stop: DropGuard,
}

impl TestFront {
    /// In front of `workers`, on one core.
    pub(crate) fn open(limits: AppLimits, workers: &[&Worker]) -> Self {
        Self::to(limits, workers.iter().map(|worker| worker.address()).collect())
    }

    pub(crate) fn to(limits: AppLimits, workers: Vec<UpstreamAddress>) -> Self {
        let app = AppSettings { workers, limits, ..AppSettings::new("app") };
        Self::new(app, ProxySettings::default())
    }

    pub(crate) fn new(app: AppSettings, settings: ProxySettings) -> Self {
        Self::within(HttpServerLimits::default(), app, settings)
    }

    /// The same, with limits of the server side.
    pub(crate) fn within(
        limits: HttpServerLimits,
        app: AppSettings,
        settings: ProxySettings,
    ) -> Self {
        let clock = Clock::system();
        let mut registry = Registry::default();
        let apps = Apps::new(vec![app], &clock, &FrontMetrics::register(&mut registry));
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let sockets = Listener::bind_group(&loopback, 1, BindOptions::default()).expect("to bind");
        let address = match &sockets[0] {
            Listener::Tcp(socket) => socket.local_addr().expect("an address"),
            Listener::Unix(_) => unreachable!("bound to a port"),
        };
        let stop = ServerStop::within(TIMEOUT);
        let (graceful, at_once) = (stop.graceful.clone(), stop.at_once.clone());
        let drain = Drain { started: graceful.clone(), window: Duration::from_millis(50) };
        let shared = Arc::clone(&apps);
        weir_net::server::start(ServerOptions {
            listeners: vec![CoreListener { sockets, tls: None }],
            cores: 1,
            limits: Arc::new(ArcSwap::from_pointee(limits)),
            clock,
            metrics: NetMetrics::register(&mut registry),
            trusted_proxies: settings.trusted_proxies.clone(),
            service: move |core: CoreIndex| {
                Rc::new(ProxyService(Proxy::new(
                    Arc::clone(&shared),
                    settings.clone(),
                    core,
                    drain.clone(),
                )))
            },
            stop,
        })
        .expect("a core");
        Self { address, registry, apps, graceful, _stop: at_once.drop_guard() }
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::new(self.connect_raw().await)
    }

    pub(crate) async fn connect_raw(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("to connect")
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn send(&self, request: &str) -> Connection {
        let mut client = self.connect().await;
        client.write(request).await;
        client
    }

    /// Sends `GET path`.
    pub(crate) async fn get(&self, path: &str) -> Connection {
        self.send(&get(path)).await
    }

    /// The value of a metric, by its name and labels as they are exported.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics");
        let found = text.lines().find_map(|row| row.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    /// Waits until a metric has a value.
    pub(crate) async fn wait_for_metric(&self, line: &str, value: u64) {
        let reached = async {
            while self.metric(line) != value {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(TIMEOUT, reached).await.unwrap_or_else(|_| panic!("{line} never was {value}"));
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: app.example\r\n\r\n")
}

/// A worker of which the test plays the part.
pub(crate) struct Worker(TcpListener);

impl Worker {
    pub(crate) async fn listen() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.expect("to bind"))
    }

    pub(crate) async fn listen_at(address: UpstreamAddress) -> Self {
        let UpstreamAddress::Tcp(address) = address else { unreachable!("a port") };
        Self(TcpListener::bind(address).await.expect("to bind again"))
    }

    pub(crate) fn address(&self) -> UpstreamAddress {
        UpstreamAddress::Tcp(self.0.local_addr().expect("an address"))
    }

    pub(crate) async fn accept(&self) -> Connection {
        let accepted = timeout(TIMEOUT, self.0.accept()).await.expect("a connection in time");
        Connection::new(accepted.expect("a connection").0)
    }

    /// Whether nobody waits to be accepted.
    pub(crate) async fn has_no_connection(&self) -> bool {
        timeout(Duration::from_millis(50), self.0.accept()).await.is_err()
    }
}

/// One end of a connection: a client's or a worker's.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    fn new(socket: TcpStream) -> Self {
        Self { socket, read: Vec::new() }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).await.expect("to write");
    }

    /// Answers with `200` and a text.
    pub(crate) async fn respond(&mut self, text: &str) {
        let length = text.len();
        self.write(&format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}")).await;
    }

    /// Up to and with `end`; more stays for the next time.
    pub(crate) async fn read_until(&mut self, end: &str) -> String {
        timeout(TIMEOUT, self.fill_until(end)).await.unwrap_or_else(|_| {
            panic!("no {end:?} within {TIMEOUT:?} in {:?}", String::from_utf8_lossy(&self.read))
        })
    }

    async fn fill_until(&mut self, end: &str) -> String {
        loop {
            let found = self.read.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(index) = found {
                let taken: Vec<u8> = self.read.drain(..index + end.len()).collect();
                return String::from_utf8(taken).expect("text");
            }
            let count = self.socket.read_buf(&mut self.read).await.expect("to read");
            let read = String::from_utf8_lossy(&self.read);
            assert!(count > 0, "ended without {end:?}: {read:?}");
        }
    }

    /// A head.
    pub(crate) async fn read_head(&mut self) -> String {
        self.fill_until("\r\n\r\n").await
    }

    /// The bytes of the next chunk; none: the last one.
    pub(crate) async fn read_chunk(&mut self) -> Vec<u8> {
        let size = self.fill_until("\r\n").await;
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk's size");
        while self.read.len() < size + 2 {
            let count = self.socket.read_buf(&mut self.read).await.expect("to read");
            assert!(count > 0, "ended in a chunk");
        }
        let mut chunk: Vec<u8> = self.read.drain(..size + 2).collect();
        chunk.truncate(size);
        chunk
    }

    /// The status of an answer whose body is `text`.
    pub(crate) async fn read_status_and(&mut self, text: &str) -> u16 {
        let head = self.read_head().await;
        self.fill_until(text).await;
        status(&head)
    }

    /// Everything to the end of the connection; a reset is an end, too.
    pub(crate) async fn read_to_end(&mut self) -> String {
        let reading =
            async { while self.socket.read_buf(&mut self.read).await.unwrap_or(0) > 0 {} };
        timeout(TIMEOUT, reading).await.expect("the end in time");
        String::from_utf8(std::mem::take(&mut self.read)).expect("text")
    }
}

pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}
