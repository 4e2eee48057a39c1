//! Whatever a connection waits for, it does not wait for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::server::HttpServerLimits;

use super::echo::{BIG, Setup, TIMEOUT, wait_until};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
const SHORT: Duration = Duration::from_millis(30);

#[test]
fn an_incomplete_head_gets_408() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    for (count, piece) in (1..).zip(["", "GET / HTTP/1.1\r\nHost"]) {
        let mut client = server.connect();
        let (status, text) = client.send(piece).read_response();
        assert_eq!(status, "HTTP/1.1 408 Request Timeout", "after {piece:?}");
        assert!(text.contains("front.limits.head_timeout"), "{text}");
        assert_eq!(client.read_to_end(), "");
        assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadTimeout), count);
        assert_eq!(server.metrics.heads_refused(HeadRefusal::Late), count);
    }
}

#[test]
fn an_incomplete_later_head_gets_408() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(GET).read_response();
    assert_eq!(client.send("GET / HT").read_response().0, "HTTP/1.1 408 Request Timeout");
    assert_eq!(client.read_to_end(), "");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadTimeout), 1);
}

#[test]
fn an_idle_connection_is_closed() {
    let limits = HttpServerLimits { idle_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(GET).read_response();
    assert_eq!(client.read_to_end(), "");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::IdleTimeout), 1);
}

/// A body for `/hello`, which reads none.
fn post(bytes: usize) -> String {
    format!("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n")
}

#[test]
fn a_client_that_sends_an_unread_body_receives_the_response() {
    let server = Setup::default().start();
    let mut client = server.connect();
    // As most clients do: the whole request, and then a look at the answer.
    let (status, _) = client.send(post(BIG)).send(vec![b'x'; BIG]).read_response();
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(client.read_to_end(), "");
    drop(client);
    wait_until("it is gone", || server.metrics.connections_open() == 0);
}

#[test]
fn a_client_that_pauses_in_an_unread_body_is_closed() {
    let limits = HttpServerLimits { linger_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(post(BIG)).send("x").read_response();
    wait_until("it is closed", || server.metrics.connections_open() == 0);
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::LingerTimeout), 1);
}

#[test]
fn an_endless_unread_body_is_cut() {
    let limits = HttpServerLimits {
        linger_timeout: TIMEOUT,
        discard_timeout: SHORT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(post(usize::MAX >> 1)).read_response();
    wait_until("it is cut", || client.0.write_all(&[b'x'; 1_024]).is_err());
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::DiscardTimeout), 1);
}

#[test]
fn a_client_that_does_not_read_its_response_is_cut() {
    let limits = HttpServerLimits { write_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until("it is cut", || {
        server.metrics.connections_open() == 0 && !server.requests().is_empty()
    });
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::WriteTimeout), 1);
    let error = client.0.read_to_end(&mut Vec::new()).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_response_with_a_deadline_is_cut_at_it() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send("GET /big-within HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until("it is cut", || {
        server.metrics.connections_open() == 0 && !server.requests().is_empty()
    });
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::AnswerTimeout), 1);
    let error = client.0.read_to_end(&mut Vec::new()).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_half_closed_client_is_answered_only_if_the_service_allows_it() {
    for answers_half_closed in [false, true] {
        let server = Setup { answers_half_closed, ..Setup::default() }.start();
        let mut client = server.connect();
        client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
        server.wait_until_requested("GET /slow");
        client.0.shutdown(Shutdown::Write).expect("shut down");
        match answers_half_closed {
            true => {
                server.released.cancel();
                assert_eq!(client.read_response().0, "HTTP/1.1 200 OK");
                assert_eq!(client.read_to_end(), "");
                assert_eq!(server.requests(), ["GET /slow"]);
            }
            false => server.wait_until_requested("given up"),
        }
    }
}

#[test]
fn a_request_in_progress_has_no_deadline() {
    let limits = HttpServerLimits {
        head_timeout: SHORT,
        idle_timeout: SHORT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_requested("GET /slow");
    // Somebody who came later is closed for being idle; who is in hand is not.
    let mut idle = server.connect();
    idle.send(GET).read_response();
    assert_eq!(idle.read_to_end(), "");
    server.released.cancel();
    assert_eq!(slow.read_response().1, "GET /slow core=0");
}

#[test]
fn a_disconnected_client_is_forgotten() {
    let server = Setup::default().start();
    drop(server.connect());
    let mut partial = server.connect();
    partial.send("GET /");
    drop(partial);
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_requested("GET /slow");
    drop(slow);
    wait_until("nobody is open", || {
        server.metrics.connections_accepted() == 3 && server.metrics.connections_open() == 0
    });
}
