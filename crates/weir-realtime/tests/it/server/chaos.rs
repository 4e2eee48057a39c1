//! Faults: connections that are cut, stall, close by half, or send nonsense, while events are
//! published. Every client that recovers sees every event of its channels once and in order, unless
//! it is told of a gap.
//!
//! `WEIR_CHAOS_SECONDS=600` makes it a long run; `WEIR_CHAOS_SEED` repeats one.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fastrand::Rng;
use serde_json::json;
use socket2::SockRef;
use tungstenite::Message;

use super::*;

const CHANNELS: usize = 5;
const CLIENTS: u64 = 12;
const PUBLISHERS: usize = 3;

/// A connection that hears nothing for so long is given up.
const QUIET: Duration = Duration::from_millis(500);

/// What happened: a run in which nothing happens proves nothing.
#[derive(Debug, Default)]
struct Counts {
    published: AtomicU64,
    received: AtomicU64,
    recovered: AtomicU64,
    gaps: AtomicU64,
    faults: AtomicU64,
}

fn setting(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "settings of a test run")]
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn under_any_failure_clients_get_each_event_once_in_order_or_a_gap() {
    let seconds = setting("WEIR_CHAOS_SECONDS", 3);
    let seed = setting("WEIR_CHAOS_SEED", fastrand::u64(..));
    let server = Server::with(|_, app| {
        app.client_queue_bytes_max = 64 << 10;
        app.history.events_max = 2_000;
        app.history.bytes_max = 8 << 20;
    });
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        std::thread::scope(|scope| {
            for publisher in 0..PUBLISHERS {
                let (server, counts, is_over) = (&server, &counts, &is_over);
                scope.spawn(move || publish_all(server, counts, is_over, publisher));
            }
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (server, counts, is_over) = (&server, &counts, &is_over);
                    let rng = Rng::with_seed(seed ^ client);
                    scope.spawn(move || Checker::new(server, counts, rng).run(is_over))
                })
                .collect();
            let end = server.clock.now() + Duration::from_secs(seconds);
            while server.clock.now() < end && clients.iter().all(|client| !client.is_finished()) {
                std::thread::sleep(Duration::from_millis(20));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }));
    assert!(outcome.is_ok(), "seed {seed}: {counts:?}");
    for count in [&counts.published, &counts.received, &counts.recovered, &counts.faults] {
        assert!(count.load(Ordering::Relaxed) > 0, "nothing happened: {counts:?}");
    }
    println!("seed {seed}, {seconds} s: {counts:?}");
}

