//! An application's server that answers as the test wants.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderMap, LOCATION};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// No test waits for longer than this for what must come.
const TIMEOUT: Duration = Duration::from_secs(30);
const REQUESTS_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Status(u16),
    RedirectTo(&'static str),
    /// 200 with a body of so many bytes.
    Body(usize),
    /// 200 with a header of so many bytes.
    Head(usize),
    /// 200, the body's first byte, and no more.
    HalfABody,
    Never,
}

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    requests: mpsc::Receiver<Received>,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

/// A request, and what it was answered.
pub(super) struct Received {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) answered: Answer,
}

struct Shared {
    answers: Mutex<(Vec<Answer>, usize)>,
    connections: AtomicUsize,
    requests: mpsc::Sender<Received>,
    tls: Option<TlsAcceptor>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        Self::start_with(None).await
    }

    pub(super) async fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let answers = Mutex::new((vec![Answer::Status(200)], 0));
        let shared =
            Arc::new(Shared { answers, connections: AtomicUsize::new(0), requests: sender, tls });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, requests, shared, _tasks: tasks }
    }

    pub(super) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    pub(super) fn answer(&self, answer: Answer) {
        self.answer_in_turn(&[answer]);
    }

    /// One after the other, again and again.
    pub(super) fn answer_in_turn(&self, answers: &[Answer]) {
        *self.shared.answers.lock().unwrap() = (answers.to_vec(), 0);
    }

    pub(super) async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(TIMEOUT, self.requests.recv()).await;
        next.expect("a request comes").expect("the receiver runs")
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Received {
    pub(super) fn channels(&self) -> Vec<String> {
        let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        let events = json["events"].as_array().unwrap().iter();
        events.map(|event| event["channel"].as_str().unwrap().to_owned()).collect()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            match shared.tls.clone() {
                None => serve(stream, shared).await,
                Some(tls) => {
                    // Otherwise the client did not trust us, which is what the test is about.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, shared).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let service = service_fn(|request| receive(request, &shared));
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // The client closes it when it likes.
    drop(connection.await);
}

async fn receive(
    request: Request<Incoming>,
    shared: &Shared,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return std::future::pending().await };
    let answered = shared.next_answer();
    let received = Received {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        headers: head.headers,
        body: body.to_bytes().to_vec(),
        answered,
    };
    shared.requests.send(received).await.unwrap();
    Ok(respond(answered).await)
}

impl Shared {
    fn next_answer(&self) -> Answer {
        let mut answers = self.answers.lock().unwrap();
        let turn = answers.1;
        answers.1 += 1;
        answers.0[turn % answers.0.len()]
    }
}

async fn respond(answer: Answer) -> Response<BoxBody<Bytes, Infallible>> {
    let of = |length| Full::new(Bytes::from(vec![b'a'; length])).boxed();
    let response = Response::builder();
    match answer {
        Answer::Status(code) => response.status(code).body(of(0)),
        Answer::RedirectTo(target) => response.status(302).header(LOCATION, target).body(of(0)),
        Answer::Body(length) => response.body(of(length)),
        Answer::Head(length) => response.header("x-long", "a".repeat(length)).body(of(0)),
        Answer::HalfABody => response.body(HalfABody(false).boxed()),
        Answer::Never => std::future::pending().await,
    }
    .unwrap()
}

struct HalfABody(bool);

impl Body for HalfABody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"a")))))
    }
}
