//! A server that receives webhooks and sends scripted responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_net::http_client::HttpUrl;

/// How long to wait for an event before the test fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Got {
    headers: HeaderMap,
    body: Bytes,
    pub(super) json: serde_json::Value,
}

impl Got {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn hmac(&self, secret: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(&self.body);
        hex::encode(mac.finalize().into_bytes())
    }
}

pub(super) fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

struct Shared {
    got: watch::Sender<Vec<Got>>,
    /// Statuses of the next responses; 200 after them.
    answers: Mutex<VecDeque<u16>>,
    is_held: watch::Sender<bool>,
}

/// A receiver that runs until it is dropped.
pub(super) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            got: watch::Sender::default(),
            answers: Mutex::default(),
            is_held: watch::Sender::default(),
        });
        let (mut tasks, serving) = (JoinSet::new(), Arc::clone(&shared));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self { port, shared, _tasks: tasks }
    }

    pub(super) fn url(&self) -> HttpUrl {
        format!("http://127.0.0.1:{}/hooks", self.port).parse().unwrap()
    }

    pub(super) fn answer_with(&self, statuses: &[u16]) {
        *self.shared.answers.lock().unwrap() = statuses.iter().copied().collect();
    }

    /// Delays all responses until the receiver is released.
    pub(super) fn hold(&self) {
        self.shared.is_held.send_replace(true);
    }

    pub(super) fn go_on(&self) {
        self.shared.is_held.send_replace(false);
    }

    /// Returns the received requests once there are `count` of them.
    pub(super) async fn got(&self, count: usize) -> Vec<Got> {
        let mut got = self.shared.got.subscribe();
        let come = timeout(PATIENCE, got.wait_for(|got| got.len() >= count)).await;
        come.expect("so much comes").unwrap().clone()
    }

    pub(super) fn all(&self) -> Vec<Got> {
        self.shared.got.borrow().clone()
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(|request| answer(request, Arc::clone(&shared)));
    // A client that disconnects is not an error of the receiver.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let json = serde_json::from_slice(&body).unwrap();
    shared.got.send_modify(|got| got.push(Got { headers: head.headers, body, json }));
    let mut is_held = shared.is_held.subscribe();
    is_held.wait_for(|is_held| !is_held).await.unwrap();
    let status = shared.answers.lock().unwrap().pop_front().unwrap_or(200);
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    Ok(response)
}
