//! Clients of everything, which go on until they are told to stop, and fail at the first loss.

mod http2;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::SECRET;
use crate::faktory::Client;
use crate::http::get;
use crate::process::{TEST_TIMEOUT, wait_until};
use crate::realtime::client::{Api, Socket};
use crate::weir::Weir;

/// What the clients share.
#[derive(Clone, Default)]
struct Shared {
    is_over: Arc<AtomicBool>,
    /// Rounds of each client.
    rounds: Arc<[AtomicU64; CLIENTS]>,
}

/// Two of each kind over HTTP/1.1, a producer of jobs, a publisher, a subscriber, one over HTTP/2.
const CLIENTS: usize = 8;
const SUBSCRIBER: usize = 6;

/// They, running.
pub(super) struct Load {
    shared: Shared,
    http: Vec<JoinHandle<()>>,
    producer: JoinHandle<BTreeSet<String>>,
    publisher: JoinHandle<u64>,
    subscriber: JoinHandle<Vec<u64>>,
}

impl Shared {
    fn should_continue(&self, client: usize) -> bool {
        self.rounds[client].fetch_add(1, Ordering::SeqCst);
        !self.is_over.load(Ordering::SeqCst)
    }
}

impl Load {
    pub(super) fn start(weir: &Weir) -> Self {
        let (front, jobs, shared) = (weir.front(), weir.jobs(), Shared::default());
        let run = |client, each: fn(SocketAddr, &Shared, usize)| {
            let shared = shared.clone();
            std::thread::spawn(move || each(front, &shared, client))
        };
        let http = vec![
            run(0, request_on_new_connections),
            run(1, request_on_new_connections),
            run(2, request_on_one_connection),
            run(3, request_on_one_connection),
            run(7, http2::request_on_one_connection),
        ];
        let (a, b, c) = (shared.clone(), shared.clone(), shared.clone());
        // Before anything is published.
        let (socket, _) = Socket::resume(front, "demo-key", "news", None).expect("subscribed");
        let load = Self {
            shared,
            http,
            producer: std::thread::spawn(move || produce(jobs, &a)),
            subscriber: std::thread::spawn(move || subscribe(front, &b, socket)),
            publisher: std::thread::spawn(move || publish(front, &c)),
        };
        load.wait_for_progress();
        load
    }

    /// Waits until each client has made progress.
    pub(super) fn wait_for_progress(&self) {
        let rounds = || self.shared.rounds.each_ref().map(|count| count.load(Ordering::SeqCst));
        let before = rounds();
        wait_until("every client goes on", || {
            rounds().iter().zip(&before).all(|(now, before)| *now > before + 2)
        });
    }

    /// Stops the load and checks that everything acknowledged exists.
    pub(super) fn stop(self, weir: &Weir) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for client in self.http {
            client.join().expect("no request lost");
        }
        let pushed = self.producer.join().expect("no job refused");
        let published = self.publisher.join().expect("every event taken");
        let received = self.subscriber.join().expect("it recovered");
        assert_eq!(received.last(), Some(&published), "up to the last one");
        let first = received.first().copied().expect("some");
        assert!(received.iter().copied().eq(first..=published), "once and in order: {received:?}");
        let fetched = fetch_all(weir.jobs());
        let lost: Vec<_> = pushed.difference(&fetched).collect();
        assert!(lost.is_empty(), "of {}: {lost:?}", pushed.len());
    }
}

/// Sends each request on a new connection.
fn request_on_new_connections(front: SocketAddr, shared: &Shared, client: usize) {
    while shared.should_continue(client) {
        assert_eq!(get(front, "/", "").0, "HTTP/1.1 200 OK");
    }
}

/// Sends requests on one connection until the server closes it, then on the next one.
fn request_on_one_connection(front: SocketAddr, shared: &Shared, client: usize) {
    while shared.should_continue(client) {
        let stream = TcpStream::connect(front).expect("connects");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        let mut stream = BufReader::new(stream);
        while shared.should_continue(client) && request(&mut stream) {}
    }
}

/// Sends a request; returns false if it was the last one of the connection.
fn request(stream: &mut BufReader<TcpStream>) -> bool {
    stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").expect("written");
    let (mut head, mut length, mut is_last) = (String::new(), 0, false);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert_ne!(stream.read_line(&mut head).expect("a line"), 0, "closed: {head:?}");
        let line = head[start..].trim_end().to_ascii_lowercase();
        is_last |= line == "connection: close";
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a number");
        }
    }
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    stream.read_exact(&mut vec![0; length]).expect("a body");
    !is_last
}

/// Pushes jobs as fast as they are acknowledged; returns the acknowledged ones.
fn produce(jobs: SocketAddr, shared: &Shared) -> BTreeSet<String> {
    let mut pushed = BTreeSet::new();
    let mut client = Client::connect(jobs);
    let mut number = 0;
    while shared.should_continue(4) {
        number += 1;
        let jid = format!("it-job-{number:06}");
        let job = format!(r#"PUSH {{"jid":"{jid}","jobtype":"Hello","args":[]}}"#);
        match client.try_run_command(&job).as_deref() {
            Some("+OK") => drop(pushed.insert(jid)),
            // Told to go: nothing was promised.
            None | Some("") => client = Client::connect(jobs),
            Some(refused) => panic!("{refused}"),
        }
    }
    pushed
}

fn fetch_all(jobs: SocketAddr) -> BTreeSet<String> {
    let mut client = Client::connect(jobs);
    let mut fetched = BTreeSet::new();
    loop {
        let job = client.run_command("FETCH default");
        if job == "nil" {
            return fetched;
        }
        let job: Value = serde_json::from_str(&job).expect("JSON");
        fetched.insert(job["jid"].as_str().expect("a jid").to_owned());
    }
}

/// Publishes 1, 2, 3 .. and a last event; returns the number of events.
fn publish(front: SocketAddr, shared: &Shared) -> u64 {
    let api = Api { address: front, app: "1", key: "demo-key", secret: SECRET };
    let mut number = 0;
    let mut is_running = true;
    while is_running {
        is_running = shared.should_continue(5);
        number += 1;
        let data = json!({"number": number, "is_last": !is_running}).to_string();
        let event = json!({"name": "count", "channel": "news", "data": data});
        assert_eq!(api.post("events", &event).0, "HTTP/1.1 200 OK");
        // Histories keep 200 events; nobody is away for so many.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    number
}

/// Returns the received numbers, over as many connections as necessary.
fn subscribe(front: SocketAddr, shared: &Shared, mut socket: Socket) -> Vec<u64> {
    let (mut received, mut place) = (Vec::new(), None);
    loop {
        shared.should_continue(SUBSCRIBER);
        match socket.next() {
            Some(event) if event["event"] == "count" => {
                place = Some(json!({"epoch": event["epoch"], "offset": event["offset"]}));
                let data = event["data"].as_str().expect("text");
                let data: Value = serde_json::from_str(data).expect("JSON");
                received.push(data["number"].as_u64().expect("a number"));
                if data["is_last"] == true {
                    return received;
                }
            }
            Some(_) => {}
            None => {
                let mut back = None;
                while back.is_none() {
                    back = Socket::resume(front, "demo-key", "news", place.as_ref());
                }
                let (again, answer) = back.expect("subscribed");
                let outcome = &answer["recovery"]["outcome"];
                assert!(place.is_none() || outcome == "recovered", "{answer}");
                socket = again;
            }
        }
    }
}