fn publish_all(server: &Server, counts: &Counts, is_over: &AtomicBool, publisher: usize) {
    let mut rng = Rng::with_seed(publisher as u64);
    let mut numbers = [0_u64; CHANNELS];
    while !is_over.load(Ordering::Relaxed) {
        let channel = rng.usize(..CHANNELS);
        numbers[channel] += 1;
        let padding = "x".repeat(rng.usize(..2_000));
        let data = json!([publisher, numbers[channel], padding]).to_string();
        let body = json!({ "name": "e", "channel": format!("c{channel}"), "data": data });
        let (status, _) = server.post("/apps/1/events", &body);
        // 503 is an answer as well; then the number is not among the events.
        if status == 200 {
            counts.published.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A client that recovers, and what it knows of each channel.
struct Checker<'a> {
    server: &'a Server,
    counts: &'a Counts,
    rng: Rng,
    places: HashMap<String, Place>,
}

#[derive(Clone, Debug)]
struct Place {
    epoch: String,
    offset: u64,
    /// The last number of each publisher.
    numbers: [u64; PUBLISHERS],
}

impl<'a> Checker<'a> {
    fn new(server: &'a Server, counts: &'a Counts, rng: Rng) -> Self {
        Self { server, counts, rng, places: HashMap::new() }
    }

    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            // However the connection ends: the next one goes on from where this one was.
            self.connection();
        }
    }

    fn connection(&mut self) -> Option<()> {
        let address = self.server.address;
        let stream = TcpStream::connect(address).ok()?;
        if self.rng.u8(..) < 40 {
            SockRef::from(&stream).set_recv_buffer_size(64 << 10).ok()?;
        }
        let target = format!("/app/{KEY}?protocol=7");
        let mut client = Client::over(stream, address, &target)?;
        // Events come all the time: whoever hears nothing for so long goes on with another one.
        client.socket.get_mut().set_read_timeout(Some(QUIET)).ok()?;
        let mut left = self.rng.usize(..200);
        while left > 0 {
            left -= 1;
            let message = match client.socket.read() {
                Ok(Message::Text(text)) => text,
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => continue,
            };
            let event = client::Event::parse(&message);
            if event.name == "pusher:connection_established" {
                self.subscribe(&mut client)?;
            }
            self.check(&event);
        }
        self.break_it(client)
    }

    fn subscribe(&mut self, client: &mut Client) -> Option<()> {
        for channel in 0..CHANNELS {
            let name = format!("c{channel}");
            let mut data = json!({ "channel": name });
            if let Some(place) = self.places.get(&name) {
                data["recover"] = json!({ "epoch": place.epoch, "offset": place.offset });
            }
            let message = json!({ "event": "pusher:subscribe", "data": data }).to_string();
            client.socket.send(Message::text(message)).ok()?;
        }
        Some(())
    }

    fn check(&mut self, event: &client::Event) {
        let Some(channel) = &event.channel else { return };
        match event.name.as_str() {
            "pusher_internal:subscription_succeeded" => self.joined(channel, event),
            "e" => self.received(channel, event),
            other => panic!("{other}: {}", event.json),
        }
    }

    fn joined(&mut self, channel: &str, event: &client::Event) {
        let epoch = event.json["epoch"].as_str().unwrap().to_owned();
        let known = self.places.contains_key(channel);
        match event.json["recovery"]["outcome"].as_str() {
            Some("recovered") => {
                let place = &self.places[channel];
                assert_eq!(place.epoch, epoch);
                let events = event.json["recovery"]["events"].as_u64().unwrap();
                assert_eq!(place.offset + events, event.offset(), "{}", event.json);
                self.counts.recovered.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Some("gap") => drop(self.counts.gaps.fetch_add(1, Ordering::Relaxed)),
            None => assert!(!known, "who asks is answered"),
            Some(other) => panic!("{other}"),
        }
        let place = Place { epoch, offset: event.offset(), numbers: [0; PUBLISHERS] };
        self.places.insert(channel.to_owned(), place);
    }

    fn received(&mut self, channel: &str, event: &client::Event) {
        let place = self.places.get_mut(channel).unwrap();
        assert_eq!(event.json["epoch"], json!(place.epoch));
        assert_eq!(event.offset(), place.offset + 1, "{channel}");
        place.offset += 1;
        let publisher = usize::try_from(event.data[0].as_u64().unwrap()).unwrap();
        let number = event.data[1].as_u64().unwrap();
        let before = std::mem::replace(&mut place.numbers[publisher], number);
        assert!(before < number, "{channel}: {publisher}'s {number} after {before}");
        self.counts.received.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a connection in one of the ways in which connections end.
    fn break_it(&mut self, mut client: Client) -> Option<()> {
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        let garbage: Vec<u8> = (0..self.rng.usize(1..64)).map(|_| self.rng.u8(..)).collect();
        let stream = client.socket.get_mut();
        match self.rng.u8(..7) {
            // A reset.
            0 => SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).ok()?,
            // Half a close: it still listens, and is closed from the other side.
            1 => {
                stream.shutdown(Shutdown::Write).ok()?;
                stream.read_to_end(&mut Vec::new()).ok()?;
            }
            // It does not read for a while, then goes on until it is thrown out or has all.
            2 => {
                std::thread::sleep(Duration::from_millis(self.rng.u64(..100)));
                for _ in 0..self.rng.usize(..500) {
                    match client.socket.read().ok()? {
                        Message::Text(text) => self.check(&client::Event::parse(&text)),
                        Message::Close(_) => return None,
                        _ => {}
                    }
                }
            }
            // Frames that are none, or half of one.
            3 => stream.write_all(&garbage).ok()?,
            4 => stream.write_all(b"\x81\xfe\x01\x00\0\0\0\0{\"event\"").ok()?,
            // As it should be.
            5 => client.socket.close(None).ok()?,
            _ => {}
        }
        Some(())
    }
}
