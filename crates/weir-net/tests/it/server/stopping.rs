use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weir_net::server::{CoreIndex, DrainOutcome, HttpServerLimits};

use super::echo::{Setup, TIMEOUT, wait_until};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
const SLOW: &str = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_graceful_stop_finishes_requests_and_closes_idle_connections() {
    let server = Setup { cores: 2, ..Setup::default() }.start();
    let (mut busy, mut idle) = (server.connect(), server.connect());
    idle.send(GET).read_response();
    busy.send(SLOW);
    server.wait_until_requested("GET /slow");
    server.stop.graceful.cancel();
    assert_eq!(idle.read_to_end(), "", "an idle connection is closed");
    server.wait_until_refused();
    server.released.cancel();
    assert_eq!(busy.read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(busy.read_to_end(), "");
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn connections_at_the_deadline_are_cut_and_counted() {
    // So many that each core gets some.
    let setup = Setup { cores: 2, deadline: Duration::from_millis(1), ..Setup::default() };
    let server = setup.start();
    let mut busy: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut busy {
        client.send(SLOW);
    }
    wait_until("all are in hand", || server.requests().len() == 40);
    server.stop.graceful.cancel();
    let metrics = server.metrics.clone();
    assert_eq!(server.ended(), DrainOutcome::Cut { connections: 40 });
    for client in &mut busy {
        assert_eq!(client.read_to_end(), "", "no answer");
    }
    assert_eq!(metrics.connections_open(), 0);
}

#[test]
fn an_immediate_stop_does_not_wait() {
    let server = Setup::default().start();
    let mut busy = server.connect();
    busy.send(SLOW);
    server.wait_until_requested("GET /slow");
    server.stop.at_once.cancel();
    assert_eq!(server.ended(), DrainOutcome::Cut { connections: 1 });
}

#[test]
fn a_request_in_transit_at_the_stop_is_served() {
    let limits = HttpServerLimits { last_request_timeout: TIMEOUT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(&GET[..10]);
    wait_until("it is accepted", || server.metrics.connections_accepted() == 1);
    server.stop.graceful.cancel();
    server.wait_until_refused();
    client.send(&GET[10..]);
    assert_eq!(client.read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(client.read_to_end(), "", "closed behind the answer");
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_later_request_in_transit_is_served_as_the_last() {
    let limits = HttpServerLimits { last_request_timeout: TIMEOUT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    // So many that some have noticed the end before their request comes.
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(GET).read_response();
    }
    server.stop.graceful.cancel();
    server.wait_until_refused();
    for client in &mut clients {
        let head = client.send(GET).read_until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        client.read_to_end();
    }
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_connection_without_a_request_does_not_delay_the_stop() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::from_millis(10),
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut silent = server.connect();
    wait_until("it is accepted", || server.metrics.connections_accepted() == 1);
    server.stop.graceful.cancel();
    assert_eq!(silent.read_to_end(), "");
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_drain_serves_the_next_request_of_each_connection() {
    let limits =
        HttpServerLimits { last_request_timeout: Duration::ZERO, ..HttpServerLimits::default() };
    let server = Setup { cores: 2, limits, ..Setup::default() }.start();
    let mut clients: Vec<_> = (0..40).map(|_| server.connect()).collect();
    let (begun, streaming) = clients.split_at_mut(20);
    for client in begun {
        client.send(GET).read_response();
    }
    // Their head says nothing of an end.
    for client in streaming {
        client.send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").read_until("\r\n\r\n");
    }
    let mut new = server.connect();
    wait_until("it is accepted", || server.metrics.connections_accepted() == 41);
    server.stop.drain.cancel();
    server.wait_until_refused();
    server.released.cancel();
    for client in &mut clients[20..] {
        client.read_until("0\r\n\r\n");
    }
    new.send(&GET[..10]).send(&GET[10..]);
    clients.push(new);
    for (number, client) in clients.iter_mut().enumerate() {
        if number < 40 {
            client.send(GET);
        }
        let head = client.read_until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        client.read_to_end();
    }
    assert_eq!(server.ended(), DrainOutcome::Clean, "nobody has told it to stop");
}

#[test]
fn a_drain_closes_connections_after_the_idle_timeout() {
    let limits =
        HttpServerLimits { idle_timeout: Duration::from_millis(10), ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(GET).read_response();
    server.stop.drain.cancel();
    assert_eq!(client.read_to_end(), "");
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_stop_closes_idle_connections_of_a_drain() {
    let limits = HttpServerLimits {
        last_request_timeout: Duration::from_millis(10),
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut idle = server.connect();
    idle.send(GET).read_response();
    server.stop.drain.cancel();
    server.wait_until_refused();
    server.stop.graceful.cancel();
    assert_eq!(idle.read_to_end(), "");
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_stop_limits_the_time_of_a_drain() {
    let server = Setup { deadline: Duration::from_millis(10), ..Setup::default() }.start();
    let mut busy = server.connect();
    busy.send(SLOW);
    server.wait_until_requested("GET /slow");
    server.stop.drain.cancel();
    server.wait_until_refused();
    server.stop.graceful.cancel();
    assert_eq!(server.ended(), DrainOutcome::Cut { connections: 1 });
}

#[test]
fn a_stop_handles_an_upgrade_behind_a_slow_request() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send(format!("{SLOW}GET /raw HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n"));
    server.wait_until_requested("GET /slow");
    server.stop.graceful.cancel();
    server.wait_until_refused();
    server.released.cancel();
    assert_eq!(client.read_response().1, "GET /slow core=0");
    // The connection ends with the request in hand; what was behind it is not begun.
    assert_eq!(client.0.read(&mut [0]).unwrap_or_default(), 0);
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_stop_waits_for_upgraded_connections() {
    let server = Setup::default().start();
    let mut raw = server.connect();
    raw.send("GET /raw HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n").read_until("\n");
    server.stop.graceful.cancel();
    server.wait_until_refused();
    raw.send("still there\n");
    assert_eq!(raw.read_until("\n"), "still there\n");
    drop(raw);
    assert_eq!(server.ended(), DrainOutcome::Clean);
}

#[test]
fn a_failed_core_stops_the_others_and_is_reported() {
    let server = Setup { cores: 2, panicking_core: Some(CoreIndex(1)), ..Setup::default() }.start();
    // Nobody tells it to stop. Connections are spread by the kernel, so several are needed until
    // core 1 gets one.
    while !server.is_refused() {
        if let Ok(mut client) = TcpStream::connect(server.tcp_address()) {
            let _ = client.write_all(GET.as_bytes());
        }
    }
    assert_eq!(server.ended(), DrainOutcome::Panicked { core: CoreIndex(1) });
}

#[test]
fn a_panicking_connection_does_not_affect_others() {
    let server = Setup::default().start();
    let mut bad = server.connect();
    bad.send("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(bad.read_to_end(), "");
    assert_eq!(server.connect().send(GET).read_response().0, "HTTP/1.1 200 OK");
    assert_eq!(server.limits.load().as_ref(), &HttpServerLimits::default());
}
