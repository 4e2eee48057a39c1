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
async fn the_request_limit_per_client_covers_all_streams() {
    let limits = ClientLimits { requests_max: 2, ..ClientLimits::default() };
    let server = behind_proxy(limits).start();
    let mut client = Http2::connect(&server).await;
    let of =
        |path, address| get(path).header("x-forwarded-for", address).body(()).expect("a request");
    let slow = [(); 2].map(|()| client.begin(of("/slow", "192.0.2.7")));
    until("both are there", || server.requests().len() == 2).await;
    let (status, text) = client.begin(of("/hello", "192.0.2.7")).read_response().await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("front.clients.requests_max"), "{text}");
    let other = client.begin(of("/hello", "192.0.2.8"));
    assert_eq!(other.read_response().await.0, StatusCode::OK);
    server.released.cancel();
    for slow in slow {
        assert_eq!(slow.read_response().await.0, StatusCode::OK);
    }
    let again = client.begin(of("/hello", "192.0.2.7"));
    assert_eq!(again.read_response().await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed_in_order() {
    let limits = HttpServerLimits { idle_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = Http2::connect(&server).await;
    assert_eq!(client.request_as("/hello").read_response().await.0, StatusCode::OK);
    assert_eq!(client.ended().await, None, "by a GOAWAY");
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::IdleTimeout), 1);
    until("it is closed", || server.metrics.connections_open() == 0).await;
}

#[test]
fn a_client_that_ignores_goaway_is_closed() {
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
fn the_preface_has_a_time_limit() {
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
fn a_head_has_a_time_limit_while_other_streams_run() {
    let limits = HttpServerLimits { head_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = server.connect();
    client.send(HELLO).send(head(1, "/slow"));
    server.wait_until_requested("GET /slow");
    client.send(&head(3, "/hello")[..12]);
    let _ = client.0.read_to_end(&mut Vec::new());
    wait_until("it is counted", || server.metrics.heads_refused(HeadRefusal::Late) == 1);
    server.wait_until_requested("given up");
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
async fn a_stream_that_is_not_read_is_reset_alone() {
    let limits = HttpServerLimits { write_timeout: SHORT, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = Http2::with_windows(&server, 1_000, 1 << 20).await;
    let (head, mut unread) = client.request_as("/big").head().await;
    assert_eq!(head.status, StatusCode::OK);
    until("it is counted", || server.metrics.limit_hits(HttpServerLimit::WriteTimeout) == 1).await;
    assert_eq!(client.request_as("/hello").read_response().await.0, StatusCode::OK);
    let mut data = unread.data().await;
    while let Some(Ok(_)) = data {
        data = unread.data().await;
    }
    assert!(data.is_some_and(|data| data.is_err_and(|error| error.is_reset())));
    assert_eq!(server.metrics.connections_open(), 1);
}

#[tokio::test]
async fn a_response_deadline_resets_only_its_stream() {
    let server = Setup::default().start();
    let mut client = Http2::with_windows(&server, 1_000, 1 << 20).await;
    let (head, mut unread) = client.request_as("/big-within").head().await;
    assert_eq!(head.status, StatusCode::OK);
    until("it is counted", || server.metrics.limit_hits(HttpServerLimit::AnswerTimeout) == 1).await;
    assert_eq!(client.request_as("/hello").read_response().await.0, StatusCode::OK);
    let mut data = unread.data().await;
    while let Some(Ok(_)) = data {
        data = unread.data().await;
    }
    assert!(data.is_some_and(|data| data.is_err_and(|error| error.is_reset())));
    assert_eq!(server.metrics.connections_open(), 1);
}

#[test]
fn a_client_that_misses_pings_is_closed() {
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
    server.wait_until_requested("given up");
}

#[tokio::test]
async fn the_stream_limit_is_announced_and_enforced() {
    let http2 = Http2Limits { streams_max: 3, ..Http2Limits::default() };
    let server = Setup {
        limits: HttpServerLimits { http2, ..HttpServerLimits::default() },
        ..Setup::default()
    }
    .start();
    let mut client = Http2::connect(&server).await;
    assert_eq!(
        client.request_as("/hello").read_response().await.0,
        StatusCode::OK,
        "its settings are known"
    );
    let slow: Vec<_> = (0..3).map(|_| client.request_as("/slow")).collect();
    until("three are in hand", || server.requests().len() == 4).await;
    assert_eq!(server.metrics.limit_hits(HttpServerLimit::Http2StreamsMax), 1);
    assert_eq!(client.streams_max(), 3);
    server.released.cancel();
    for slow in slow {
        assert_eq!(slow.read_response().await.0, StatusCode::OK);
    }
}
