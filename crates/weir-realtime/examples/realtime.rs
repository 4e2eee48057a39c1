//! Realtime alone, with one app: for trying things and for profiles.
//!
//! `realtime ADDRESS CORES [CLIENT_QUEUE_BYTES]`; the app is `1`, `demo-key`, `demo-secret`.

#![expect(clippy::print_stdout, reason = "a tool at a terminal")]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_net::server::{
    ConnectionService, CoreListener, HttpServerLimits, Peer, RejectedUpgrade, ResponseBody,
    ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::shard::Shard;
use weir_realtime::webhooks::{self, WebhookMetrics, Webhooks};

struct Realtime(Rc<Shard>);

impl ConnectionService for Realtime {
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

fn hub(cores: usize, queue_bytes: Option<usize>) -> Arc<Hub> {
    let mut registry = Registry::default();
    let metrics = RealtimeMetrics::register(&mut registry);
    let clock = Clock::system();
    let semaphore =
        Arc::new(Semaphore::new("webhooks", "realtime.limits.webhooks_in_flight_max", 4));
    let (webhooks, _) = Webhooks::start(
        webhooks::WebhookSettings::default(),
        clock.clone(),
        WebhookMetrics::register(&mut registry),
        semaphore,
        ShutdownToken::new(),
    );
    let mut app = AppSettings::new("1", "demo-key", Secret::new("demo-secret"));
    app.has_client_events = true;
    app.has_subscription_counts = std::env::args().any(|argument| argument == "--counts");
    if let Some(bytes) = queue_bytes {
        app.client_queue_bytes_max = bytes;
    }
    let settings = Settings::default();
    Hub::new(HubParts {
        cores,
        settings,
        apps: vec![app],
        clock,
        metrics,
        webhooks,
        log: None,
        tracer: Default::default(),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments[0].parse().expect("an address");
    let cores: usize = arguments[1].parse().expect("a number of cores");
    let hub = hub(cores, arguments.get(2).and_then(|bytes| bytes.parse().ok()));
    let sockets = Listener::bind_group(&address, cores, BindOptions::default()).expect("to listen");
    println!("listening on {}", sockets[0].address().expect("an address"));
    let mut registry = Registry::default();
    let stop = ServerStop::within(Duration::from_secs(10));
    let draining = stop.graceful.clone();
    let running = weir_net::server::start(ServerOptions {
        listeners: vec![CoreListener { sockets, tls: None }],
        cores,
        limits: Arc::new(ArcSwap::from_pointee(HttpServerLimits::default())),
        clock: Clock::system(),
        metrics: NetMetrics::register(&mut registry),
        trusted_proxies: weir_net::client::TrustedProxies::default(),
        service: move |core: weir_net::server::CoreIndex| {
            Rc::new(Realtime(Shard::new(Arc::clone(&hub), core.0, draining.clone())))
        },
        stop: stop.clone(),
    });
    let running = running.expect("cores");
    println!("{:?}", running.join().await);
}
