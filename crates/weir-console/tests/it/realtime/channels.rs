//! Channels with real sockets, and a client of theirs.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use hyper::body::Incoming;
use hyper::{Request, Response};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use sha2::Sha256;
use tungstenite::{Message, WebSocket};
use weir_base::clock::Clock;
use weir_base::history;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_base::switchboard::Switchboard;
use weir_console::RealtimeSource;
use weir_net::server::{
    ConnectionService, CoreIndex, CoreListener, HttpServerLimits, Peer, RejectedUpgrade,
    ResponseBody, RunningServer, ServerOptions, ServerStop, Upgrade,
};
use weir_net::{BindOptions, Listener, NetMetrics};
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::operations::PublishEvent;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::shard::Shard;
use weir_realtime::webhooks::{self, WebhookMetrics, Webhooks};

use crate::site::{Site, TIMEOUT};

pub(crate) const SECRET: &str = "a-secret-of-the-app";
const KEY: &str = "demo-key";

/// A site with an app `1`. Dropping it ends its cores.
pub(crate) struct Channels {
    pub(crate) site: Site,
    pub(crate) hub: Arc<Hub>,
    address: SocketAddr,
    stop: ServerStop,
    _running: RunningServer,
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

impl Channels {
    pub(crate) fn open() -> Self {
        Self::with(|_| {}, |_, _| {})
    }

    /// With other settings of the console, and of realtime and its app.
    pub(crate) fn with(
        change: impl FnOnce(&mut weir_console::settings::ConsoleSettings),
        change_realtime: impl FnOnce(&mut Settings, &mut AppSettings),
    ) -> Self {
        let mut kept = None;
        let site = Site::with_parts(change, |clock, folder| {
            let hub = kept.insert(hub(clock, change_realtime));
            Some(realtime(hub, clock, folder))
        });
        let hub = kept.expect("made with the site");
        let stop = ServerStop::within(TIMEOUT);
        let (running, address) = serve(&hub, &site.clock, &stop);
        Self { site, hub, address, stop, _running: running }
    }

    pub(crate) fn publish(&self, channel: &str, event: &str, data: &str) {
        let data = serde_json::value::to_raw_value(data).expect("JSON");
        let (app, channel, event) = ("1".to_owned(), channel.to_owned(), event.to_owned());
        let event = PublishEvent { app, channel, event, data };
        let mut publishing = pin!(self.hub.publish_event(&event));
        let mut context = Context::from_waker(Waker::noop());
        let published = publishing.as_mut().poll(&mut context);
        assert!(matches!(published, Poll::Ready(Ok(_))), "{published:?}");
    }

    pub(crate) fn client(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let url = format!("ws://{}/app/{KEY}?protocol=7", self.address);
        let (socket, _) = tungstenite::client(url, stream).expect("a handshake");
        let mut client = Client { socket, id: String::new() };
        let established = client.read("pusher:connection_established");
        let data = established["data"].as_str().expect("text");
        let data: Value = serde_json::from_str(data).expect("JSON");
        client.id = data["socket_id"].as_str().expect("an id").to_owned();
        client
    }

    pub(crate) fn subscriber(&self, channel: &str) -> Client {
        let mut client = self.client();
        client.subscribe(&json!({ "channel": channel }));
        client
    }

    /// On a presence channel.
    pub(crate) fn member(&self, channel: &str, user: &str, info: &Value) -> Client {
        let mut client = self.client();
        let user = json!({ "user_id": user, "user_info": info }).to_string();
        let auth = sign(&format!("{}:{channel}:{user}", client.id));
        client.subscribe(&json!({ "channel": channel, "channel_data": user, "auth": auth }));
        client
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.stop.at_once.cancel();
    }
}

/// One connection.
pub(crate) struct Client {
    socket: WebSocket<TcpStream>,
    id: String,
}

impl Client {
    fn subscribe(&mut self, wish: &Value) {
        let message = json!({ "event": "pusher:subscribe", "data": wish }).to_string();
        self.socket.send(Message::text(message)).expect("sent");
        self.read("pusher_internal:subscription_succeeded");
    }

    /// The next message with that name; others are passed over.
    pub(crate) fn read(&mut self, event: &str) -> Value {
        loop {
            let message = self.socket.read().expect("a message");
            let text = message.to_text().expect("text");
            let message: Value = serde_json::from_str(text).expect("JSON");
            if message["event"] == event {
                return message;
            }
        }
    }
}

fn sign(text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any key");
    mac.update(text.as_bytes());
    format!("{KEY}:{}", hex::encode(mac.finalize().into_bytes()))
}

fn hub(clock: &Clock, change: impl FnOnce(&mut Settings, &mut AppSettings)) -> Arc<Hub> {
    let mut registry = Registry::default();
    let (webhooks, _) = Webhooks::start(
        webhooks::WebhookSettings::default(),
        clock.clone(),
        WebhookMetrics::register(&mut registry),
        Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1)),
        ShutdownToken::new(),
    );
    let mut app = AppSettings::new("1", KEY, Secret::new(SECRET));
    let mut settings = Settings::default();
    change(&mut settings, &mut app);
    let metrics = RealtimeMetrics::register(&mut registry);
    let clock = clock.clone();
    Hub::new(HubParts {
        cores: 1,
        settings,
        apps: vec![app],
        clock,
        metrics,
        webhooks,
        log: None,
        tracer: Default::default(),
    })
}

fn realtime(hub: &Arc<Hub>, clock: &Clock, folder: &Path) -> RealtimeSource {
    let switches =
        Switchboard::open(Arc::clone(hub.switches()), clock.clone(), folder.join("switches.json"));
    let history = history::HistorySettings {
        directory: folder.to_owned(),
        ..history::HistorySettings::default()
    };
    RealtimeSource::new(Arc::clone(hub), switches, &history)
}

fn serve(hub: &Arc<Hub>, clock: &Clock, stop: &ServerStop) -> (RunningServer, SocketAddr) {
    let address = "127.0.0.1:0".parse().expect("an address");
    let sockets = Listener::bind_group(&address, 1, BindOptions::default()).expect("a port");
    let address = match &sockets[0] {
        Listener::Tcp(listener) => listener.local_addr().expect("an address"),
        Listener::Unix(_) => unreachable!("bound to a port"),
    };
    let (hub, draining) = (Arc::clone(hub), stop.graceful.clone());
    let running = weir_net::server::start(ServerOptions {
        listeners: vec![CoreListener { sockets, tls: None }],
        cores: 1,
        limits: Arc::new(ArcSwap::from_pointee(HttpServerLimits::default())),
        clock: clock.clone(),
        trusted_proxies: weir_net::client::TrustedProxies::default(),
        metrics: NetMetrics::register(&mut Registry::default()),
        service: move |core: CoreIndex| {
            Rc::new(Core(Shard::new(Arc::clone(&hub), core.0, draining.clone())))
        },
        stop: stop.clone(),
    });
    (running.expect("cores"), address)
}
