//! The first head: in pieces, damaged, too long.

use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::server::HttpServerLimits;

use super::echo::Setup;

const UPGRADE: &str = "GET /raw HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";
const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_head_in_single_bytes_is_routed() {
    let server = Setup::default().start();
    let (mut raw, mut http) = (server.connect(), server.connect());
    for byte in UPGRADE.bytes() {
        raw.send([byte]);
    }
    assert_eq!(raw.greeting(), "GET /raw 1.1 [host,connection,upgrade] rest=\n");
    for byte in GET.bytes() {
        http.send([byte]);
    }
    assert_eq!(http.read_response().1, "GET /hello core=0");
}

#[test]
fn a_head_can_be_split_at_every_byte() {
    let server = Setup::default().start();
    for cut in 1..UPGRADE.len() {
        let mut client = server.connect();
        client.send(&UPGRADE[..cut]);
        // Another connection is served between the two pieces, from the same buffer.
        assert_eq!(server.connect().send(GET).read_response().1, "GET /hello core=0");
        client.send(&UPGRADE[cut..]);
        client.send("early\n");
        let greeting = client.greeting();
        let early = if greeting.ends_with("rest=\n") { client.read_until("\n") } else { greeting };
        assert!(early.ends_with("early\n"), "cut at {cut}: {early}");
    }
}

#[test]
fn a_malformed_head_gets_an_explaining_response() {
    let server = Setup::default().start();
    for (head, status, text, reason) in [
        ("\x16\x03\x01\x02\0\x01\0", "400 Bad Request", "not an HTTP/1.1", HeadRefusal::Malformed),
        (
            "PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n",
            "505 HTTP Version Not Supported",
            "only HTTP/1.1",
            HeadRefusal::Version,
        ),
        (
            "POST /raw HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: raw\r\nContent-Length: 4\r\n\r\nbody",
            "400 Bad Request",
            "has no body",
            HeadRefusal::UpgradeWithBody,
        ),
        (
            "GET /raw/forbidden HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n",
            "403 Forbidden",
            "not you\n",
            HeadRefusal::UpgradeRefused,
        ),
    ] {
        let mut client = server.connect();
        let (line, body) = client.send(head).read_response();
        assert_eq!(line, format!("HTTP/1.1 {status}"));
        assert!(body.contains(text), "{body}");
        assert_eq!(client.read_to_end(), "", "closed");
        assert_eq!(server.metrics.heads_refused(reason), 1, "{reason:?}");
    }
}

#[test]
fn head_bytes_max_is_enforced_exactly() {
    let limits = HttpServerLimits { head_bytes_max: 300, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let head = |bytes: usize| {
        let fixed = "GET / HTTP/1.1\r\nA: \r\n\r\n".len();
        format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(bytes - fixed))
    };
    assert_eq!(server.connect().send(head(300)).read_response().0, "HTTP/1.1 200 OK");
    let (status, text) = server.connect().send(head(301)).read_response();
    assert_eq!(status, "HTTP/1.1 431 Request Header Fields Too Large");
    assert!(text.contains("front.limits.head_bytes_max"), "{text}");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadBytesMax), 1);
    assert_eq!(server.metrics.heads_refused(HeadRefusal::TooManyBytes), 1);
}

#[test]
fn a_head_longer_than_one_read_is_routed() {
    let limits = HttpServerLimits { head_bytes_max: 100 << 10, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let filler = format!("A: {}\r\n", "x".repeat(60 << 10));
    let upgrade = UPGRADE.replace("Host: x\r\n", &filler);
    let greeting = server.connect().send(upgrade).greeting();
    assert_eq!(greeting, "GET /raw 1.1 [a,connection,upgrade] rest=\n");
    let get = GET.replace("Host: x\r\n", &filler);
    assert_eq!(server.connect().send(get).read_response().1, "GET /hello core=0");
}

#[test]
fn headers_max_is_enforced_exactly() {
    let head = |fields: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(fields));
    for headers_max in [5, 100, 101, 1_000] {
        let limits = HttpServerLimits { headers_max, ..HttpServerLimits::default() };
        let server = Setup { limits, ..Setup::default() }.start();
        // The first request is parsed by weir-net, the others by hyper.
        let mut client = server.connect();
        for fields in [1, headers_max, 1, headers_max] {
            assert_eq!(client.send(head(fields)).read_response().0, "HTTP/1.1 200 OK");
        }
        let (status, _) = client.send(head(headers_max + 1)).read_response();
        assert_eq!(status, "HTTP/1.1 431 Request Header Fields Too Large");
        let (status, text) = server.connect().send(head(headers_max + 1)).read_response();
        assert_eq!(status, "HTTP/1.1 431 Request Header Fields Too Large");
        assert!(text.contains("front.limits.headers_max"), "{text}");
        assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadersMax), 1);
    }
}

#[test]
fn a_later_head_with_many_fields_can_arrive_in_pieces() {
    let server = Setup::default().start();
    let wide = format!("GET /wide HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(300));
    let next = "GET /next HTTP/1.1\r\n\r\n";
    for (first, rest) in [(0, 1), (20, 700), (618, 1), (619, 1), (624, 6), (625, 1_000)] {
        let mut client = server.connect();
        client.send(format!("{GET}{}", &wide[..first]));
        assert_eq!(client.read_response().1, "GET /hello core=0");
        for piece in format!("{}{next}", &wide[first..]).as_bytes().chunks(rest) {
            client.send(piece);
        }
        assert_eq!(client.read_response().1, "GET /wide core=0", "{first} {rest}");
        assert_eq!(client.read_response().1, "GET /next core=0");
    }
}
