//! One connection.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use weir_net::post::Trust;

use super::reach::Reach;
use super::{FetchError, UpstreamUrl};

/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Of the server.
    pub(super) reach: Reach,
    /// Reads and writes. Ends with the connection, and the connection with it.
    _driver: JoinSet<()>,
}

impl Connection {
    /// To a server that is no nearer than that.
    pub(super) async fn open(
        url: &UpstreamUrl,
        nearest: Reach,
        trust: &Trust,
    ) -> Result<Self, FetchError> {
        let addresses = addresses(url, nearest).await?;
        let stream = TcpStream::connect(&addresses[..]).await.map_err(FetchError::Connect)?;
        stream.set_nodelay(true).map_err(FetchError::Connect)?;
        let reach = Reach::of(stream.peer_addr().map_err(FetchError::Connect)?.ip());
        match &url.tls {
            None => Self::start(stream, reach).await,
            Some(name) => {
                let stream = trust.connector().connect(name.clone(), stream).await;
                Self::start(stream.map_err(FetchError::Tls)?, reach).await
            }
        }
    }

    async fn start<S>(stream: S, reach: Reach) -> Result<Self, FetchError>
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
        Ok(Self { sender, reach, _driver: driver })
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

/// The addresses of a server that are no nearer than that. They are connected to as they were judged:
/// asked for again, a name could have others.
async fn addresses(url: &UpstreamUrl, nearest: Reach) -> Result<Vec<SocketAddr>, FetchError> {
    let found = lookup_host((&*url.host, url.port)).await.map_err(FetchError::Connect)?;
    let (far, near): (Vec<_>, Vec<_>) =
        found.partition(|address| Reach::of(address.ip()) <= nearest);
    match near.first() {
        Some(address) if far.is_empty() => Err(FetchError::Nearer {
            to: url.to_string(),
            host: url.host.to_string(),
            reach: Reach::of(address.ip()),
        }),
        _ => Ok(far),
    }
}
