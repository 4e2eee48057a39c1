//! Realtime over real sockets: cores as they are in the product, clients of another library.

mod channels;
mod chaos;
mod client;
mod connections;
mod presence;
mod recovery;
mod refusals;
mod review;
mod slow;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response};
use md5::{Digest, Md5};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_net::client::TrustedProxy;
use weir_net::server::{
    self, ConnectionService, CoreListener, Peer, RejectedUpgrade, ResponseBody, ServerOptions,
    ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::pusher::signature::Token;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::shard::Shard;
use weir_realtime::webhooks::{self, WebhookMetrics, Webhooks};

use client::Client;

const KEY: &str = "demo-key";
const SECRET: &str = "demo-secret";
/// Longer than anything takes; a test that waits so long has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Realtime on a free port, with one app.
struct Server {
    address: SocketAddr,
    hub: Arc<Hub>,
    stop: ServerStop,
    draining: CancellationToken,
    registry: Registry,
    clock: Clock,
}

struct Core(Rc<Shard>);

impl ConnectionService for Core {
    fn claims_upgrade(&self, path: &str) -> bool {
        path.starts_with("/app/")
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        self.0.connect(upgrade)
    }

    async fn run(self: Rc<Self>) {
        Rc::clone(&self.0).run().await;
    }

    async fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<ResponseBody> {
        Rc::clone(&self.0).handle(request, peer).await
    }
}

fn app() -> AppSettings {
    let mut app = AppSettings::new("1", KEY, Secret::new(SECRET));
    app.has_client_events = true;
    app
}

impl Server {
    /// With the defaults.
    fn start() -> Self {
        Self::with(|_, _| {})
    }

    fn with(change: impl FnOnce(&mut Settings, &mut AppSettings)) -> Self {
        Self::with_clock(Clock::system(), change)
    }

    fn with_clock(clock: Clock, change: impl FnOnce(&mut Settings, &mut AppSettings)) -> Self {
        Self::within(server::HttpServerLimits::default(), clock, change)
    }

    /// With these limits of the server side, behind a proxy on this machine: nobody else has any.
    fn within(
        limits: server::HttpServerLimits,
        clock: Clock,
        change: impl FnOnce(&mut Settings, &mut AppSettings),
    ) -> Self {
        let proxy: TrustedProxy = "127.0.0.1".parse().unwrap();
        let (mut settings, mut app) = (Settings::default(), app());
        change(&mut settings, &mut app);
        let mut registry = Registry::default();
        let semaphore = Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1));
        let (webhooks, _) = Webhooks::start(
            webhooks::WebhookSettings::default(),
            clock.clone(),
            WebhookMetrics::register(&mut registry),
            semaphore,
            ShutdownToken::new(),
        );
        let metrics = RealtimeMetrics::register(&mut registry);
        const CORES: usize = 2;
        let apps = vec![app];
        let parts = HubParts {
            tracer: Default::default(),
            cores: CORES,
            settings,
            apps,
            clock: clock.clone(),
            metrics,
            webhooks,
            log: None,
        };
        let hub = Hub::new(parts);
        let address = "127.0.0.1:0".parse().unwrap();
        let sockets = Listener::bind_group(&address, CORES, BindOptions::default()).unwrap();
        let address = sockets[0].address().unwrap().to_string().parse().unwrap();
        let stop = ServerStop::within(TIMEOUT);
        let draining = CancellationToken::new();
        let service = {
            let (hub, draining) = (Arc::clone(&hub), draining.clone());
            move |core: server::CoreIndex| {
                Rc::new(Core(Shard::new(Arc::clone(&hub), core.0, draining.clone())))
            }
        };
        server::start(ServerOptions {
            listeners: vec![CoreListener { sockets, tls: None }],
            cores: CORES,
            limits: Arc::new(ArcSwap::from_pointee(limits)),
            clock: Clock::system(),
            metrics: NetMetrics::register(&mut registry),
            trusted_proxies: vec![proxy].into(),
            service,
            stop: stop.clone(),
        })
        .unwrap();
        Self { address, hub, stop, draining, registry, clock }
    }

    /// A connection that is established.
    fn connect(&self) -> Client {
        let mut client = self.open("protocol=7");
        client.expect_established();
        client
    }

    /// A WebSocket.
    fn open(&self, query: &str) -> Client {
        Client::open(self.address, &format!("/app/{KEY}?{query}"))
    }

    /// A connection that is subscribed.
    fn subscriber(&self, channel: &str) -> Client {
        let mut client = self.connect();
        client.subscribe(channel);
        client
    }

    /// Publishes over the HTTP API.
    fn publish(&self, channel: &str, data: &Value) {
        let body = json!({ "name": "e", "channel": channel, "data": data.to_string() });
        let (status, text) = self.post("/apps/1/events", &body);
        assert_eq!(status, 200, "{text}");
    }

    fn post(&self, path: &str, body: &Value) -> (u16, String) {
        self.request("POST", path, "", &body.to_string())
    }

    fn get(&self, path: &str, query: &str) -> Value {
        let (status, text) = self.request("GET", path, query, "");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// A signed request.
    fn request(&self, method: &str, path: &str, query: &str, body: &str) -> (u16, String) {
        let target = self.target(method, path, query, body);
        http(self.address, method, &target, "", body)
    }

    /// Path and query of a signed request.
    fn target(&self, method: &str, path: &str, query: &str, body: &str) -> String {
        let now = self.clock.now().as_millis() / 1_000;
        let digest = hex::encode(Md5::digest(body));
        let query = format!(
            "auth_key={KEY}&auth_timestamp={now}&auth_version=1.0&body_md5={digest}&{query}"
        );
        let mut parameters: Vec<&str> = query.split('&').filter(|one| !one.is_empty()).collect();
        parameters.sort_unstable();
        let signed = parameters.join("&");
        let secret = Secret::new(SECRET);
        let token = Token { key: KEY, secret: &secret };
        let signature = token.sign(format!("{method}\n{path}\n{signed}").as_bytes());
        format!("{path}?{signed}&auth_signature={signature}")
    }

    /// The value of a metric without labels, or with exactly these.
    fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.at_once.cancel();
        self.stop.graceful.cancel();
    }
}

fn http(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &str,
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer[9..12].parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}
