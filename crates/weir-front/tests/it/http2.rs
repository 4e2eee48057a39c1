//! Streams of one HTTP/2 connection: each is a request like any other.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use hyper::header::{CONTENT_LENGTH, RETRY_AFTER};
use hyper::http::request::Builder;
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use weir_front::{
    AppLimits, AppSettings, Gzip, LatencySample, LogFormat, Matcher, ProxySettings, QueueSource,
    ShedSettings, WatchedQueue,
};

use crate::access_log::Logged;
use crate::test_front::{TestFront, Worker};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinSet<Result<(), h2::Error>>,
}

struct SentRequest {
    response: ResponseFuture,
    body: h2::SendStream<Bytes>,
}

impl Client {
    async fn connect(front: &TestFront) -> Self {
        let (requests, connection) =
            h2::client::handshake(front.connect_raw().await).await.expect("HTTP/2");
        let mut running = JoinSet::new();
        running.spawn(connection);
        Self { requests, connection: running }
    }

    fn get(&mut self, path: &str) -> SentRequest {
        self.send(to(path), true)
    }

    /// Sends a head; `ends_stream`: without a body.
    fn send(&mut self, request: Builder, ends_stream: bool) -> SentRequest {
        let request = request.body(()).expect("a request");
        let (response, body) = self.requests.send_request(request, ends_stream).expect("sent");
        SentRequest { response, body }
    }
}

/// `GET path`.
fn to(path: &str) -> Builder {
    Request::builder().uri(format!("http://app.example{path}"))
}

impl SentRequest {
    /// Returns the head of the response and the whole body.
    async fn read_response(self) -> (Parts, Vec<u8>) {
        let (head, mut body) = self.response.await.expect("an answer").into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            body.flow_control().release_capacity(data.len()).expect("released");
            bytes.extend(data);
        }
        (head, bytes)
    }

    async fn text(self) -> String {
        String::from_utf8(self.read_response().await.1).expect("text")
    }
}

#[tokio::test]
async fn streams_use_their_own_slots_and_the_rest_waits() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let front = TestFront::open(AppLimits::default(), &[&workers[0], &workers[1]]);
    let mut client = Client::connect(&front).await;
    let requests: Vec<_> = ["/a", "/b", "/c"].map(|path| client.get(path)).into();
    let (mut one, mut other) = (workers[0].accept().await, workers[1].accept().await);
    let heads = [one.read_head().await, other.read_head().await];
    assert!(heads.iter().any(|head| head.starts_with("GET /a HTTP/1.1\r\nhost: app.example\r\n")));
    assert!(heads.iter().any(|head| head.starts_with("GET /b ")));
    front.wait_for_metric(WAITING, 1).await;
    one.respond("first").await;
    let mut third = workers[0].accept().await;
    assert!(third.read_head().await.starts_with("GET /c "));
    other.respond("first").await;
    third.respond("last").await;
    let mut texts = Vec::new();
    for request in requests {
        texts.push(request.text().await);
    }
    assert_eq!(texts, ["first", "first", "last"]);
}

#[tokio::test]
async fn http2_event_streams_over_the_limit_are_rejected() {
    let worker = Worker::listen().await;
    let limits = AppLimits { streams: Some(1), concurrency: 2, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = Client::connect(&front).await;
    let mut open = Vec::new();
    for expected in [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE] {
        let request = client.get("/events");
        let mut stream = worker.accept().await;
        stream.read_head().await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
        stream.write(head).await;
        let answer = request.response.await.expect("an answer");
        assert_eq!(answer.status(), expected);
        open.push((answer, stream));
    }
}

#[tokio::test]
async fn a_queued_http2_stream_that_is_reset_reaches_no_worker() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&front).await;
    let first = client.get("/first");
    let mut busy_client = worker.accept().await;
    busy_client.read_head().await;
    let mut given_up = client.get("/given-up");
    let last = client.get("/last");
    front.wait_for_metric(WAITING, 2).await;
    given_up.body.send_reset(Reason::CANCEL);
    front.wait_for_metric(WAITING, 1).await;
    busy_client.respond("first").await;
    let mut busy_client = worker.accept().await;
    assert!(busy_client.read_head().await.starts_with("GET /last "));
    busy_client.respond("last").await;
    assert_eq!(first.text().await + &last.text().await, "firstlast");
}

