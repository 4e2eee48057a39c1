//! A client that speaks HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use hyper::http::response::Parts;
use hyper::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::server::echo::{Server, TIMEOUT};

pub(super) struct Http2 {
    requests: SendRequest<Bytes>,
    connection: JoinSet<Result<(), h2::Error>>,
}

/// A request whose answer is to come.
pub(super) struct Asked {
    answer: ResponseFuture,
    body: SendStream<Bytes>,
    /// The request has its body.
    is_sent: bool,
}

pub(super) fn get(path: &str) -> hyper::http::request::Builder {
    Request::builder().uri(format!("http://x{path}"))
}

/// Waits for what another thread does, while the connections of this one go on.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("in vain waited for: {what}"));
}

impl Http2 {
    pub(super) async fn connect(server: &Server) -> Self {
        Self::over(TcpStream::connect(server.tcp_address()).await.expect("connects")).await
    }

    pub(super) async fn over<T>(socket: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        Self::built(&Builder::new(), socket).await
    }

    /// One that takes so much of each answer before it is read, and so much of all.
    pub(super) async fn with_windows(server: &Server, stream: u32, connection: u32) -> Self {
        let socket = TcpStream::connect(server.tcp_address()).await.expect("connects");
        let mut builder = Builder::new();
        builder.initial_window_size(stream).initial_connection_window_size(connection);
        Self::built(&builder, socket).await
    }

    async fn built<T>(builder: &Builder, socket: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let shaken = timeout(TIMEOUT, builder.handshake(socket)).await.expect("in time");
        let (requests, connection) = shaken.expect("HTTP/2");
        let mut running = JoinSet::new();
        running.spawn(connection);
        Self { requests, connection: running }
    }

    /// Sends `GET path`.
    pub(super) fn request_as(&mut self, path: &str) -> Asked {
        let mut notified = self.begin(get(path).body(()).expect("a request"));
        notified.finish();
        notified
    }

    /// Sends a head.
    pub(super) fn begin(&mut self, request: Request<()>) -> Asked {
        let (answer, body) = self.requests.send_request(request, false).expect("sent");
        Asked { answer, body, is_sent: false }
    }

    /// How many streams the server allows.
    pub(super) fn streams_max(&self) -> usize {
        self.requests.current_max_send_streams()
    }

    pub(super) fn hang_up(mut self) {
        self.connection.abort_all();
    }

    /// The reason for which the server ended the connection, if there was one.
    pub(super) async fn ended(mut self) -> Option<Reason> {
        let ended = timeout(TIMEOUT, self.connection.join_next()).await.expect("an end in time");
        let ended = ended.expect("a connection");
        ended.expect("no panic").err().map(|error| error.reason().unwrap_or(Reason::NO_ERROR))
    }
}

impl Asked {
    fn finish(&mut self) {
        self.body.send_data(Bytes::new(), true).expect("sent");
        self.is_sent = true;
    }

    /// Sends the body.
    pub(super) async fn send(&mut self, mut body: Bytes) {
        while !body.is_empty() {
            self.body.reserve_capacity(body.len());
            let room = std::future::poll_fn(|context| self.body.poll_capacity(context));
            let room = timeout(TIMEOUT, room).await.expect("room in time");
            let room = room.expect("open").expect("room");
            self.body.send_data(body.split_to(room), body.is_empty()).expect("sent");
        }
        self.finish_if_open();
    }

    fn finish_if_open(&mut self) {
        let _ = self.body.send_data(Bytes::new(), true);
        self.is_sent = true;
    }

    pub(super) fn reset(&mut self) {
        self.body.send_reset(Reason::CANCEL);
    }

    /// Its head, while the body is not read.
    pub(super) async fn head(self) -> (Parts, h2::RecvStream) {
        let answer = timeout(TIMEOUT, self.answer).await.expect("an answer in time");
        answer.expect("an answer").into_parts()
    }

    pub(super) async fn read_response(mut self) -> (StatusCode, String) {
        if !self.is_sent {
            self.finish_if_open();
        }
        let (head, mut body) = self.head().await;
        let mut text = Vec::new();
        while let Some(data) = timeout(TIMEOUT, body.data()).await.expect("a body in time") {
            let data = data.expect("data");
            body.flow_control().release_capacity(data.len()).expect("released");
            text.extend_from_slice(&data);
        }
        (head.status, String::from_utf8(text).expect("text"))
    }
}
