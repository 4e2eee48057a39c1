//! Three nodes behind HAProxy, with the file in deploy/three-nodes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{shard, site, start_in};
use crate::doctor::redis_server::free_port;
use crate::faktory::Client;
use crate::process::{TEST_TIMEOUT, wait_until};
use crate::realtime::client::{Api, Socket};
use crate::weir::{Site, Weir};

const PROGRAM: &str = "/usr/sbin/haproxy";
const PROXY_SETTINGS: &str = include_str!("../../../../../deploy/three-nodes/haproxy.cfg");
const KEY: &str = "three-nodes";
const EVENTS: u64 = 20;

/// The address that clients connect to.
struct Proxy {
    jobs: SocketAddr,
    web: SocketAddr,
    child: Child,
    _site: Site,
}

impl Proxy {
    fn start(nodes: &[Weir]) -> Self {
        let [jobs, web] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let mut settings = PROXY_SETTINGS
            .replace("maxconn 100000", "maxconn 1000")
            .replace("bind :7419", &format!("bind {jobs}"))
            .replace("bind :8080", &format!("bind {web}"));
        for (number, node) in (1..).zip(nodes) {
            settings = settings
                .replace(&format!("weir-{number}:7419"), &node.jobs().to_string())
                .replace(&format!("weir-{number}:8080"), &node.front().to_string());
        }
        let site = Site::new("");
        site.write_file("haproxy.cfg", settings.as_bytes());
        let mut command = Command::new(PROGRAM);
        command.arg("-db").arg("-f").arg(site.path().join("haproxy.cfg"));
        let child = command.stdout(Stdio::null()).spawn().expect("haproxy starts");
        Self { jobs, web, child, _site: site }
    }

    fn api(&self) -> Api<'static> {
        Api { address: self.web, app: "1", key: KEY, secret: "realtime-secret" }
    }

    /// Publishes an event, again until a node has accepted it.
    fn publish(&self, data: u64) {
        let body = json!({"name": "e", "channel": "news", "data": data.to_string(),
            "idempotency_key": format!("key-{data}")});
        wait_until("a node accepts it", || self.api().post("events", &body).0 == "HTTP/1.1 200 OK");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_of_one_address_go_on_when_a_node_is_killed() {
    if !Path::new(PROGRAM).exists() {
        eprintln!("skipped: there is no haproxy");
        return;
    }
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let nodes: Vec<Weir> = (0..3).map(|_| start_in(site([&a, &b]), "")).collect();
    let proxy = Proxy::start(&nodes);
    wait_until("the address responds", || TcpStream::connect(proxy.web).is_ok());
    proxy.publish(0);
    // The node with the fewest connections is first, so each gets two.
    let mut sockets: Vec<Socket> = (0..6).map(|_| Socket::connect(proxy.web, KEY)).collect();
    sockets.iter_mut().for_each(|socket| socket.subscribe("news"));
    let mut client = Client::connect(proxy.jobs);
    let job = r#"{"jid":"it-job-0001","jobtype":"T","args":[],"queue":"q"}"#;
    assert_eq!(client.run_command(&format!("PUSH {job}")), "+OK");
    (1..=EVENTS).for_each(|data| proxy.publish(data));
    let places: Vec<Value> = sockets.iter_mut().map(|socket| receive(socket, 1)).collect();
    assert!(places.iter().all(|place| *place == places[0]), "one order: {places:?}");
    for pid in [nodes[0].pid(), nodes[0].service()] {
        kill_process(pid, Signal::KILL).expect("killed");
    }
    (EVENTS + 1..=2 * EVENTS).for_each(|data| proxy.publish(data));
    let mut cut_off = 0;
    for mut socket in sockets {
        if socket.is_cut_off() {
            cut_off += 1;
            socket = resume(&proxy, &places[0]);
        }
        receive(&mut socket, EVENTS + 1);
    }
    assert_eq!(cut_off, 2);
    let mut worker = Client::connect(proxy.jobs);
    assert!(worker.run_command("FETCH q").contains("it-job-0001"));
}

/// Opens an event stream, as a client with this address. Returns the status; the stream is open with its connection.
fn open_stream(proxy: &Proxy, client: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(proxy.web).expect("connects");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let request = format!(
        "GET /app/{KEY}/channels/news/events HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("a status");
    (String::from_utf8_lossy(&status[9..]).into_owned(), stream)
}

/// With the addresses of HAProxy in front.trusted_proxies of the file. Here it connects from 127.0.0.1, and so do
/// the clients, which have no limit: their addresses are those that a proxy before HAProxy would forward.
#[test]
fn each_client_behind_haproxy_has_limits_of_its_own() {
    if !Path::new(PROGRAM).exists() {
        eprintln!("skipped: there is no haproxy");
        return;
    }
    let (Some(a), Some(b)) = (shard(), shard()) else { return };
    let node = start_in(site([&a, &b]), "[front.clients]\nstreams_max = 1\n");
    let proxy = Proxy::start(std::slice::from_ref(&node));
    wait_until("the address responds", || TcpStream::connect(proxy.web).is_ok());
    // Event streams of a channel whose position the node does not know yet end at once.
    let mut watcher = Socket::connect(node.front(), KEY);
    watcher.subscribe("news");
    proxy.publish(0);
    watcher.event("e");
    let clients = ["192.0.2.7", "192.0.2.7", "192.0.2.8"];
    let opened = clients.map(|client| open_stream(&proxy, client));
    let statuses: Vec<&str> = opened.iter().map(|(status, _)| status.as_str()).collect();
    assert_eq!(statuses, ["200", "503", "200"]);
    assert!(node.stop().success());
}

/// Reads as many events as were published, the first of them with `first`. Returns the position of the last.
fn receive(socket: &mut Socket, first: u64) -> Value {
    let mut place = Value::Null;
    for data in first..first + EVENTS {
        let event = socket.event("e");
        assert_eq!(event["data"], data.to_string(), "{event}");
        place = json!({"epoch": event["epoch"], "offset": event["offset"]});
    }
    place
}

/// Returns to another node, which has what was missed.
fn resume(proxy: &Proxy, place: &Value) -> Socket {
    let (socket, reply) =
        Socket::resume(proxy.web, KEY, "news", Some(place)).expect("no request to reconnect");
    assert_eq!(reply["recovery"], json!({"outcome": "recovered", "events": EVENTS}), "{reply}");
    socket
}
