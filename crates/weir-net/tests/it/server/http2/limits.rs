//! How long a client may take, and what it may leave lying.

use std::io::Read;
use std::time::Duration;

use hyper::StatusCode;
use weir_net::client::ClientLimits;
use weir_net::metrics::{HeadRefusal, HttpServerLimit};
use weir_net::server::{Http2Limits, HttpServerLimits};

use super::client::{Http2, get, until};
use super::hostile::{HELLO, PREFACE, SETTINGS, frame, head};
use crate::server::clients::behind_proxy;
use crate::server::echo::{Setup, wait_until};

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn requests_of_one_client_are_bounded_over_all_its_streams() {
    let limits = ClientLimits { requests_max: 2, ..ClientLimits::default() };
    let server = behind_proxy(limits).start();
    let mut client = Http2::connect(&server).await;
    let of =
        |path, address| get(path).header("x-forwarded-for", address).body(()).expect("a request");
    let slow = [(); 2].map(|()| client.begin(of("/slow", "192.0.2.7")));
    until("both are there", || server.seen().len() == 2).await;
    let (status, text) = client.begin(of("/hello", "192.0.2.7")).answer().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("front.clients.requests_max"), "{text}");
    let other = client.begin(of("/hello", "192.0.2.8"));
    assert_eq!(other.answer().await.0, StatusCode::OK);
    server.released.cancel();
    for slow in slow {
        assert_eq!(slow.answer().await.0, StatusCode::OK);
    }
    let again = client.begin(of("/hello", "192.0.2.7"));
    assert_eq!(again.answer().await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_idle_connection_ends_in_order() {
    let limits = HttpServerLimits { idle_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = Http2::connect(&server).await;
    assert_eq!(client.ask("/hello").answer().await.0, StatusCode::OK);
    assert_eq!(client.ended().await, None, "by a GOAWAY");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::IdleTimeout), 1);
    until("it is closed", || server.metrics.connections_open() == 0).await;
}

#[test]
fn one_that_heeds_no_goaway_is_closed_all_the_same() {
    let limits = HttpServerLimits {
        idle_timeout: SHORT,
        linger_timeout: SHORT,
        ..HttpServerLimits::default()
    };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(PREFACE).send(SETTINGS);
    client.0.read_to_end(&mut Vec::new()).expect("closed");
    wait_until("it is counted", || server.metrics.limit_hits(HttpServerLimit::LingerTimeout) == 1);
}

#[test]
fn a_beginning_has_limited_time_however_it_stops() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    for (count, begun) in [&PREFACE[..20], PREFACE, &PREFACE[..14]].into_iter().enumerate() {
        let mut client = server.connect();
        client.send(begun);
        let _ = client.0.read_to_end(&mut Vec::new());
        wait_until("it is counted", || {
            server.metrics.limit_hits(HttpServerLimit::HeadTimeout) > count as u64
        });
    }
    assert_eq!(server.metrics.heads_refused(HeadRefusal::Late), 3);
}

#[test]
fn a_head_has_limited_time_also_while_others_are_answered() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(HELLO).send(head(1, "/slow"));
    server.wait_until_seen("GET /slow");
    client.send(&head(3, "/hello")[..12]);
    let _ = client.0.read_to_end(&mut Vec::new());
    wait_until("it is counted", || server.metrics.heads_refused(HeadRefusal::Late) == 1);
    server.wait_until_seen("given up");
}

#[test]
fn a_client_that_reads_nothing_is_cut() {
    let limits = HttpServerLimits { write_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    // All windows wide open, so that only the socket is in the way.
    let wide = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    client.send(PREFACE).send(frame(4, 0, 0, &wide)).send(frame(8, 0, 0, &[0x7f, 0, 0, 0]));
    client.send(head(1, "/big"));
    wait_until("it is counted", || server.metrics.limit_hits(HttpServerLimit::WriteTimeout) > 0);
    wait_until("it is closed", || server.metrics.connections_open() == 0);
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_ends_and_the_others_go_on() {
    let limits = HttpServerLimits { write_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = Http2::with_windows(&server, 1_000, 1 << 20).await;
    let (head, mut unread) = client.ask("/big").head().await;
    assert_eq!(head.status, StatusCode::OK);
    until("it is counted", || server.metrics.limit_hits(HttpServerLimit::WriteTimeout) == 1).await;
    assert_eq!(client.ask("/hello").answer().await.0, StatusCode::OK);
    let mut data = unread.data().await;
    while let Some(Ok(_)) = data {
        data = unread.data().await;
    }
    assert!(data.is_some_and(|data| data.is_err_and(|error| error.is_reset())));
    assert_eq!(server.metrics.connections_open(), 1);
}

#[tokio::test]
async fn a_stream_whose_answer_has_an_end_is_reset_by_it_and_the_others_go_on() {
    let server = Setup::default().start();
    let mut client = Http2::with_windows(&server, 1_000, 1 << 20).await;
    let (head, mut unread) = client.ask("/big-within").head().await;
    assert_eq!(head.status, StatusCode::OK);
    until("it is counted", || server.metrics.limit_hits(HttpServerLimit::AnswerTimeout) == 1).await;
    assert_eq!(client.ask("/hello").answer().await.0, StatusCode::OK);
    let mut data = unread.data().await;
    while let Some(Ok(_)) = data {
        data = unread.data().await;
    }
    assert!(data.is_some_and(|data| data.is_err_and(|error| error.is_reset())));
    assert_eq!(server.metrics.connections_open(), 1);
}

#[test]
fn one_that_gives_no_sign_of_life_is_closed_whatever_is_in_hand() {
    let http2 = Http2Limits { ping_interval: SHORT, ping_timeout: SHORT, ..Http2Limits::default() };
    let server = Setup {
        limits: HttpServerLimits { http2, ..HttpServerLimits::default() },
        ..Setup::default()
    }
    .start();
    let mut client = server.connect();
    client.send(HELLO).send(head(1, "/slow"));
    client.0.read_to_end(&mut Vec::new()).expect("closed");
    wait_until("it is counted", || {
        server.metrics.limit_hits(HttpServerLimit::Http2PingTimeout) == 1
    });
    server.wait_until_seen("given up");
}

#[tokio::test]
async fn no_more_streams_are_open_than_a_client_is_told() {
    let http2 = Http2Limits { streams_max: 3, ..Http2Limits::default() };
    let server = Setup {
        limits: HttpServerLimits { http2, ..HttpServerLimits::default() },
        ..Setup::default()
    }
    .start();
    let mut client = Http2::connect(&server).await;
    assert_eq!(client.ask("/hello").answer().await.0, StatusCode::OK, "its settings are known");
    let slow: Vec<_> = (0..3).map(|_| client.ask("/slow")).collect();
    until("three are in hand", || server.seen().len() == 4).await;
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::Http2StreamsMax), 1);
    assert_eq!(client.streams_max(), 3);
    server.released.cancel();
    for slow in slow {
        assert_eq!(slow.answer().await.0, StatusCode::OK);
    }
}
