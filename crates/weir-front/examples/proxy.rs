//! The proxy alone, with one app: for trying things and for profiles.
//!
//! `proxy ADDRESS CORES CONCURRENCY WORKER..`, where a worker is `unix:/PATH` or `IP:PORT`.

#![expect(clippy::print_stdout, reason = "a tool at a terminal")]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_front::{AppLimits, AppSettings, Apps, Drain, FrontMetrics, Proxy, ProxySettings};
use weir_net::server::{
    ConnectionService, CoreIndex, CoreListener, HttpServerLimits, Peer, RejectedUpgrade,
    ResponseBody, ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Door(Rc<Proxy>);

impl ConnectionService for Door {
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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments[0].parse().expect("an address");
    let cores: usize = arguments[1].parse().expect("a number of cores");
    let concurrency = arguments[2].parse().expect("a number of requests");
    let workers = arguments[3..].iter().map(|text| text.parse().expect("a worker's address"));
    let limits = AppLimits { concurrency, ..AppLimits::default() };
    let app = AppSettings { workers: workers.collect(), limits, ..AppSettings::new("app") };
    let clock = Clock::system();
    let mut registry = Registry::default();
    let apps = Apps::new(vec![app], &clock, &FrontMetrics::register(&mut registry));
    let sockets = Listener::bind_group(&address, cores, BindOptions::default()).expect("to listen");
    println!("listening on {}", sockets[0].address().expect("an address"));
    let stop = ServerStop::within(Duration::from_secs(10));
    let drain = Drain { started: stop.graceful.clone(), window: Duration::from_secs(1) };
    let running = weir_net::server::start(ServerOptions {
        listeners: vec![CoreListener { sockets, tls: None }],
        cores,
        limits: Arc::new(ArcSwap::from_pointee(HttpServerLimits::default())),
        clock,
        metrics: NetMetrics::register(&mut registry),
        trusted_proxies: weir_net::client::TrustedProxies::default(),
        service: move |core: CoreIndex| {
            Rc::new(Door(Proxy::new(
                Arc::clone(&apps),
                ProxySettings::default(),
                core,
                drain.clone(),
            )))
        },
        stop,
    });
    let running = running.expect("cores");
    println!("{:?}", running.join().await);
}