#[tokio::test]
async fn a_worker_stays_busy_when_its_http2_stream_is_reset() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&front).await;
    let mut given_up = client.get("/given-up");
    let mut busy_client = worker.accept().await;
    busy_client.read_head().await;
    given_up.body.send_reset(Reason::CANCEL);
    let gone = "weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}";
    front.wait_for_metric(gone, 1).await;
    let next = client.get("/next");
    front.wait_for_metric(WAITING, 1).await;
    busy_client.respond("for nobody").await;
    let mut busy_client = worker.accept().await;
    assert!(busy_client.read_head().await.starts_with("GET /next "));
    busy_client.respond("next").await;
    assert_eq!(next.text().await, "next");
}

#[tokio::test]
async fn http2_requests_lose_hop_by_hop_fields() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&front).await;
    let request = client.get("/");
    let mut busy_client = worker.accept().await;
    busy_client.read_head().await;
    let fields = "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 1";
    busy_client.write(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = request.response.await.expect("an answer h2 does not refuse");
    let mut names: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date", "x-kept"]);
}

#[tokio::test]
async fn a_worker_sees_no_difference_between_http2_and_http1() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&front).await;
    let claims =
        to("/cart").header("x-forwarded-for", "6.6.6.6").header("forwarded", "for=6.6.6.6");
    let request = claims.header("cookie", "a=1").header("cookie", "b=2").header("x_real_ip", "6");
    let _request =
        client.send(request.header("x-request-id", "r-1").header("te", "trailers"), true);
    let head = worker.accept().await.read_head().await;
    let (head, start) = head.split_once("x-request-start: t=").expect("the time");
    let (time, rest) = start.split_once("\r\n").expect("a line");
    assert!(time.parse::<f64>().expect("seconds") > 1e9, "{time}");
    assert_eq!(
        format!("{head}{rest}"),
        "GET /cart HTTP/1.1\r\nhost: app.example\r\ncookie: a=1; b=2\r\n\
         x-forwarded-for: 127.0.0.1\r\nx-forwarded-proto: http\r\nx-forwarded-host: app.example\r\n\
         forwarded: for=127.0.0.1;proto=http;host=\"app.example\"\r\nx-request-id: r-1\r\n\r\n"
    );
}

#[tokio::test]
async fn http2_responses_are_compressed_and_logged() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let workers = vec![worker.address()];
    let front = logged.front_of(AppSettings { workers, limits, ..AppSettings::new("app") });
    let mut client = Client::connect(&front).await;
    let request = client.send(to("/long?x").header("accept-encoding", "gzip"), true);
    let mut busy_client = worker.accept().await;
    busy_client.read_head().await;
    let long = "x".repeat(20_000);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 20000\r\n\r\n";
    busy_client.write(&format!("{head}{long}")).await;
    let (head, body) = request.read_response().await;
    assert_eq!(head.headers["content-encoding"], "gzip");
    let mut text = Vec::new();
    flate2::write::GzDecoder::new(&mut text).write_all(&body).expect("gzip");
    assert_eq!(text, long.as_bytes());

    let mut given_up = client.get("/slow");
    let mut busy_client = worker.accept().await;
    busy_client.read_head().await;
    busy_client.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    let mut half = (&mut given_up.response).await.expect("a head").into_body();
    assert_eq!(half.data().await.expect("half").expect("data"), "half");
    given_up.body.send_reset(Reason::CANCEL);
    let lines = logged.records(2).await;
    let said = |line: &Value| {
        let fields = ["protocol", "host", "target", "status", "complete", "bytes"];
        Value::from(fields.map(|field| line[field].clone()).to_vec())
    };
    let whole = json!(["HTTP/2.0", "app.example", "/long?x", 200, true, body.len()]);
    let half = json!(["HTTP/2.0", "app.example", "/slow", 200, false, 4]);
    assert_eq!((said(&lines[0]), said(&lines[1])), (whole, half));
}

