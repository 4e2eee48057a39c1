//! One connection.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weir_net::post::Trust;

use super::{FetchError, UpstreamUrl};

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Reads and writes. Ends with the connection, and the connection with it.
    _driver: JoinSet<()>,
}

impl Connection {
    pub(super) async fn open(url: &UpstreamUrl, trust: &Trust) -> Result<Self, FetchError> {
        let stream = TcpStream::connect((&*url.host, url.port)).await;
        let stream = stream.map_err(FetchError::Connect)?;
        stream.set_nodelay(true).map_err(FetchError::Connect)?;
        match &url.tls {
            None => Self::start(stream).await,
            Some(name) => {
                let stream = trust.connector().connect(name.clone(), stream).await;
                Self::start(stream.map_err(FetchError::Tls)?).await
            }
        }
    }

    async fn start<S>(stream: S) -> Result<Self, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake =
            Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(FetchError::Http)?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // What goes wrong is the answer to the request that is on its way, if there is one.
            drop(connection.await);
        });
        Ok(Self { sender, _driver: driver })
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Incoming>, FetchError> {
        self.sender.ready().await.map_err(FetchError::Http)?;
        self.sender.send_request(request).await.map_err(FetchError::Http)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
