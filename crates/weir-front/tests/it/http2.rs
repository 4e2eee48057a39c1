//! Streams of one HTTP/2 connection: each is a request like any other.

use bytes::Bytes;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use hyper::Request;
use tokio::task::JoinSet;
use weir_front::AppLimits;

use crate::door::{Door, Worker};

const WAITING: &str = "weir_front_app_waiting{app=\"app\",class=\"request\"}";

struct Client {
    requests: SendRequest<Bytes>,
    _connection: JoinSet<Result<(), h2::Error>>,
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
        Self { requests, _connection: running }
    }

    fn get(&mut self, path: &str) -> Asked {
        let request = Request::builder().uri(format!("http://app.example{path}")).body(());
        let request = request.expect("a request");
        let (answer, body) = self.requests.send_request(request, true).expect("sent");
        Asked { answer, body }
    }
}

impl Asked {
    async fn text(self) -> String {
        let mut body = self.answer.await.expect("an answer").into_body();
        let mut text = Vec::new();
        while let Some(data) = body.data().await {
            text.extend(data.expect("data"));
        }
        String::from_utf8(text).expect("text")
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
