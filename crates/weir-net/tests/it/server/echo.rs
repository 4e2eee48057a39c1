//! The service of the tests and its server.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use hyper::{Request, Response, StatusCode};
use socket2::SockRef;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use weir_base::clock::Clock;
use weir_net::client::TrustedProxies;
use weir_net::server::{
    AnswerWithin, ConnectionService, ConnectionStream, CoreIndex, CoreListener, DrainOutcome,
    HttpServerLimits, Peer, RejectedUpgrade, ResponseBody, RunningServer, ServerOptions,
    ServerStop, StartError, Upgrade, start,
};
use weir_net::{BindOptions, ListenAddress, Listener, NetMetrics, Tls};

/// More than the kernel keeps for a client that does not read.
pub(super) const BIG: usize = 16 << 20;
/// No client waits longer than this for a server that hangs.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Takes upgrades of `/raw...`: says what the head and the bytes behind it were, then echoes.
/// Answers any other request with its method, path and core; `/slow` not before it is released, and
/// `/hang` lets nobody else on its core be served until then.
pub(super) struct Echo {
    core: CoreIndex,
    released: CancellationToken,
    requests: Arc<ArcSwap<Vec<String>>>,
    notified: Notify,
    panicking_core: Option<CoreIndex>,
    metrics: NetMetrics,
    answers_half_closed: bool,
}

impl ConnectionService for Echo {
    fn claims_upgrade(&self, path: &str) -> bool {
        path.starts_with("/raw")
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        let head = upgrade.head;
        if head.path() == "/raw/forbidden" {
            return Err(upgrade.reject(StatusCode::FORBIDDEN, "not you"));
        }
        let names: Vec<_> = head.headers.iter().map(|header| header.name.to_lowercase()).collect();
        let mut greeting = format!(
            "{} {} 1.{} [{}] rest=",
            head.method,
            head.target,
            head.version,
            names.join(",")
        )
        .into_bytes();
        greeting.extend_from_slice(upgrade.rest);
        greeting.push(b'\n');
        let Peer { address, is_tls, listener } = upgrade.peer;
        let nodelay = SockRef::from(&upgrade.stream).tcp_nodelay().ok();
        self.record(format!("upgrade {address:?} tls={is_tls} {listener} nodelay={nodelay:?}"));
        tokio::task::spawn_local(echo(upgrade.stream, greeting));
        Ok(())
    }

    async fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        _peer: Peer,
    ) -> Response<ResponseBody> {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        self.record(format!("{method} {path}"));
        match path.as_str() {
            "/slow" => {
                let given_up = AbandonedRequest(Some(Rc::clone(&self)));
                self.released.cancelled().await;
                given_up.disarm();
            }
            "/hang" => {
                while !self.released.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            "/panic" => panic!("the test asked for it"),
            "/accepted" => {
                let accepted = self.metrics.connections_accepted();
                return Response::new(accepted.to_string().into());
            }
            "/big" => {
                // The answer does not wait for the request's body.
                tokio::task::spawn_local(request.into_body().collect());
                return Response::new(vec![b'x'; BIG].into());
            }
            "/big-within" => {
                let mut answer = Response::new(vec![b'x'; BIG].into());
                answer.extensions_mut().insert(AnswerWithin(Duration::from_millis(30)));
                return answer;
            }
            "/length" => {
                let body = request.into_body().collect().await.expect("a body").to_bytes();
                return Response::new(format!("{} bytes", body.len()).into());
            }
            "/stream" => {
                let released = Box::pin(self.released.clone().cancelled_owned());
                return Response::new(ResponseBody::new(Frames { _echo: self, sent: 0, released }));
            }
            _ => {}
        }
        Response::new(format!("{method} {path} core={}", self.core).into())
    }

    fn answers_half_closed(&self, listener: usize) -> bool {
        // Only the first.
        self.answers_half_closed && listener == 0
    }

    async fn run(self: Rc<Self>) {
        self.notified.notified().await;
        assert_ne!(self.panicking_core, Some(self.core), "the test asked for it");
    }
}

impl Echo {
    fn record(&self, what: String) {
        self.notified.notify_one();
        self.requests.rcu(|requests| {
            let mut requests = Vec::clone(requests);
            requests.push(what.clone());
            requests
        });
    }
}

/// A request that nobody waits for any more.
struct AbandonedRequest(Option<Rc<Echo>>);

impl AbandonedRequest {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonedRequest {
    fn drop(&mut self) {
        if let Some(echo) = self.0.take() {
            echo.record("given up".to_owned());
        }
    }
}

/// A body of two frames, the second not before the release. It is not `Send`.
struct Frames {
    _echo: Rc<Echo>,
    sent: usize,
    released: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.sent {
            0 => "first\n",
            1 => {
                ready!(self.released.as_mut().poll(context));
                "second\n"
            }
            _ => return Poll::Ready(None),
        };
        self.sent += 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(frame.as_bytes())))))
    }
}

async fn echo(mut stream: ConnectionStream, greeting: Vec<u8>) {
    let mut bytes = greeting;
    loop {
        let mut written = 0;
        while written < bytes.len() {
            match stream.try_write(&bytes[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = std::future::poll_fn(|context| stream.poll_write_ready(context));
                    ready.await.expect("writable");
                }
                Err(_) => return,
            }
        }
        if std::future::poll_fn(|context| stream.poll_flush(context)).await.is_err() {
            return;
        }
        bytes = vec![0; 4096];
        match std::future::poll_fn(|context| stream.poll_read(context, &mut bytes)).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.truncate(count),
        }
    }
}

