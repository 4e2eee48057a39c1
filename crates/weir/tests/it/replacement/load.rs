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
use crate::process::{PATIENCE, wait_until};
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
    fn goes_on(&self, client: usize) -> bool {
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
            run(0, ask_anew),
            run(1, ask_anew),
            run(2, keep_asking),
            run(3, keep_asking),
            run(7, http2::keep_asking),
        ];
        let (a, b, c) = (shared.clone(), shared.clone(), shared.clone());
        // Before anything is published.
        let (socket, _) = Socket::back(front, "demo-key", "news", None).expect("subscribed");
        let load = Self {
            shared,
            http,
            producer: std::thread::spawn(move || produce(jobs, &a)),
            subscriber: std::thread::spawn(move || subscribe(front, &b, socket)),
            publisher: std::thread::spawn(move || publish(front, &c)),
        };
        load.goes_on();
        load
    }

    /// Waits until each client has done something more.
    pub(super) fn goes_on(&self) {
        let rounds = || self.shared.rounds.each_ref().map(|count| count.load(Ordering::SeqCst));
        let before = rounds();
        wait_until("every client goes on", || {
            rounds().iter().zip(&before).all(|(now, before)| *now > before + 2)
        });
    }

    /// Ends it; what was acknowledged must be there.
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

/// A connection for each request.
fn ask_anew(front: SocketAddr, shared: &Shared, client: usize) {
    while shared.goes_on(client) {
        assert_eq!(get(front, "/", "").0, "HTTP/1.1 200 OK");
    }
}

/// One connection for as long as the server likes.
fn keep_asking(front: SocketAddr, shared: &Shared, client: usize) {
    while shared.goes_on(client) {
        let stream = TcpStream::connect(front).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut stream = BufReader::new(stream);
        while shared.goes_on(client) && request(&mut stream) {}
    }
}

/// False: it was the last one.
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

/// Pushes jobs, as fast as they are acknowledged; those that were.
fn produce(jobs: SocketAddr, shared: &Shared) -> BTreeSet<String> {
    let mut pushed = BTreeSet::new();
    let mut client = Client::connect(jobs);
    let mut number = 0;
    while shared.goes_on(4) {
        number += 1;
        let jid = format!("it-job-{number:06}");
        let job = format!(r#"PUSH {{"jid":"{jid}","jobtype":"Hello","args":[]}}"#);
        match client.try_ask(&job).as_deref() {
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
        let job = client.ask("FETCH default");
        if job == "nil" {
            return fetched;
        }
        let job: Value = serde_json::from_str(&job).expect("JSON");
        fetched.insert(job["jid"].as_str().expect("a jid").to_owned());
    }
}

/// Publishes 1, 2, 3 .. and ends with a last one.
fn publish(front: SocketAddr, shared: &Shared) -> u64 {
    let api = Api { address: front, app: "1", key: "demo-key", secret: SECRET };
    let mut number = 0;
    let mut goes_on = true;
    while goes_on {
        goes_on = shared.goes_on(5);
        number += 1;
        let data = json!({"number": number, "is_last": !goes_on}).to_string();
        let event = json!({"name": "count", "channel": "news", "data": data});
        assert_eq!(api.post("events", &event).0, "HTTP/1.1 200 OK");
        // Histories keep 200 events; nobody is away for so many.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    number
}

/// The numbers that it got, over as many connections as it took.
fn subscribe(front: SocketAddr, shared: &Shared, mut socket: Socket) -> Vec<u64> {
    let (mut received, mut place) = (Vec::new(), None);
    loop {
        shared.goes_on(SUBSCRIBER);
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
                    back = Socket::back(front, "demo-key", "news", place.as_ref());
                }
                let (again, answer) = back.expect("subscribed");
                let outcome = &answer["recovery"]["outcome"];
                assert!(place.is_none() || outcome == "recovered", "{answer}");
                socket = again;
            }
        }
    }
}
