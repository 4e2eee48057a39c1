//! HTTP/1.1 to one endpoint, over a connection that is kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::endpoint_url::EndpointUrl;
use super::shared::Shared;
use super::transport::{AttemptError, Open, Post, Transport};

/// The least that hyper can do with.
const HEAD_BYTES_LEAST: usize = 8 << 10;

/// Opens connections with the common settings.
#[derive(Debug)]
pub(super) struct Connections(pub(super) Arc<Shared>);

/// One endpoint's connection, opened when it is first needed.
#[derive(Debug)]
pub(super) struct HttpTransport {
    url: EndpointUrl,
    shared: Arc<Shared>,
    kept: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Reads and writes. Ends with the connection, and the connection with it.
    _driver: JoinSet<()>,
    last_used: Instant,
}

impl Open for Connections {
    type Transport = HttpTransport;

    fn open(&self, url: &EndpointUrl) -> HttpTransport {
        HttpTransport { url: url.clone(), shared: Arc::clone(&self.0), kept: None }
    }
}

impl Transport for HttpTransport {
    async fn post(&mut self, post: Post) -> Result<(), AttemptError> {
        if let Some(kept) = self.take_kept() {
            match self.exchange(kept, post.clone()).await {
                // Receivers close connections that are idle, also in the moment in which one is
                // used again. That says nothing about the receiver.
                Err(AttemptError::Http(error)) if !error.is_parse() => {}
                result => return result,
            }
        }
        let fresh = self.connect().await?;
        self.exchange(fresh, post).await
    }
}

impl HttpTransport {
    fn take_kept(&mut self) -> Option<Connection> {
        let keep_alive = self.shared.settings.keep_alive;
        self.kept
            .take()
            .filter(|kept| !kept.sender.is_closed() && kept.last_used.elapsed() < keep_alive)
    }

    async fn exchange(
        &mut self,
        mut connection: Connection,
        post: Post,
    ) -> Result<(), AttemptError> {
        let deadline = Instant::now() + self.shared.settings.response_timeout;
        let answer = async {
            connection.sender.ready().await?;
            connection.sender.send_request(post).await
        };
        let answer = timeout_at(deadline, answer).await;
        let answer =
            answer.map_err(|_| AttemptError::ResponseTimeout)?.map_err(AttemptError::Http)?;
        let status = answer.status();
        // The status says it all; the body is read only to use the connection again.
        let bytes_max = self.shared.settings.limits.response_bytes_max;
        let body = timeout_at(deadline, is_read_to_its_end(answer.into_body(), bytes_max)).await;
        if body == Ok(true) {
            connection.last_used = Instant::now();
            self.kept = Some(connection);
        }
        judge(status)
    }

    async fn connect(&self) -> Result<Connection, AttemptError> {
        let limit: Duration = self.shared.settings.connect_timeout;
        let connected = timeout(limit, self.connect_without_limit()).await;
        connected.map_err(|_| AttemptError::ConnectTimeout)?
    }

    async fn connect_without_limit(&self) -> Result<Connection, AttemptError> {
        let stream = TcpStream::connect((&*self.url.host, self.url.port)).await;
        let stream = stream.map_err(AttemptError::Connect)?;
        stream.set_nodelay(true).map_err(AttemptError::Connect)?;
        match &self.url.tls {
            None => self.start(stream).await,
            Some(name) => {
                let connector = self.shared.settings.trust.connector();
                let stream = connector.connect(name.clone(), stream).await;
                self.start(stream.map_err(AttemptError::Tls)?).await
            }
        }
    }

    async fn start<S>(&self, stream: S) -> Result<Connection, AttemptError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let head_bytes_max = self.shared.settings.limits.response_bytes_max.max(HEAD_BYTES_LEAST);
        let handshake =
            Builder::new().max_buf_size(head_bytes_max).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(AttemptError::Http)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // What goes wrong is the answer to the request that is on its way, if there is one.
            drop(connection.await);
        });
        Ok(Connection { sender, _driver: driver, last_used: Instant::now() })
    }
}

fn judge(status: StatusCode) -> Result<(), AttemptError> {
    if status.is_success() {
        Ok(())
    } else if status.is_redirection() {
        Err(AttemptError::Redirect(status))
    } else {
        Err(AttemptError::Status(status))
    }
}

async fn is_read_to_its_end(mut body: Incoming, bytes_max: usize) -> bool {
    let mut left = bytes_max;
    while let Some(frame) = body.frame().await {
        let length = frame.map(|frame| frame.data_ref().map_or(0, Bytes::len));
        match length.ok().and_then(|length| left.checked_sub(length)) {
            Some(rest) => left = rest,
            None => return false,
        }
    }
    true
}
