//! Serves an index alone, for trying out clients and for profiling.
//!
//! `serve ADDRESS CORES FOLDER [postgres://..]` serves the index in the folder, or in that database
//! with the files of the folder. It creates an API key with all scopes and prints it.

#![expect(clippy::print_stdout, reason = "a tool at a terminal")]

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::switch::Switches;
use weir_gems::settings::GemsSettings;
use weir_gems::store::{
    GemStore, KeySettings, PostgresMetrics, PostgresSettings, PostgresStore, Scope, SqliteSettings,
    SqliteStore,
};
use weir_gems::{Files, Gems, GemsMetrics, GemsParts, keys};
use weir_net::server::{
    ConnectionService, CoreIndex, CoreListener, HttpServerLimits, Peer, RejectedUpgrade,
    ResponseBody, ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};

struct Door(Arc<Gems>);

impl ConnectionService for Door {
    fn claims_upgrade(&self, _path: &str) -> bool {
        false
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        Err(upgrade.reject(StatusCode::NOT_FOUND, "nothing is upgraded here\n"))
    }

    async fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        _peer: Peer,
    ) -> Response<ResponseBody> {
        self.0.answer(request).await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(&arguments[2]);
    let clock = Clock::system();
    match arguments.get(3) {
        Some(url) => {
            let settings = PostgresSettings::new(url.parse().expect("an address of Postgres"));
            let metrics = PostgresMetrics::default();
            let store = PostgresStore::open(&settings, clock.clone(), metrics).expect("a store");
            serve(store.into(), &arguments, folder, clock).await;
        }
        None => {
            let settings = SqliteSettings::new(folder.join("gems.db"));
            let store = SqliteStore::open(&settings, clock.now()).expect("a store");
            serve(store.into(), &arguments, folder, clock).await;
        }
    }
}

async fn serve(store: GemStore, arguments: &[String], folder: &Path, clock: Clock) {
    let address = arguments[0].parse().expect("an address");
    let cores: usize = arguments[1].parse().expect("a number of cores");
    let mut registry = Registry::default();
    let key = KeySettings {
        name: "example".to_owned(),
        scopes: vec![Scope::IndexRubygems, Scope::PushRubygem, Scope::YankRubygem],
        gems: Vec::new(),
        expires_at_us: None,
    };
    let (secret, _) = keys::create(&store, key, clock.now()).await.expect("a key");
    let gems = Gems::new(GemsParts {
        store,
        files: Files::open(folder.join("files")).expect("a folder"),
        settings: Arc::new(ArcSwap::from_pointee(GemsSettings::default())),
        clock: clock.clone(),
        metrics: GemsMetrics::register(&mut registry),
        switches: Arc::new(Switches::default()),
    });
    let sockets = Listener::bind_group(&address, cores, BindOptions::default()).expect("to listen");
    let at = sockets[0].address().expect("an address");
    println!("listening on {at}, key {}", secret.expose());
    let stop = ServerStop::within(Duration::from_secs(10));
    let running = weir_net::server::start(ServerOptions {
        listeners: vec![CoreListener { sockets, tls: None }],
        cores,
        limits: Arc::new(ArcSwap::from_pointee(HttpServerLimits::default())),
        clock,
        metrics: NetMetrics::register(&mut registry),
        trusted_proxies: weir_net::client::TrustedProxies::default(),
        service: move |_: CoreIndex| Rc::new(Door(Arc::clone(&gems))),
        stop,
    });
    println!("{:?}", running.expect("cores").join().await);
}
