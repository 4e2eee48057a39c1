//! Clients that mean harm, frame by frame.

use std::io::{Read, Write};

use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::server::{Http2Limits, HttpServerLimits};

use crate::server::echo::{Client, Server, Setup, wait_until};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The preface and empty settings.
pub(super) const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., high, middle, low] = payload.len().to_be_bytes();
    let mut frame = vec![high, middle, low, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `GET path`.
pub(super) fn head(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields(path.as_bytes()))
}

fn fields(path: &[u8]) -> Vec<u8> {
    // HPACK: GET, http and the names of path and authority stand in its static table.
    let mut fields = vec![0x82, 0x86, 0x44, u8::try_from(path.len()).expect("short")];
    fields.extend(path);
    fields.extend([0x41, 1, b'x']);
    fields
}

/// Sends until the server has had enough; what it said last.
fn send_until_closed(client: &mut Client, mut next: impl FnMut(u32) -> Vec<u8>) -> Vec<u8> {
    for index in 0..1_000_000 {
        if client.0.write_all(&next(index)).is_err() {
            break;
        }
        assert!(index < 999_999, "a million frames were taken");
    }
    let mut said = Vec::new();
    let _ = client.0.read_to_end(&mut said);
    said
}

fn is_closed(server: &Server) -> bool {
    server.metrics.connections_open() == 0
}

#[test]
fn a_flood_of_control_frames_ends_the_connection() {
    for kind in [2, 4, PING, 0x42] {
        let server = Setup::default().start();
        let mut client = server.connect();
        client.send(HELLO);
        let payload: &[u8] = match kind {
            2 => &[0, 0, 0, 0, 0],
            4 => &[],
            _ => &[0; 8],
        };
        // Priorities are of a stream.
        send_until_closed(&mut client, |_| frame(kind, 0, u32::from(kind == 2), payload));
        let is_counted = || server.metrics.limit_hits(HttpServerLimit::Http2ControlFrames) == 1;
        wait_until(&format!("frame {kind} is counted"), is_counted);
        wait_until("it is closed", || is_closed(&server));
    }
}

#[test]
fn rapid_stream_resets_end_the_connection() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(HELLO);
    send_until_closed(&mut client, |index| {
        let stream = 2 * index + 1;
        [head(stream, "/slow"), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    });
    let hits = |limit| server.metrics.limit_hits(limit);
    let is_counted =
        || hits(HttpServerLimit::Http2ControlFrames) + hits(HttpServerLimit::Http2ResetsMax) == 1;
    wait_until("it is counted", is_counted);
    wait_until("it is closed", || is_closed(&server));
    assert!(server.requests().len() < 5_000, "{} requests", server.requests().len());
    let requests = server.requests();
    let count = |what: &str| requests.iter().filter(|requests| *requests == what).count();
    assert_eq!(count("GET /slow"), count("given up"), "nothing is left");
}

#[test]
fn resets_before_accept_have_their_own_limit() {
    let http2 = Http2Limits { resets_max: 10, ..Http2Limits::default() };
    let server = Setup {
        limits: HttpServerLimits { http2, ..HttpServerLimits::default() },
        ..Setup::default()
    }
    .start();
    let mut client = server.connect();
    // In one piece, so that h2 sees the end of a stream before anybody has asked for it.
    let mut all = HELLO.to_vec();
    for stream in (1..1_000).step_by(2) {
        all.extend(head(stream, "/slow"));
        all.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
    }
    let _ = client.0.write_all(&all);
    wait_until("it is counted", || server.metrics.limit_hits(HttpServerLimit::Http2ResetsMax) == 1);
    wait_until("it is closed", || is_closed(&server));
}

#[test]
fn an_endless_head_ends_the_connection() {
    for piece in [0, 1, 1_000] {
        let server = Setup::default().start();
        let mut client = server.connect();
        client.send(HELLO).send(frame(HEADERS, END_STREAM, 1, &fields(b"/")));
        // A field without indexing whose name has 1,000 bytes and more each time.
        let said = send_until_closed(&mut client, |_| frame(CONTINUATION, 0, 1, &vec![0; piece]));
        let is_counted = || server.metrics.heads_refused(HeadRefusal::TooManyBytes) == 1;
        wait_until(&format!("it is counted after {said:?}"), is_counted);
        wait_until("it is closed", || is_closed(&server));
        assert!(server.requests().is_empty());
    }
}

#[test]
fn a_head_that_is_small_only_when_compressed_is_rejected() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(HELLO);
    let mut block = fields(b"/");
    // A field of 4,000 bytes that the table keeps, and 10,000 times the same.
    block.extend([0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
    block.extend([b'x'; 4_000]);
    block.extend([0xbe; 10_000]);
    client.send(frame(HEADERS, END_STREAM | END_HEADERS, 1, &block));
    client.send(frame(PING, 0, 0, &[1; 8]));
    // An answer, or the end of the connection: then nothing more will come.
    let mut said = vec![0; 64];
    let _ = client.0.read(&mut said);
    let _ = client.0.read(&mut said);
    assert!(server.requests().is_empty());
}

#[test]
fn invalid_http2_is_rejected() {
    for wrong in [head(2, "/"), frame(0, 0, 1, b"data"), frame(HEADERS, 5, 0, b"")] {
        let server = Setup::default().start();
        let mut client = server.connect();
        client.send(HELLO).send(&wrong);
        let mut said = Vec::new();
        let _ = client.0.read_to_end(&mut said);
        assert!(said.windows(4).any(|bytes| bytes[..] == [0, 8, 7, 0]), "a GOAWAY: {said:?}");
        let is_counted = || server.metrics.heads_refused(HeadRefusal::Malformed) == 1;
        wait_until(&format!("{wrong:?} is counted"), is_counted);
    }
}

/// The list in docs/front.md.
#[test]
fn a_path_with_unsupported_bytes_is_rejected() {
    let server = Setup::default().start();
    for (path, answer) in [
        (&b"/<"[..], RST_STREAM),
        (b"/>", RST_STREAM),
        (b"/`", RST_STREAM),
        (b"/?\"", RST_STREAM),
        (b"/?<", RST_STREAM),
        (b"/?>", RST_STREAM),
        (b"/\xff", GOAWAY),
        (b"/?\xff", GOAWAY),
        (b"/\"?`", HEADERS),
        (b"/\xc3\xa9?\xc3\xa9", HEADERS),
        (b"/#fragment", HEADERS),
    ] {
        let mut client = server.connect();
        client.send(HELLO).send(frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields(path)));
        let mut kind = 0;
        while ![HEADERS, RST_STREAM, GOAWAY].contains(&kind) {
            let mut start = [0; 9];
            client.0.read_exact(&mut start).expect("a frame");
            let mut payload = vec![0; usize::from(start[2])];
            client.0.read_exact(&mut payload).expect("its payload");
            kind = start[3];
            let is_refused = kind == RST_STREAM || kind == GOAWAY;
            assert!(!is_refused || payload.ends_with(&[0, 0, 0, 1]), "PROTOCOL_ERROR");
        }
        assert_eq!(kind, answer, "{}", path.escape_ascii());
    }
}
