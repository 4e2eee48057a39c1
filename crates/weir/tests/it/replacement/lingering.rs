//! The service process that was replaced serves the connections that it has until they end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Pid;
use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use super::{APP, SECRET, replaced};
use crate::http::get;
use crate::process::{TEST_TIMEOUT, wait_until};
use crate::realtime::client::{Api, Socket};
use crate::weir::{Site, Weir, is_running};

const ONE_WORKER: &str = "workers = 1\nconcurrency = 8\n";

/// A connection that its client keeps.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn open(front: SocketAddr) -> Self {
        let stream = TcpStream::connect(front).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        Self(BufReader::new(stream))
    }

    /// Sends a request; returns the head of the response.
    fn post(&mut self, path: &str) -> String {
        self.post_body(path, "")
    }

    fn post_body(&mut self, path: &str, body: &str) -> String {
        let length = body.len();
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: shop\r\nContent-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes()).expect("written");
        self.read_until("\r\n\r\n")
    }

    fn read_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            assert_ne!(self.0.read_line(&mut text).expect("a line"), 0, "closed behind {text:?}");
        }
        text
    }

    /// Sends the last request of a connection.
    fn post_last(mut self) {
        let head = self.post("/last");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        self.0.read_to_end(&mut Vec::new()).expect("the end");
    }

    fn post_one(&mut self) {
        let head = self.post("/");
        self.read_body(&head);
    }

    fn read_body(&mut self, head: &str) {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        self.0.read_exact(&mut vec![0; length]).expect("a body");
    }
}

/// A WebSocket of the app.
struct Cable(WebSocket<TcpStream>);

impl Cable {
    fn open(front: SocketAddr) -> Self {
        let stream = TcpStream::connect(front).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let socket = tungstenite::client(format!("ws://{front}/cable"), stream);
        Self(socket.expect("a WebSocket").0)
    }

    fn check_echo(&mut self) {
        self.0.send(Message::text("hello")).expect("sent");
        assert_eq!(self.0.read().expect("a message"), Message::text("hello"));
    }

    /// Returns the close status.
    fn close_status(mut self) -> u16 {
        let Message::Close(frame) = self.0.read().expect("a message") else { panic!("no close") };
        // The close is confirmed with the next read.
        let ended = self.0.read();
        assert!(matches!(ended, Err(tungstenite::Error::ConnectionClosed)), "{ended:?}");
        frame.expect("a status").code.into()
    }
}

fn write_settings(site: &Site, front: &str, supervisor: &str) {
    let folder = site.path().display().to_string();
    let settings = super::settings(&folder, &format!("[supervisor]\n{supervisor}"))
        .replace("cores = 2\n", &format!("cores = 2\n{front}"))
        .replace("workers = 3\nconcurrency = 8\n", ONE_WORKER);
    site.write(&settings);
}

fn start(front: &str, supervisor: &str) -> Weir {
    let site = Site::new("");
    std::fs::write(site.path().join("app.py"), APP).expect("written");
    write_settings(&site, front, supervisor);
    let weir = site.start_with(|command| {
        command.env("WEIR_REALTIME_SECRET", SECRET);
    });
    wait_until("the worker serves", || get(weir.front(), "/", "").0 == "HTTP/1.1 200 OK");
    weir
}

fn replace(weir: &Weir, command: &str) -> Pid {
    let (old, _) = replaced(weir, command);
    let pid = i32::try_from(old.as_i64().expect("a number")).expect("a pid");
    Pid::from_raw(pid).expect("a pid")
}

/// Returns what the new process reports about the only worker.
fn worker(weir: &Weir, what: &str) -> Value {
    let listed = weir.site.ok(&["workers", "list", "--json", "--data-dir", "data"]);
    let apps: Value = serde_json::from_str(&listed).expect("JSON");
    apps[0]["workers"][0][what].clone()
}

#[test]
fn pipelined_and_idle_connections_are_served_during_replacement() {
    let weir = start("", "");
    for command in ["restart", "upgrade"] {
        let mut idle = Kept::open(weir.front());
        idle.post_one();
        let mut streaming = Kept::open(weir.front());
        let head = streaming.post(&format!("/pieces/{command}"));
        assert!(!head.contains("connection: close"), "{head}");
        let unused = Kept::open(weir.front());
        streaming.read_until("first\n");
        // Returns although a response is in progress.
        let old = replace(&weir, command);
        std::fs::write(weir.site.path().join(command), "").expect("written");
        streaming.read_until("\r\n0\r\n\r\n");
        assert!(is_running(old));
        for kept in [streaming, idle, unused] {
            kept.post_last();
        }
        wait_until("the old process has ended", || !is_running(old));
    }
    assert!(weir.stop().success());
}

