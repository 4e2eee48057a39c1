//! Nodes of an earlier program beside those of this one, on one Redis. WEIR_PREVIOUS names the earlier program;
//! without it nothing is tested.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Api, Socket};
use super::nodes::redis;
use super::{BASE, SECRET, TOKEN, app};
use crate::doctor::redis_server::RedisServer;
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// How long events are published in each stage.
const STAGE: Duration = Duration::from_secs(2);
/// Between two rounds of the publisher: what is published while a node is replaced fits into a history.
const PAUSE: Duration = Duration::from_millis(25);
const LAYOUT: &str = "weir_realtime_redis_layout{";
const OK: &str = "HTTP/1.1 200 OK";

/// A program, of which each node has its own data directory.
struct Programs {
    previous: PathBuf,
    settings: String,
}

impl Programs {
    fn new(previous: PathBuf, redis: &RedisServer) -> Self {
        let url = format!("redis://127.0.0.1:{}", redis.port);
        let broker = format!("[realtime]\nbroker = {{ redis = [{{ url = \"{url}\" }}] }}\n");
        Self { previous, settings: format!("{BASE}{broker}{}", app("1", "demo-key")) }
    }

    fn site(&self) -> Site {
        let site = Site::new("");
        site.write(&self.settings);
        site
    }

    fn start(site: Site, file: &Path) -> Weir {
        let weir = site.start_program(file, |command| {
            command.env("WEIR_REALTIME_SECRET", SECRET).env("WEIR_TEST_TOKEN", TOKEN);
        });
        wait_until("the node uses Redis", || publish(weir.front(), "start", "1"));
        weir
    }

    fn start_previous(&self, site: Site) -> Weir {
        Self::start(site, &self.previous)
    }

    fn start_present(site: Site) -> Weir {
        Self::start(site, Path::new(env!("CARGO_BIN_EXE_weir")))
    }
}

/// Publishes an event once, however often it is repeated. Returns whether it was.
fn publish(address: SocketAddr, channel: &str, number: &str) -> bool {
    status_of(address, channel, number) == OK
}

/// Publishes an event. Returns the status.
fn status_of(address: SocketAddr, channel: &str, number: &str) -> String {
    let api = Api { address, app: "1", key: "demo-key", secret: SECRET };
    let body = json!({"name": "e", "channel": channel, "data": number, "idempotency_key": number});
    api.post("events", &body).0
}

/// Publishes events through all nodes in turn until it is over. The number of each is its data and its key.
#[derive(Default)]
struct Publisher {
    nodes: Mutex<Vec<SocketAddr>>,
    published: AtomicU64,
    /// The statuses of those that were not published.
    rejected: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Publisher {
    fn run(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            for address in nodes.iter() {
                let number = self.published() + 1;
                let status = status_of(*address, "news", &number.to_string());
                if status == OK {
                    self.published.store(number, Ordering::SeqCst);
                } else {
                    self.rejected.lock().unwrap_or_else(PoisonError::into_inner).push(status);
                }
            }
            drop(nodes);
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns how many events were published.
    fn published(&self) -> u64 {
        self.published.load(Ordering::SeqCst)
    }

    fn add(&self, node: &Weir) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node.front());
    }

    /// When this returns, no request to the node is in progress.
    fn remove(&self, node: &Weir) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.retain(|address| *address != node.front());
    }
}

/// A client that recovers what it has missed, and has each event once and in order.
struct Reader {
    socket: Socket,
    position: Value,
    next: u64,
}

impl Reader {
    fn new(node: &Weir) -> Self {
        let mut socket = Socket::connect(node.front(), "demo-key");
        socket.subscribe("news");
        Self { socket, position: Value::Null, next: 1 }
    }

    fn read_until(&mut self, last: u64) {
        while self.next <= last {
            let event = self.socket.next().expect("the connection stays open");
            assert_eq!(
                (&event["event"], &event["data"]),
                (&json!("e"), &json!(self.next.to_string()))
            );
            assert_eq!(event["offset"], self.next, "{event}");
            self.position = json!({"epoch": event["epoch"], "offset": event["offset"]});
            self.next += 1;
        }
    }

