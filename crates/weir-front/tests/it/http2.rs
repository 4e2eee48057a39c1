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
use weir_front::{AppLimits, AppSettings, Gzip, LogFormat, Matcher, ProxySettings, ShedSettings};

use crate::access_log::Logged;
use crate::door::{Door, Worker};

const WAITING: &str = "weir_front_app_waiting{app=\"app\"}";

struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinSet<Result<(), h2::Error>>,
}

struct Asked {
    answer: ResponseFuture,
    body: h2::SendStream<Bytes>,
}

impl Client {
    async fn connect(door: &Door) -> Self {
        let (requests, connection) =
            h2::client::handshake(door.dial().await).await.expect("HTTP/2");
        let mut running = JoinSet::new();
        running.spawn(connection);
        Self { requests, connection: running }
    }

    fn get(&mut self, path: &str) -> Asked {
        self.ask(to(path), true)
    }

    /// Sends a head; `is_all`: no body comes.
    fn ask(&mut self, request: Builder, is_all: bool) -> Asked {
        let request = request.body(()).expect("a request");
        let (answer, body) = self.requests.send_request(request, is_all).expect("sent");
        Asked { answer, body }
    }
}

/// `GET path`.
fn to(path: &str) -> Builder {
    Request::builder().uri(format!("http://app.example{path}"))
}

impl Asked {
    /// The answer's head, and all of its body.
    async fn answer(self) -> (Parts, Vec<u8>) {
        let (head, mut body) = self.answer.await.expect("an answer").into_parts();
        let mut bytes = Vec::new();
        while let Some(data) = body.data().await {
            let data = data.expect("data");
            body.flow_control().release_capacity(data.len()).expect("released");
            bytes.extend(data);
        }
        (head, bytes)
    }

    async fn text(self) -> String {
        String::from_utf8(self.answer().await.1).expect("text")
    }
}

#[tokio::test]
async fn streams_go_to_workers_of_their_own_and_the_others_wait() {
    let workers = [Worker::listen().await, Worker::listen().await];
    let door = Door::open(AppLimits::default(), &[&workers[0], &workers[1]]);
    let mut client = Client::connect(&door).await;
    let asked: Vec<_> = ["/a", "/b", "/c"].map(|path| client.get(path)).into();
    let (mut one, mut other) = (workers[0].accept().await, workers[1].accept().await);
    let heads = [one.head().await, other.head().await];
    assert!(heads.iter().any(|head| head.starts_with("GET /a HTTP/1.1\r\nhost: app.example\r\n")));
    assert!(heads.iter().any(|head| head.starts_with("GET /b ")));
    door.until(WAITING, 1).await;
    one.answer("first").await;
    let mut third = workers[0].accept().await;
    assert!(third.head().await.starts_with("GET /c "));
    other.answer("first").await;
    third.answer("last").await;
    let mut texts = Vec::new();
    for asked in asked {
        texts.push(asked.text().await);
    }
    assert_eq!(texts, ["first", "first", "last"]);
}

#[tokio::test]
async fn events_beyond_the_limit_are_refused_on_a_stream_of_a_connection_too() {
    let worker = Worker::listen().await;
    let limits = AppLimits { streams: Some(1), concurrency: 2, ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut client = Client::connect(&door).await;
    let mut open = Vec::new();
    for expected in [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE] {
        let asked = client.get("/events");
        let mut stream = worker.accept().await;
        stream.head().await;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
        stream.write(head).await;
        let answer = asked.answer.await.expect("an answer");
        assert_eq!(answer.status(), expected);
        open.push((answer, stream));
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_while_it_waits_reaches_no_worker() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&door).await;
    let first = client.get("/first");
    let mut at_work = worker.accept().await;
    at_work.head().await;
    let mut given_up = client.get("/given-up");
    let last = client.get("/last");
    door.until(WAITING, 2).await;
    given_up.body.send_reset(Reason::CANCEL);
    door.until(WAITING, 1).await;
    at_work.answer("first").await;
    let mut at_work = worker.accept().await;
    assert!(at_work.head().await.starts_with("GET /last "));
    at_work.answer("last").await;
    assert_eq!(first.text().await + &last.text().await, "firstlast");
}

#[tokio::test]
async fn a_worker_is_busy_until_it_answers_also_when_its_stream_is_reset() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&door).await;
    let mut given_up = client.get("/given-up");
    let mut at_work = worker.accept().await;
    at_work.head().await;
    given_up.body.send_reset(Reason::CANCEL);
    let gone = "weir_front_app_failures_total{app=\"app\",reason=\"client_gone\"}";
    door.until(gone, 1).await;
    let next = client.get("/next");
    door.until(WAITING, 1).await;
    at_work.answer("for nobody").await;
    let mut at_work = worker.accept().await;
    assert!(at_work.head().await.starts_with("GET /next "));
    at_work.answer("next").await;
    assert_eq!(next.text().await, "next");
}

#[tokio::test]
async fn fields_of_the_next_hop_end_here() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&door).await;
    let asked = client.get("/");
    let mut at_work = worker.accept().await;
    at_work.head().await;
    let fields = "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Kept: 1";
    at_work.write(&format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 0\r\n\r\n")).await;
    let answer = asked.answer.await.expect("an answer h2 does not refuse");
    let mut names: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "date", "x-kept"]);
}

