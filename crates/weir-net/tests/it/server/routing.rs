//! Every request of a connection is routed by itself.

use std::io::Read;

use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::{ListenAddress, unix_path};

use super::echo::{BIG, Client, Setup, wait_until};

const UPGRADE: &str =
    "GET /raw?a=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";
const GREETING: &str = "GET /raw?a=1 1.1 [host,connection,upgrade] rest=";
const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn an_upgrade_gets_the_raw_socket_and_the_bytes_behind_the_head() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(format!("{UPGRADE}early"));
    assert_eq!(client.greeting(), format!("{GREETING}early\n"));
    client.send("late\n");
    assert_eq!(client.read_until("\n"), "late\n");
}

#[test]
fn a_later_request_can_be_an_upgrade() {
    let server = Setup::default().start();
    let mut client = server.connect();
    for _ in 0..3 {
        client.send(GET);
        assert_eq!(client.read_response(), ("HTTP/1.1 200 OK".into(), "GET /hello core=0".into()));
    }
    client.send(format!("{UPGRADE}early"));
    assert_eq!(client.greeting(), format!("{GREETING}early\n"));
    client.send("late\n");
    assert_eq!(client.read_until("\n"), "late\n");
}

#[test]
fn pipelined_requests_are_answered_in_order_and_can_end_in_an_upgrade() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(format!("{GET}{GET}{UPGRADE}early"));
    assert_eq!(client.read_response().1, "GET /hello core=0");
    assert_eq!(client.read_response().1, "GET /hello core=0");
    assert_eq!(client.greeting(), format!("{GREETING}early\n"));
}

#[test]
fn an_upgrade_waits_for_the_previous_response() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(format!("GET /big HTTP/1.1\r\nHost: x\r\n\r\n{UPGRADE}"));
    assert_eq!(client.read_response().1.len(), BIG);
    assert_eq!(client.greeting(), format!("{GREETING}\n"));
}

#[test]
fn an_upgrade_waits_for_an_early_response_to_finish() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send("POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n");
    let head = client.read_until("\r\n\r\n");
    client.send(format!("body{UPGRADE}"));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let mut body = vec![0; BIG];
    client.0.read_exact(&mut body).expect("all of it");
    assert_eq!(client.greeting(), format!("{GREETING}\n"));
}

#[test]
fn a_later_upgrade_can_be_followed_by_much_data() {
    let server = Setup::default().start();
    let mut client = server.connect();
    let early = "z".repeat(12 << 10);
    client.send(format!("{GET}{UPGRADE}{early}!")).read_response();
    let greeting = client.read_until("!").replace('\n', "");
    assert_eq!(greeting, format!("{GREETING}{early}!"));
}

#[test]
fn a_later_upgrade_can_be_rejected() {
    let server = Setup::default().start();
    let forbidden =
        "GET /raw/forbidden HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";
    let mut client = server.connect();
    client.send(GET).read_response();
    assert_eq!(
        client.send(forbidden).read_response(),
        ("HTTP/1.1 403 Forbidden".into(), "not you\n".into())
    );
    assert_eq!(client.read_to_end(), "");
    let mut client = server.connect();
    client.send(GET).read_response();
    client.send(UPGRADE.replace("Host: x", "Content-Length: 4") + "body");
    assert_eq!(client.read_response().0, "HTTP/1.1 400 Bad Request");
    assert_eq!(server.metrics.heads_refused(HeadRefusal::UpgradeWithBody), 1);
}

#[test]
fn an_unclaimed_upgrade_is_a_plain_request() {
    let server = Setup::default().start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /other HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n");
        assert_eq!(client.read_response().1, "GET /other core=0");
    }
    // A path alone is no upgrade.
    assert_eq!(
        client.send("GET /raw HTTP/1.1\r\nHost: x\r\n\r\n").read_response().1,
        "GET /raw core=0"
    );
    assert_eq!(server.requests(), ["GET /other", "GET /other", "GET /raw"]);
}

#[test]
fn request_bodies_arrive_complete() {
    let server = Setup::default().start();
    let mut client = server.connect();
    for length in [5, 100_000] {
        let body = "x".repeat(length);
        let head = format!("POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        assert_eq!(client.send(head + &body).read_response().1, format!("{length} bytes"));
    }
}

#[test]
fn a_response_can_stream() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = client.read_until("\r\n\r\n").to_lowercase();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert_eq!(client.read_until("first\n\r\n"), "6\r\nfirst\n\r\n");
    server.released.cancel();
    assert_eq!(client.read_until("0\r\n\r\n"), "7\r\nsecond\n\r\n0\r\n\r\n");
}

#[test]
fn a_later_malformed_head_is_counted() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(GET).read_response();
    client.send("nonsense\r\n\r\n");
    assert!(client.read_to_end().starts_with("HTTP/1.1 400 "));
    let malformed = || server.metrics.heads_refused(HeadRefusal::Malformed);
    wait_until("it is counted", || malformed() == 1);
    let mut client = server.connect();
    client.send(GET).read_response();
    client.send(format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(20 << 10)));
    assert!(client.read_to_end().starts_with("HTTP/1.1 431 "));
    wait_until("it is counted", || server.metrics.limit_hits(HttpServerLimit::HeadBytesMax) == 1);
    assert_eq!(malformed(), 1);
}

#[test]
fn unix_sockets_are_served_by_every_core() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir.sock");
    let address = ListenAddress::Unix(path.clone());
    let server = Setup { cores: 2, address, ..Setup::default() }.start();
    let mut client = Client(unix_path::connect(&path).expect("connects"));
    assert_eq!(client.send(GET).read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(client.send(UPGRADE).greeting(), format!("{GREETING}\n"));
    assert!(server.requests()[1].starts_with("upgrade None tls=false"));
}