    /// Connects to the successor of its node.
    fn reconnect(&mut self, node: &Weir) {
        let mut resumed = None;
        wait_until("the client is connected", || {
            resumed = Socket::resume(node.front(), "demo-key", "news", Some(&self.position));
            resumed.is_some()
        });
        let (socket, reply) = resumed.expect("connected");
        assert_eq!(reply["recovery"]["outcome"], "recovered", "{reply}");
        self.socket = socket;
    }
}

fn wait_for_layout(node: &Weir, layout: &str) {
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    wait_until(&format!("layout {layout}"), || {
        let (_, metrics) = get(node.console(), "/metrics", &token);
        let mut lines = metrics.lines().filter(|line| line.starts_with(LAYOUT));
        lines.any(|line| line.ends_with(&format!("}} {layout}")))
    });
}

/// Joins a presence channel at each node, and leaves it again.
fn join_at_both(nodes: [&Weir; 2]) {
    let mut sockets = nodes.map(|node| Socket::connect(node.front(), "demo-key"));
    sockets[0].join("presence-room", "ada", "demo-key", SECRET);
    wait_until("both nodes know both members", || {
        let mut probe = Socket::connect(nodes[0].front(), "demo-key");
        let ids = sockets[1].join("presence-room", "bob", "demo-key", SECRET);
        sockets[1].leave("presence-room");
        let probed = probe.join("presence-room", "ada", "demo-key", SECRET);
        ids == ["ada", "bob"] && probed.contains(&"ada".to_owned())
    });
}

fn sees_online(watching: &Weir, watched: &Weir) {
    let mut watcher = Socket::connect(watching.front(), "demo-key");
    watcher.sign_in_watching("watcher", &["watched"], "demo-key", SECRET);
    let mut socket = Socket::connect(watched.front(), "demo-key");
    socket.sign_in("watched", "demo-key", SECRET);
    let event = watcher.event("pusher_internal:watchlist_events");
    assert!(event["data"].as_str().expect("text").contains("online"), "{event}");
}

#[test]
fn nodes_of_an_earlier_version_are_replaced_and_return_while_events_are_published() {
    let Some(previous) = std::env::var_os("WEIR_PREVIOUS") else { return };
    let Some(redis) = redis() else { return };
    let programs = Programs::new(PathBuf::from(previous), &redis);
    let publisher = Publisher::default();
    let mut one = programs.start_previous(programs.site());
    let mut other = programs.start_previous(programs.site());
    let mut readers = [Reader::new(&one), Reader::new(&other)];
    let stage = |one: &Weir, other: &Weir| {
        join_at_both([one, other]);
        std::thread::sleep(STAGE);
    };
    let nodes = std::thread::scope(|scope| {
        publisher.add(&one);
        publisher.add(&other);
        let publishing = scope.spawn(|| publisher.run());
        stage(&one, &other);

        publisher.remove(&one);
        readers[0].read_until(publisher.published());
        one = Programs::start_present(one.end());
        readers[0].reconnect(&one);
        publisher.add(&one);
        wait_for_layout(&one, "1");
        stage(&one, &other);

        publisher.remove(&other);
        readers[1].read_until(publisher.published());
        other = Programs::start_present(other.end());
        readers[1].reconnect(&other);
        publisher.add(&other);
        for node in [&one, &other] {
            wait_for_layout(node, "2");
        }
        stage(&one, &other);
        sees_online(&one, &other);

        // The way back.
        publisher.remove(&other);
        readers[1].read_until(publisher.published());
        other = programs.start_previous(other.end());
        readers[1].reconnect(&other);
        publisher.add(&other);
        wait_for_layout(&one, "1");
        stage(&one, &other);
        publisher.is_over.store(true, Ordering::SeqCst);
        publishing.join().expect("it has published");
        [one, other]
    });
    let published = publisher.published();
    readers.iter_mut().for_each(|reader| reader.read_until(published));
    assert!(published > 100, "{published}");
    let rejected = publisher.rejected.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(rejected.is_empty(), "publications go on while the layout changes: {rejected:?}");
    for node in nodes {
        assert!(node.stop().success());
    }
}