/// The new process has the realtime histories.
#[test]
fn publishes_on_old_connections_are_forwarded() {
    let weir = start("", "");
    let front = weir.front();
    let api = Api { address: front, app: "1", key: "demo-key", secret: SECRET };
    let mut publisher = Kept::open(front);
    let mut publish = |number: u32| {
        let event = json!({"name": "count", "channel": "news", "data": number.to_string()});
        let head = publisher.post_body(&api.signed_target("events", &event), &event.to_string());
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        publisher.read_body(&head);
        head.contains("connection: close")
    };
    assert!(!publish(1));
    replace(&weir, "restart");
    let mut subscriber = Socket::connect(front, "demo-key");
    subscriber.subscribe("news");
    assert!(publish(2), "the last request of its connection");
    assert_eq!(subscriber.event("count")["data"], "2");
    assert!(weir.stop().success());
}

#[test]
fn websockets_are_kept_until_stream_drain_and_count_as_load() {
    let mut weir = start("stream_drain = \"3s\"\n", "");
    let mut cable = Cable::open(weir.front());
    cable.check_echo();
    let old = replace(&weir, "restart");
    cable.check_echo();
    assert!(is_running(old));
    wait_until("the new process knows of it", || worker(&weir, "streams") == 1);
    let shown = || weir.site.ok(&["status", "--data-dir", "data"]);
    wait_until("status tells of it", || {
        shown().contains("1 service process that was replaced still has connections")
    });
    weir.wait_for_log("the next service process has taken over");
    assert_eq!(cable.close_status(), 1001);
    wait_until("the app was told by the client", || {
        std::fs::read_to_string(weir.site.path().join("closed")).is_ok_and(|it| it == "1001\n")
    });
    wait_until("the old process has ended", || !is_running(old));
    wait_until("the new process knows that, too", || worker(&weir, "streams") == 0);
    assert!(weir.stop().success());
}

#[test]
fn oldest_of_too_many_processes_closes_its_streams() {
    let weir = start("", "old_processes_max = 1\n");
    let mut first = Cable::open(weir.front());
    first.check_echo();
    let oldest = replace(&weir, "restart");
    let mut second = Cable::open(weir.front());
    second.check_echo();
    first.check_echo();
    // The parent becomes another program, and knows of it all the same.
    let next = replace(&weir, "upgrade");
    assert_eq!(first.close_status(), 1001);
    wait_until("the oldest has ended", || !is_running(oldest));
    second.check_echo();
    assert!(is_running(next));
    assert!(weir.stop().success());
    assert!(!is_running(next), "a stop does not leave it behind");
    assert_eq!(second.close_status(), 1001, "it was closed in order");
}

#[test]
fn event_stream_is_kept_and_closed_cleanly() {
    let weir = start("stream_drain = \"3s\"\n", "");
    let mut events = Kept::open(weir.front());
    let request = b"GET /events/never HTTP/1.1\r\nHost: shop\r\n\r\n";
    events.0.get_mut().write_all(request).expect("written");
    events.read_until("\r\n\r\n");
    events.read_until("\n\n");
    let old = replace(&weir, "restart");
    assert!(is_running(old));
    wait_until("the new process knows of it", || worker(&weir, "streams") == 1);
    assert!(events.read_until("0\r\n\r\n").ends_with("0\r\n\r\n"), "its last chunk");
    events.post_last();
    wait_until("the old process has ended", || !is_running(old));
    assert!(weir.stop().success());
}

#[test]
fn streams_without_drain_end_at_replacement() {
    let weir = start("stream_drain = \"0s\"\n", "");
    let mut cable = Cable::open(weir.front());
    cable.check_echo();
    let old = replace(&weir, "restart");
    assert_eq!(cable.close_status(), 1001);
    wait_until("the old process has ended", || !is_running(old));
    assert!(weir.stop().success());
}

#[test]
fn old_process_ends_with_its_parent() {
    let weir = start("", "");
    let mut cable = Cable::open(weir.front());
    cable.check_echo();
    let old = replace(&weir, "restart");
    cable.check_echo();
    let _site = weir.kill_parent();
    wait_until("it has ended", || !is_running(old));
}

#[test]
fn shutdown_ends_old_processes_early() {
    let weir = start("", "");
    let mut cable = Cable::open(weir.front());
    cable.check_echo();
    let old = replace(&weir, "restart");
    cable.check_echo();
    assert!(weir.stop().success());
    assert!(!is_running(old));
    assert_eq!(cable.close_status(), 1001);
}
