//! Whatever a connection waits for, it does not wait for ever.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::server::HttpServerLimits;

use super::echo::{BIG, PATIENCE, Setup, wait_until};

const GET: &str = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
const SHORT: Duration = Duration::from_millis(30);

#[test]
fn a_head_that_does_not_end_gets_408() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    for (count, piece) in (1..).zip(["", "GET / HTTP/1.1\r\nHost"]) {
        let mut client = server.connect();
        let (status, text) = client.send(piece).answer();
        assert_eq!(status, "HTTP/1.1 408 Request Timeout", "after {piece:?}");
        assert!(text.contains("front.limits.head_timeout"), "{text}");
        assert_eq!(client.read_to_end(), "");
        assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadTimeout), count);
        assert_eq!(server.metrics.heads_refused(HeadRefusal::Late), count);
    }
}

#[test]
fn a_later_head_that_does_not_end_gets_408() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(GET).answer();
    assert_eq!(client.send("GET / HT").answer().0, "HTTP/1.1 408 Request Timeout");
    assert_eq!(client.read_to_end(), "");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::HeadTimeout), 1);
}

#[test]
fn an_idle_connection_is_closed() {
    let limits = HttpServerLimits { idle_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(GET).answer();
    assert_eq!(client.read_to_end(), "");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::IdleTimeout), 1);
}

/// A body for `/hello`, which reads none.
fn post(bytes: usize) -> String {
    format!("POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n")
}

#[test]
fn who_sends_all_of_a_body_that_nobody_reads_gets_the_answer() {
    let server = Setup::default().start();
    let mut client = server.connect();
    // As most clients do: the whole request, and then a look at the answer.
    let (status, _) = client.send(post(BIG)).send(vec![b'x'; BIG]).answer();
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(client.read_to_end(), "");
    drop(client);
    wait_until("it is gone", || server.metrics.connections_open() == 0);
}

#[test]
fn who_pauses_in_a_body_that_nobody_reads_is_closed() {
    let limits = HttpServerLimits { linger_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(post(BIG)).send("x").answer();
    wait_until("it is closed", || server.metrics.connections_open() == 0);
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::LingerTimeout), 1);
}

#[test]
fn a_body_that_nobody_reads_does_not_go_on_for_ever() {
    let limits = HttpServerLimits {
        linger_timeout: PATIENCE,
        discard_timeout: SHORT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(post(usize::MAX >> 1)).answer();
    wait_until("it is cut", || client.0.write_all(&[b'x'; 1_024]).is_err());
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::DiscardTimeout), 1);
}

#[test]
fn a_client_that_does_not_read_its_answer_is_cut() {
    let limits = HttpServerLimits { write_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until("it is cut", || server.metrics.connections_open() == 0 && !server.seen().is_empty());
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::WriteTimeout), 1);
    let error = client.0.read_to_end(&mut Vec::new()).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn an_answer_that_has_an_end_is_cut_off_by_it() {
    let server = Setup::default().start();
    let mut client = server.connect();
    client.send("GET /big-within HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_until("it is cut", || server.metrics.connections_open() == 0 && !server.seen().is_empty());
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::AnswerTimeout), 1);
    let error = client.0.read_to_end(&mut Vec::new()).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn who_has_sent_all_is_answered_where_the_service_says_so_and_else_taken_for_gone() {
    for answers_half_closed in [false, true] {
        let server = Setup { answers_half_closed, ..Setup::default() }.start();
        let mut client = server.connect();
        client.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
        server.wait_until_seen("GET /slow");
        client.0.shutdown(Shutdown::Write).expect("shut down");
        match answers_half_closed {
            true => {
                server.released.cancel();
                assert_eq!(client.answer().0, "HTTP/1.1 200 OK");
                assert_eq!(client.read_to_end(), "");
                assert_eq!(server.seen(), ["GET /slow"]);
            }
            false => server.wait_until_seen("given up"),
        }
    }
}

#[test]
fn a_request_in_hand_may_take_as_long_as_the_service_likes() {
    let limits = HttpServerLimits {
        head_timeout: SHORT,
        idle_timeout: SHORT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_seen("GET /slow");
    // Somebody who came later is closed for being idle; who is in hand is not.
    let mut idle = server.connect();
    idle.send(GET).answer();
    assert_eq!(idle.read_to_end(), "");
    server.released.cancel();
    assert_eq!(slow.answer().1, "GET /slow core=0");
}

#[test]
fn a_client_that_hung_up_is_forgotten() {
    let server = Setup::default().start();
    drop(server.connect());
    let mut partial = server.connect();
    partial.send("GET /");
    drop(partial);
    let mut slow = server.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    server.wait_until_seen("GET /slow");
    drop(slow);
    wait_until("nobody is open", || {
        server.metrics.connections_accepted() == 3 && server.metrics.connections_open() == 0
    });
}
