//! The end of a core, as connections see it that can begin a request at any time.

use std::io::Read;
use std::time::Duration;

use weir_net::server::{DrainOutcome, HttpServerLimits};

use super::hostile::{HELLO, PREFACE, frame, head};
use crate::server::echo::{Client, Server, Setup, TIMEOUT};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// A frame that the server sent.
#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Client {
    fn frame(&mut self) -> Frame {
        let mut start = [0; 9];
        self.0.read_exact(&mut start).expect("a frame");
        let [high, middle, low, kind, flags, stream @ ..] = start;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        self.0.read_exact(&mut payload).expect("all of it");
        Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }
    }

    /// The next frame of a kind that is no mere confirmation.
    fn next(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.frame();
            if frame.kind == kind && !(kind <= PING && frame.flags & ACK != 0 && frame.stream == 0)
            {
                return frame;
            }
        }
    }

    /// The last stream that the server says it will serve.
    fn goaway(&mut self) -> u32 {
        let payload = self.next(GOAWAY).payload;
        assert_eq!(payload[4..8], [0; 4], "no mistake of the client's");
        u32::from_be_bytes(payload[..4].try_into().expect("a stream"))
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// A connection that speaks HTTP/2 and has asked for nothing.
fn greeted(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(HELLO);
    client.next(SETTINGS);
    client
}

/// One that was told that the server ends, and the question that the server waits for the answer
/// of.
fn told(server: &Server, client: &mut Client) -> Vec<u8> {
    server.stop.graceful.cancel();
    assert_eq!(client.goaway(), (1 << 31) - 1, "what is on its way is served");
    client.next(PING).payload
}

#[test]
fn goaway_names_the_last_served_stream() {
    let limits = HttpServerLimits {
        last_request_timeout: TIMEOUT,
        linger_timeout: TIMEOUT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = greeted(&server);
    let ping = told(&server, &mut client);
    client.send(head(1, "/hello")).send(frame(PING, ACK, 0, &ping));
    let mut requests = Vec::new();
    while requests.len() < 3 {
        match client.frame() {
            Frame { kind: HEADERS | DATA, stream, .. } => requests.push(format!("answer {stream}")),
            Frame { kind: GOAWAY, payload, .. } => requests.push(format!("last {}", payload[3])),
            _ => {}
        }
    }
    requests.sort();
    assert_eq!(requests, ["answer 1", "answer 1", "last 1"]);
    assert!(client.is_closed());
    assert_eq!(server.requests(), ["GET /hello"]);
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_stream_after_goaway_is_refused_unprocessed() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::ZERO,
        linger_timeout: TIMEOUT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = greeted(&server);
    client.send(head(1, "/slow"));
    server.wait_until_requested("GET /slow");
    let ping = told(&server, &mut client);
    client.send(head(3, "/late"));
    let refused = client.next(RST_STREAM);
    assert_eq!((refused.stream, &refused.payload[..]), (3, &REFUSED_STREAM[..]));
    server.released.cancel();
    assert_eq!(client.next(HEADERS).stream, 1, "what is in hand is answered");
    client.send(frame(PING, ACK, 0, &ping));
    client.goaway();
    assert_eq!(server.requests(), ["GET /slow"]);
    assert!(client.is_closed());
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_drain_serves_streams_sent_before_the_client_reads_goaway() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::ZERO,
        linger_timeout: Duration::ZERO,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = greeted(&server);
    client.send(head(1, "/slow"));
    server.wait_until_requested("GET /slow");
    server.stop.drain.cancel();
    assert_eq!(client.goaway(), (1 << 31) - 1, "what is on its way is served");
    let ping = client.next(PING).payload;
    client.send(head(3, "/hello"));
    assert_eq!(client.next(HEADERS).stream, 3, "it was on its way");
    server.released.cancel();
    assert_eq!(client.next(HEADERS).stream, 1, "streams finish");
    client.send(head(5, "/hello"));
    assert_eq!(client.next(HEADERS).stream, 5, "nothing is open, and it has not read the GOAWAY");
    client.send(frame(PING, ACK, 0, &ping));
    assert_eq!(client.goaway(), 5);
    assert!(client.is_closed());
    assert_eq!(server.ended(), DrainOutcome::Clean, "nobody has told it to stop");
}

#[test]
fn a_stop_ends_a_drain_before_the_client_reads_goaway() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::ZERO,
        linger_timeout: Duration::from_millis(10),
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut silent = greeted(&server);
    server.stop.drain.cancel();
    silent.goaway();
    server.stop.graceful.cancel();
    while silent.0.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_silent_client_does_not_delay_the_stop() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::from_millis(10),
        linger_timeout: Duration::from_millis(10),
        head_timeout: 10 * TIMEOUT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut silent = vec![greeted(&server)];
    // A beginning without settings, half a head.
    let mut begun = server.connect();
    begun.send(PREFACE).next(SETTINGS);
    silent.push(begun);
    let mut in_a_head = greeted(&server);
    in_a_head.send(&head(1, "/never")[..12]);
    silent.push(in_a_head);
    server.stop.graceful.cancel();
    for client in &mut silent {
        while client.0.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
    }
    assert_eq!(server.ended(), DrainOutcome::Clean);
}
