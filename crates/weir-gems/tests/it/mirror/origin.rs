//! An index of this crate behind a socket.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_gems::Gems;
use weir_gems::store::GemStore;
use weir_net::server::{
    ConnectionService, CoreIndex, CoreListener, HttpServerLimits, Peer, RejectedUpgrade,
    ResponseBody, RunningServer, ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};

use crate::http::Index;

pub(crate) struct Origin {
    pub(crate) index: Index,
    address: SocketAddr,
    stop: ServerStop,
    running: Option<RunningServer>,
}

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

impl Origin {
    pub(crate) async fn start() -> Self {
        Self::serve(Index::new().await)
    }

    pub(crate) fn serve(index: Index) -> Self {
        let sockets =
            Listener::bind_group(&"127.0.0.1:0".parse().unwrap(), 1, BindOptions::default())
                .unwrap();
        let address = sockets[0].address().unwrap().to_string().parse().unwrap();
        let stop = ServerStop::within(Duration::from_secs(1));
        let gems = Arc::clone(&index.gems);
        let running = weir_net::server::start(ServerOptions {
            listeners: vec![CoreListener { sockets, tls: None }],
            cores: 1,
            limits: Arc::new(ArcSwap::from_pointee(HttpServerLimits::default())),
            clock: Clock::system(),
            metrics: NetMetrics::register(&mut Registry::default()),
            trusted_proxies: weir_net::client::TrustedProxies::default(),
            service: move |_: CoreIndex| Rc::new(Door(Arc::clone(&gems))),
            stop: stop.clone(),
        });
        Self { index, address, stop, running: Some(running.unwrap()) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn store(&self) -> &GemStore {
        self.index.gems.store()
    }

    /// Stops the server. Its port is closed when this returns.
    pub(crate) async fn stop(mut self) -> Index {
        self.stop.graceful.cancel();
        self.stop.at_once.cancel();
        if let Some(running) = self.running.take() {
            let _ = running.join().await;
        }
        self.index
    }
}