#[tokio::test]
async fn rules_and_maintenance_apply_to_http2() {
    let worker = Worker::listen().await;
    let shed = vec![ShedSettings {
        matcher: Matcher { path: Some("/inbox".to_owned()), header: None },
        queue: WatchedQueue { source: QueueSource::Auto, name: "ingress".to_owned() },
        latency_max: Duration::from_secs(300),
        stale_after: Duration::from_secs(15),
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after: Duration::from_secs(61),
    }];
    let app = AppSettings { workers: vec![worker.address()], shed, ..AppSettings::new("app") };
    let front = TestFront::new(app, ProxySettings::default());
    let latency = Some(Duration::from_secs(301));
    front.apps.update_shed_rules(|_| vec![LatencySample { latency, age: Duration::ZERO }]);
    let mut client = Client::connect(&front).await;
    let (head, _) = client.get("/inbox").read_response().await;
    assert_eq!((head.status.as_u16(), &head.headers[RETRY_AFTER]), (503, &"61".parse().unwrap()));

    front.apps.set_maintenance("app", true).expect("the app");
    let (head, page) = client.get("/home").read_response().await;
    assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(head.headers[CONTENT_LENGTH], page.len().to_string());
    let (alone, nothing) =
        client.send(to("/home").method(Method::HEAD), true).read_response().await;
    assert_eq!(
        (alone.status, &alone.headers[CONTENT_LENGTH]),
        (head.status, &head.headers[CONTENT_LENGTH])
    );
    assert!(nothing.is_empty());
    assert!(worker.has_no_connection().await);
}

#[tokio::test]
async fn an_oversized_http2_body_is_rejected_alone() {
    let worker = Worker::listen().await;
    let limits =
        AppLimits { request_bytes_max: 8, request_buffer_bytes: 0, ..AppLimits::default() };
    let front = TestFront::open(limits, &[&worker]);
    let mut client = Client::connect(&front).await;
    let post = || to("/upload").method(Method::POST);
    let said = client.send(post().header(CONTENT_LENGTH, 9), false);
    assert_eq!(said.read_response().await.0.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(worker.has_no_connection().await);

    let mut unsaid = client.send(post(), false);
    unsaid.body.send_data(Bytes::from_static(b"123456789"), false).expect("sent");
    let mut busy_client = worker.accept().await;
    assert!(busy_client.read_head().await.contains("transfer-encoding: chunked"));
    assert_eq!(unsaid.read_response().await.0.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(
        !busy_client.read_to_end().await.ends_with("0\r\n\r\n"),
        "the worker sees no whole body"
    );
    drop(busy_client);

    let mut short = client.send(post(), false);
    short.body.send_data(Bytes::from_static(b"12345678"), true).expect("sent");
    let mut busy_client = worker.accept().await;
    busy_client.read_until("12345678").await;
    busy_client.respond("whole").await;
    assert_eq!(short.text().await, "whole");
}

#[tokio::test]
async fn http2_events_are_sent_at_once_and_end_with_the_connection() {
    let worker = Worker::listen().await;
    let front = TestFront::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&front).await;
    let request = client.send(to("/events").header("accept", "text/event-stream"), true);
    let mut stream = worker.accept().await;
    stream.read_head().await;
    stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
    let mut events = request.response.await.expect("an answer").into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        stream.write(event).await;
        assert_eq!(events.data().await.expect("an event").expect("data"), event);
    }
    front.graceful.cancel();
    // hyper says it with an empty frame.
    let end = events.data().await.expect("an end").expect("no reset");
    assert!(end.is_empty() && events.is_end_stream());
    let ended = client.connection.join_next().await.expect("a connection").expect("no panic");
    ended.expect("an end in order");
}