#[tokio::test]
async fn a_worker_sees_of_a_stream_what_it_sees_of_any_request() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&door).await;
    let claims =
        to("/cart").header("x-forwarded-for", "6.6.6.6").header("forwarded", "for=6.6.6.6");
    let request = claims.header("cookie", "a=1").header("cookie", "b=2").header("x_real_ip", "6");
    let _asked = client.ask(request.header("x-request-id", "r-1").header("te", "trailers"), true);
    let head = worker.accept().await.head().await;
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
async fn answers_to_streams_are_compressed_and_each_is_a_line_of_the_log() {
    let (logged, worker) = (Logged::to(LogFormat::Json), Worker::listen().await);
    let limits = AppLimits { gzip: Some(Gzip::default()), ..AppLimits::default() };
    let workers = vec![worker.address()];
    let door = logged.door_of(AppSettings { workers, limits, ..AppSettings::new("app") });
    let mut client = Client::connect(&door).await;
    let asked = client.ask(to("/long?x").header("accept-encoding", "gzip"), true);
    let mut at_work = worker.accept().await;
    at_work.head().await;
    let long = "x".repeat(20_000);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 20000\r\n\r\n";
    at_work.write(&format!("{head}{long}")).await;
    let (head, body) = asked.answer().await;
    assert_eq!(head.headers["content-encoding"], "gzip");
    let mut text = Vec::new();
    flate2::write::GzDecoder::new(&mut text).write_all(&body).expect("gzip");
    assert_eq!(text, long.as_bytes());

    let mut given_up = client.get("/slow");
    let mut at_work = worker.accept().await;
    at_work.head().await;
    at_work.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").await;
    let mut half = (&mut given_up.answer).await.expect("a head").into_body();
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
async fn rules_and_maintenance_hold_for_streams() {
    let worker = Worker::listen().await;
    let shed = vec![ShedSettings {
        matcher: Matcher { path: Some("/inbox".to_owned()), header: None },
        queue: "ingress".to_owned(),
        over: Duration::from_secs(300),
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after: Duration::from_secs(61),
    }];
    let app = AppSettings { workers: vec![worker.address()], shed, ..AppSettings::new("app") };
    let door = Door::of(app, ProxySettings::default());
    door.apps.judge_queues(&[("ingress".to_owned(), Duration::from_secs(301))].into());
    let mut client = Client::connect(&door).await;
    let (head, _) = client.get("/inbox").answer().await;
    assert_eq!((head.status.as_u16(), &head.headers[RETRY_AFTER]), (503, &"61".parse().unwrap()));

    door.apps.set_maintenance("app", true).expect("the app");
    let (head, page) = client.get("/home").answer().await;
    assert_eq!(head.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(head.headers[CONTENT_LENGTH], page.len().to_string());
    let (alone, nothing) = client.ask(to("/home").method(Method::HEAD), true).answer().await;
    assert_eq!(
        (alone.status, &alone.headers[CONTENT_LENGTH]),
        (head.status, &head.headers[CONTENT_LENGTH])
    );
    assert!(nothing.is_empty());
    assert!(worker.is_left_alone().await);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_others_go_on() {
    let worker = Worker::listen().await;
    let limits =
        AppLimits { request_bytes_max: 8, request_buffer_bytes: 0, ..AppLimits::default() };
    let door = Door::open(limits, &[&worker]);
    let mut client = Client::connect(&door).await;
    let post = || to("/upload").method(Method::POST);
    let said = client.ask(post().header(CONTENT_LENGTH, 9), false);
    assert_eq!(said.answer().await.0.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(worker.is_left_alone().await);

    let mut unsaid = client.ask(post(), false);
    unsaid.body.send_data(Bytes::from_static(b"123456789"), false).expect("sent");
    let mut at_work = worker.accept().await;
    assert!(at_work.head().await.contains("transfer-encoding: chunked"));
    assert_eq!(unsaid.answer().await.0.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(!at_work.rest().await.ends_with("0\r\n\r\n"), "the worker sees no whole body");
    drop(at_work);

    let mut short = client.ask(post(), false);
    short.body.send_data(Bytes::from_static(b"12345678"), true).expect("sent");
    let mut at_work = worker.accept().await;
    at_work.until("12345678").await;
    at_work.answer("whole").await;
    assert_eq!(short.text().await, "whole");
}

#[tokio::test]
async fn events_arrive_as_they_are_sent_and_end_in_order_with_their_connection() {
    let worker = Worker::listen().await;
    let door = Door::open(AppLimits::default(), &[&worker]);
    let mut client = Client::connect(&door).await;
    let asked = client.ask(to("/events").header("accept", "text/event-stream"), true);
    let mut stream = worker.accept().await;
    stream.head().await;
    stream.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").await;
    let mut events = asked.answer.await.expect("an answer").into_body();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        stream.write(event).await;
        assert_eq!(events.data().await.expect("an event").expect("data"), event);
    }
    door.graceful.cancel();
    // hyper says it with an empty frame.
    let end = events.data().await.expect("an end").expect("no reset");
    assert!(end.is_empty() && events.is_end_stream());
    let ended = client.connection.join_next().await.expect("a connection").expect("no panic");
    ended.expect("an end in order");
}
