//! HTTP/2: streams that are served by themselves, their end, and what a client may cost.

mod client;
mod hostile;
mod limits;
mod stopping;

use bytes::Bytes;
use hyper::header::CONTENT_LENGTH;
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpStream;
use weir_net::metrics::HeadRefusal;
use weir_net::server::{DrainOutcome, HttpServerLimits};

use self::client::{Http2, get, until};
use super::echo::{BIG, Setup};
use super::tls;

#[tokio::test]
async fn streams_of_a_connection_are_served_independently() {
    let server = Setup::default().start();
    let mut client = Http2::connect(&server).await;
    let slow = client.request_as("/slow");
    let quick: Vec<_> =
        (0..50).map(|index| client.request_as(&format!("/hello/{index}"))).collect();
    for (index, quick) in quick.into_iter().enumerate() {
        let (status, body) = quick.read_response().await;
        assert_eq!((status, body), (StatusCode::OK, format!("GET /hello/{index} core=0")));
    }
    server.released.cancel();
    assert_eq!(slow.read_response().await.1, "GET /slow core=0");
}

#[tokio::test]
async fn http2_bodies_of_any_length_pass_both_ways() {
    let server = Setup::default().start();
    let mut client = Http2::with_windows(&server, 1 << 20, 8 << 20).await;
    let post = Request::builder().method(Method::POST).uri("http://x/length").body(());
    let mut up = client.begin(post.expect("a request"));
    let down: Vec<_> = (0..3).map(|_| client.request_as("/big")).collect();
    up.send(Bytes::from(vec![b'x'; BIG])).await;
    assert_eq!(up.read_response().await.1, format!("{BIG} bytes"));
    for down in down {
        assert_eq!(down.read_response().await.1.len(), BIG);
    }
    let stream = client.request_as("/stream");
    server.released.cancel();
    assert_eq!(stream.read_response().await.1, "first\nsecond\n");
}

#[tokio::test]
async fn tls_negotiates_http2_by_alpn() {
    let (tls, config) = tls::identity();
    let server = Setup { tls: Some(tls), ..Setup::default() }.start();
    for (offered, agreed) in [(vec!["h2", "http/1.1"], "h2"), (vec!["http/1.1"], "http/1.1")] {
        let mut config = rustls::ClientConfig::clone(&config);
        config.alpn_protocols = offered.into_iter().map(Vec::from).collect();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let tcp = TcpStream::connect(server.tcp_address()).await.expect("connects");
        let name = "localhost".try_into().expect("a name");
        let socket = connector.connect(name, tcp).await.expect("a handshake");
        assert_eq!(socket.get_ref().1.alpn_protocol(), Some(agreed.as_bytes()));
        if agreed == "h2" {
            let mut client = Http2::over(socket).await;
            assert_eq!(client.request_as("/hello").read_response().await.1, "GET /hello core=0");
        }
    }
}

#[tokio::test]
async fn a_request_that_its_client_resets_is_dropped() {
    let server = Setup::default().start();
    let mut client = Http2::connect(&server).await;
    let mut slow = client.request_as("/slow");
    until("it is in hand", || server.requests() == ["GET /slow"]).await;
    slow.reset();
    until("it is given up", || server.requests() == ["GET /slow", "given up"]).await;
    assert_eq!(
        client.request_as("/hello").read_response().await.0,
        StatusCode::OK,
        "the connection goes on"
    );
}

#[tokio::test]
async fn requests_of_a_closed_connection_are_dropped() {
    let server = Setup::default().start();
    let mut client = Http2::connect(&server).await;
    let slow = client.request_as("/slow");
    until("it is in hand", || server.requests() == ["GET /slow"]).await;
    drop(slow);
    client.hang_up();
    until("it is given up", || server.requests() == ["GET /slow", "given up"]).await;
    until("it is closed", || server.metrics.connections_open() == 0).await;
}

#[tokio::test]
async fn a_graceful_stop_finishes_streams_and_rejects_new_ones() {
    let server = Setup::default().start();
    let (mut busy, idle) = (Http2::connect(&server).await, Http2::connect(&server).await);
    let slow = busy.request_as("/slow");
    until("it is in hand", || server.requests() == ["GET /slow"]).await;
    server.stop.graceful.cancel();
    assert_eq!(idle.ended().await, None, "in order");
    server.released.cancel();
    assert_eq!(slow.read_response().await.1, "GET /slow core=0");
    assert_eq!(busy.ended().await, None);
    let ended = tokio::task::spawn_blocking(|| server.ended()).await;
    assert_eq!(ended.expect("joined"), DrainOutcome::Clean);
}

#[tokio::test]
async fn a_head_request_gets_no_body() {
    let server = Setup::default().start();
    let mut client = Http2::connect(&server).await;
    let request = get("/hello").method(Method::HEAD).body(()).expect("a request");
    let (head, mut body) = client.begin(request).head().await;
    assert!(body.is_end_stream() && body.data().await.is_none());
    assert_eq!(head.headers[CONTENT_LENGTH], "HEAD /hello core=0".len().to_string());
}

#[tokio::test]
async fn invalid_http2_requests_are_rejected_with_a_reason() {
    let limits =
        HttpServerLimits { head_bytes_max: 4_000, headers_max: 100, ..HttpServerLimits::default() };
    let server = Setup { limits, ..Setup::default() }.start();
    let mut client = Http2::connect(&server).await;
    let long = get("/").header("a", "x".repeat(4_000));
    let many = (0..101).fold(get("/"), |request, index| request.header(format!("a{index}"), ""));
    let hosts = get("/").header("host", "other.example");
    let connect = Request::builder().method(Method::CONNECT).uri("x:80");
    for (request, status, reason) in [
        (long, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, HeadRefusal::TooManyBytes),
        (many, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, HeadRefusal::TooManyFields),
        (hosts, StatusCode::BAD_REQUEST, HeadRefusal::TwoHosts),
        (connect, StatusCode::METHOD_NOT_ALLOWED, HeadRefusal::Connect),
    ] {
        let (answer, text) =
            client.begin(request.body(()).expect("a request")).read_response().await;
        assert_eq!(answer, status, "{text}");
        assert_eq!(server.metrics.heads_refused(reason), 1, "{text}");
    }
    let cookies = (0..150).fold(get("/"), |request, _| request.header("cookie", "a=b"));
    let same = cookies.header("host", "X").body(()).expect("a request");
    assert_eq!(client.begin(same).read_response().await.0, StatusCode::OK);
    assert_eq!(server.requests(), ["GET /"]);
}

#[test]
fn an_h2c_upgrade_is_answered_as_http1() {
    let server = Setup::default().start();
    let mut client = server.connect();
    let wish = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n";
    for _ in 0..2 {
        client.send(format!("GET /raw HTTP/1.1\r\nHost: x\r\n{wish}\r\n"));
        assert_eq!(client.read_response().1, "GET /raw core=0");
    }
}
