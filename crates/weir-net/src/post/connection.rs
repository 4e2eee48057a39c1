//! HTTP/1.1 to one endpoint, over a connection that is kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::PostError;
use super::trust::Trust;
use super::url::EndpointUrl;

/// The least that hyper can do with.
const HEAD_BYTES_LEAST: usize = 8 << 10;

/// A request that is posted.
pub type Post = Request<Full<Bytes>>;

/// What connections to endpoints have in common.
#[derive(Clone, Debug)]
pub struct PostSettings {
    /// Where these settings are in `weir.toml`, for errors: `realtime.webhooks`.
    pub section: &'static str,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Duration,
    /// From a request's first byte to the answer's last.
    pub response_timeout: Duration,
    /// A connection that was idle for longer is not used again.
    pub keep_alive: Duration,
    /// What is read of an answer's body, and of its head (at least 8 KiB).
    pub response_bytes_max: usize,
    /// Whose certificates are believed.
    pub trust: Trust,
}

/// One endpoint's connection, opened when it is first needed.
#[derive(Debug)]
pub struct Poster {
    url: EndpointUrl,
    settings: Arc<PostSettings>,
    kept: Option<PostConnection>,
}

#[derive(Debug)]
struct PostConnection {
    sender: SendRequest<Full<Bytes>>,
    /// Reads and writes. Ends with the connection, and the connection with it.
    _driver: JoinSet<()>,
    last_used: Instant,
}

impl Poster {
    /// Not connected yet.
    #[must_use]
    pub const fn new(url: EndpointUrl, settings: Arc<PostSettings>) -> Self {
        Self { url, settings, kept: None }
    }

    /// One attempt, which ends by itself. Any status from 200 to 299 is success.
    ///
    /// # Errors
    /// Why it did not succeed. The endpoint may have got the request all the same.
    pub async fn post(&mut self, post: Post) -> Result<(), PostError> {
        if let Some(kept) = self.take_kept() {
            match self.exchange(kept, post.clone()).await {
                // Receivers close connections that are idle, also in the moment in which one is
                // used again. That says nothing about the receiver.
                Err(PostError::Http(error)) if !error.is_parse() => {}
                result => return result,
            }
        }
        let fresh = self.connect().await?;
        self.exchange(fresh, post).await
    }

    fn take_kept(&mut self) -> Option<PostConnection> {
        let keep_alive = self.settings.keep_alive;
        self.kept
            .take()
            .filter(|kept| !kept.sender.is_closed() && kept.last_used.elapsed() < keep_alive)
    }

    async fn exchange(
        &mut self,
        mut connection: PostConnection,
        post: Post,
    ) -> Result<(), PostError> {
        let deadline = Instant::now() + self.settings.response_timeout;
        let answer = async {
            connection.sender.ready().await?;
            connection.sender.send_request(post).await
        };
        let answer = timeout_at(deadline, answer).await;
        let answer = answer
            .map_err(|_| PostError::ResponseTimeout(self.settings.section))?
            .map_err(PostError::Http)?;
        let status = answer.status();
        // The status says it all; the body is read only to use the connection again.
        let bytes_max = self.settings.response_bytes_max;
        let body = timeout_at(deadline, is_read_to_its_end(answer.into_body(), bytes_max)).await;
        if body == Ok(true) {
            connection.last_used = Instant::now();
            self.kept = Some(connection);
        }
        judge(status)
    }

    async fn connect(&self) -> Result<PostConnection, PostError> {
        let limit: Duration = self.settings.connect_timeout;
        let connected = timeout(limit, self.connect_without_limit()).await;
        connected.map_err(|_| PostError::ConnectTimeout(self.settings.section))?
    }

    async fn connect_without_limit(&self) -> Result<PostConnection, PostError> {
        let stream = TcpStream::connect((&*self.url.host, self.url.port)).await;
        let stream = stream.map_err(PostError::Connect)?;
        stream.set_nodelay(true).map_err(PostError::Connect)?;
        match &self.url.tls {
            None => self.start(stream).await,
            Some(name) => {
                let connector = self.settings.trust.connector();
                let stream = connector.connect(name.clone(), stream).await;
                self.start(stream.map_err(|error| self.no_tls(error))?).await
            }
        }
    }

    fn no_tls(&self, error: std::io::Error) -> PostError {
        PostError::Tls(error, self.settings.section)
    }

    async fn start<S>(&self, stream: S) -> Result<PostConnection, PostError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let head_bytes_max = self.settings.response_bytes_max.max(HEAD_BYTES_LEAST);
        // Receivers should ignore the case of header names, but some compare it: PHP's own server
        // hands names over as they were sent, and pusher-http-php looks for `X-Pusher-Key`.
        let mut builder = Builder::new();
        builder.max_buf_size(head_bytes_max).title_case_headers(true);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(PostError::Http)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // What goes wrong is the answer to the request that is on its way, if there is one.
            drop(connection.await);
        });
        Ok(PostConnection { sender, _driver: driver, last_used: Instant::now() })
    }
}

fn judge(status: StatusCode) -> Result<(), PostError> {
    if status.is_success() {
        Ok(())
    } else if status.is_redirection() {
        Err(PostError::Redirect(status))
    } else {
        Err(PostError::Status(status))
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