/// How a test's server differs from the default.
pub(super) struct Setup {
    pub(super) cores: usize,
    pub(super) limits: HttpServerLimits,
    pub(super) clock: Clock,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) extra_listeners: Vec<CoreListener>,
    pub(super) deadline: Duration,
    pub(super) address: ListenAddress,
    /// Panics in its own work once it is asked for anything.
    pub(super) panicking_core: Option<CoreIndex>,
    pub(super) answers_half_closed: bool,
    pub(super) trusted_proxies: TrustedProxies,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cores: 1,
            limits: HttpServerLimits::default(),
            clock: Clock::system(),
            tls: None,
            extra_listeners: Vec::new(),
            deadline: TIMEOUT,
            address: "127.0.0.1:0".parse().expect("an address"),
            panicking_core: None,
            answers_half_closed: false,
            trusted_proxies: TrustedProxies::default(),
        }
    }
}

/// A server that runs.
pub(super) struct Server {
    pub(super) address: ListenAddress,
    pub(super) metrics: NetMetrics,
    pub(super) limits: Arc<ArcSwap<HttpServerLimits>>,
    pub(super) stop: ServerStop,
    pub(super) released: CancellationToken,
    pub(super) running: RunningServer,
    requests: Arc<ArcSwap<Vec<String>>>,
}

impl Setup {
    pub(super) fn start(self) -> Server {
        self.try_start().expect("started")
    }

    pub(super) fn try_start(mut self) -> Result<Server, StartError> {
        let sockets = Listener::bind_group(&self.address, self.cores, BindOptions::default());
        let sockets = sockets.expect("bound");
        let address = sockets[0].address().expect("an address");
        self.extra_listeners.insert(0, CoreListener { sockets, tls: self.tls });
        let metrics = NetMetrics::detached();
        let limits = Arc::new(ArcSwap::from_pointee(self.limits));
        let stop = ServerStop::within(self.deadline);
        let released = CancellationToken::new();
        let requests = Arc::new(ArcSwap::default());
        let (released_clone, requests_clone) = (released.clone(), Arc::clone(&requests));
        let (panicking_core, metrics_clone) = (self.panicking_core, metrics.clone());
        let answers_half_closed = self.answers_half_closed;
        let service = move |core| {
            let (released, requests) = (released_clone.clone(), Arc::clone(&requests_clone));
            Rc::new(Echo {
                core,
                released,
                requests,
                notified: Notify::new(),
                panicking_core,
                metrics: metrics_clone.clone(),
                answers_half_closed,
            })
        };
        let running = start(ServerOptions {
            listeners: self.extra_listeners,
            cores: self.cores,
            limits: Arc::clone(&limits),
            clock: self.clock,
            metrics: metrics.clone(),
            trusted_proxies: self.trusted_proxies,
            service,
            stop: stop.clone(),
        });
        Ok(Server { address, metrics, limits, stop, released, running: running?, requests })
    }
}

impl Server {
    pub(super) fn tcp_address(&self) -> SocketAddr {
        match &self.address {
            ListenAddress::Tcp(address) => *address,
            ListenAddress::Unix(path) => panic!("{path:?} is no TCP address"),
        }
    }

    pub(super) fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.tcp_address()).expect("connects");
        stream.set_nodelay(true).expect("set");
        stream.set_read_timeout(Some(TIMEOUT)).expect("set");
        Client(stream)
    }

    /// What the services were asked, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        Vec::clone(&self.requests.load())
    }

    pub(super) fn wait_until_requested(&self, what: &str) {
        wait_until(what, || self.requests().iter().any(|requests| requests == what));
    }

    /// Whether nobody listens any more.
    pub(super) fn is_refused(&self) -> bool {
        TcpStream::connect(self.tcp_address()).is_err()
    }

    pub(super) fn wait_until_refused(&self) {
        wait_until("nobody listens", || self.is_refused());
    }

    /// Waits for the end.
    pub(super) fn ended(self) -> DrainOutcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let joined = async { tokio::time::timeout(TIMEOUT, self.running.join()).await };
        runtime.expect("a runtime").block_on(joined).expect("ended in time").ended
    }
}

/// Waits for what another thread does; fails when that takes too long.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..TIMEOUT.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("in vain waited for: {what}");
}

/// A client, over TCP unless said otherwise.
pub(super) struct Client<S = TcpStream>(pub(super) S);

impl<S: Read + Write> Client<S> {
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_all(bytes.as_ref()).expect("sent");
        self
    }

    /// The next bytes, up to and with `end`.
    pub(super) fn read_until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap_or_else(|error| {
                panic!("{error} after {:?}", String::from_utf8_lossy(&read))
            });
            read.push(byte[0]);
        }
        String::from_utf8(read).expect("text")
    }

    /// What the test service says to a socket that it took over.
    pub(super) fn greeting(&mut self) -> String {
        self.read_until("\n")
    }

    /// Everything until the server hangs up.
    pub(super) fn read_to_end(&mut self) -> String {
        let mut read = String::new();
        self.0.read_to_string(&mut read).expect("an orderly end");
        read
    }

    /// Status line and body of an answer that has a length.
    pub(super) fn read_response(&mut self) -> (String, String) {
        let head = self.read_until("\r\n\r\n");
        let status = head.lines().next().unwrap_or_default().to_owned();
        let length = head.to_lowercase();
        let length = length.split_once("content-length: ").expect("a length").1;
        let length = length.split_once('\r').expect("a line").0.parse().expect("a number");
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        (status, String::from_utf8(body).expect("text"))
    }
}
