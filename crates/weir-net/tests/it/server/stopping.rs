use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use weir_net::server::{CoreIndex, Ended, Limits};

use super::echo::Setup;

const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_graceful_stop_finishes_the_request_in_hand_and_ends_idle_connections() {
    let server = Setup { cores: 2, ..Setup::default() }.start();
    let (mut busy, mut idle) = (server.connect(), server.connect());
    idle.send(GET).answer();
    busy.send(SLOW);
    server.wait_until_seen("GET /slow");
    server.stop.graceful.cancel();
    assert_eq!(idle.read_to_end(), "", "an idle connection is closed at once");
    server.wait_until_refused();
    server.released.cancel();
    assert_eq!(busy.answer().0, "HTTP/1.1 200 OK");
    assert_eq!(busy.read_to_end(), "");
    assert_eq!(server.ended(), Ended::Clean);
}

#[test]
fn who_is_left_at_the_deadline_is_cut_and_counted() {
    let server = Setup { deadline: Duration::from_millis(1), ..Setup::default() }.start();
    let mut busy = server.connect();
    busy.send(SLOW);
    server.wait_until_seen("GET /slow");
    server.stop.graceful.cancel();
    let metrics = server.metrics.clone();
    assert_eq!(server.ended(), Ended::Cut { connections: 1 });
    assert_eq!(busy.read_to_end(), "", "no answer");
    assert_eq!(metrics.connections_open(), 0);
}

#[test]
fn at_once_waits_for_nobody() {
    let server = Setup::default().start();
    let mut busy = server.connect();
    busy.send(SLOW);
    server.wait_until_seen("GET /slow");
    server.stop.at_once.cancel();
    assert_eq!(server.ended(), Ended::Cut { connections: 1 });
}

#[test]
fn an_upgraded_connection_is_waited_for() {
    let server = Setup::default().start();
    let mut raw = server.connect();
    raw.send("GET /raw HTTP/1.1\r\nUpgrade: raw\r\n\r\n").read_until("\n");
    server.stop.graceful.cancel();
    server.wait_until_refused();
    raw.send("still there\n");
    assert_eq!(raw.read_until("\n"), "still there\n");
    drop(raw);
    assert_eq!(server.ended(), Ended::Clean);
}

#[test]
fn a_core_that_ends_by_itself_ends_the_others_and_is_reported() {
    let server = Setup { cores: 2, poisoned: Some(CoreIndex(1)), ..Setup::default() }.start();
    // Nobody tells it to stop. Connections are spread by the kernel, so several are needed until
    // core 1 gets one.
    while !server.is_refused() {
        if let Ok(mut client) = TcpStream::connect(server.tcp_address()) {
            let _ = client.write_all(GET.as_bytes());
        }
    }
    assert_eq!(server.ended(), Ended::Panicked { core: CoreIndex(1) });
}

#[test]
fn a_connection_that_panics_takes_nobody_with_it() {
    let server = Setup::default().start();
    let mut bad = server.connect();
    bad.send("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(bad.read_to_end(), "");
    assert_eq!(server.connect().send(GET).answer().0, "HTTP/1.1 200 OK");
    assert_eq!(server.limits.load().as_ref(), &Limits::default());
}
