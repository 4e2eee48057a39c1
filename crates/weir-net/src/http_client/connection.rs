//! A connection to a server.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinSet;

use super::reach::Reach;
use super::settings::{ClientSettings, Server};
use super::{HttpError, HttpRequest, HttpUrl};
use crate::unix_path::ShortPath;

/// The smallest limit that hyper accepts.
const HEAD_BYTES_LEAST: usize = 8 << 10;

/// A stream over TCP, TLS or a unix socket, boxed so that hyper is compiled for one type only.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    /// How near the server's address is.
    pub(super) reach: Reach,
    /// The task that reads and writes. It is aborted when the connection is dropped.
    _driver: JoinSet<()>,
}

impl Connection {
    pub(super) async fn open(
        server: &Server,
        settings: &ClientSettings,
    ) -> Result<Self, HttpError> {
        match server {
            Server::Unix(path) => {
                let stream = connect_unix(path).await.map_err(HttpError::Connect)?;
                let host = HeaderValue::from_static("localhost");
                Self::start(Box::new(stream), host, Reach::Loopback, settings).await
            }
            Server::Web { url, nearest } => {
                let (stream, reach) = connect_tcp(url, *nearest).await?;
                let stream: Box<dyn Stream> = match &url.tls {
                    None => Box::new(stream),
                    Some(name) => {
                        let stream = settings.trust.connector().connect(name.clone(), stream).await;
                        let ca = settings.ca;
                        Box::new(stream.map_err(|error| HttpError::Tls { error, ca })?)
                    }
                };
                Self::start(stream, url.authority().clone(), reach, settings).await
            }
        }
    }

    async fn start(
        stream: Box<dyn Stream>,
        host: HeaderValue,
        reach: Reach,
        settings: &ClientSettings,
    ) -> Result<Self, HttpError> {
        let mut builder = Builder::new();
        builder
            .max_buf_size(settings.head_bytes_max.max(HEAD_BYTES_LEAST))
            .title_case_headers(settings.has_title_case_headers);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) =
            handshake.map_err(|error| HttpError::from_hyper(error, false))?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // An error is reported by the request in progress, if there is one.
            drop(connection.await);
        });
        Ok(Self { sender, host, reach, _driver: driver })
    }

    pub(super) async fn send(
        &mut self,
        request: HttpRequest,
    ) -> Result<Response<Incoming>, HttpError> {
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 1);
        headers.insert(HOST, self.host.clone());
        headers.extend(request.headers);
        let mut to_send = Request::new(Full::new(request.body));
        *to_send.method_mut() = request.method;
        *to_send.uri_mut() = request.target;
        *to_send.headers_mut() = headers;
        self.sender.ready().await.map_err(|error| HttpError::from_hyper(error, false))?;
        self.sender.try_send_request(to_send).await.map_err(|mut error| {
            let was_sent = error.take_message().is_none();
            HttpError::from_hyper(error.into_error(), was_sent)
        })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let short = ShortPath::for_path(path)?;
    UnixStream::connect(short.as_path()).await
}

async fn connect_tcp(url: &HttpUrl, nearest: Reach) -> Result<(TcpStream, Reach), HttpError> {
    let addresses = addresses(url, nearest).await?;
    let stream = TcpStream::connect(&addresses[..]).await.map_err(HttpError::Connect)?;
    stream.set_nodelay(true).map_err(HttpError::Connect)?;
    let reach = Reach::of(stream.peer_addr().map_err(HttpError::Connect)?.ip());
    Ok((stream, reach))
}

/// Looks up the addresses of a server that are no nearer than `nearest`. Connect to these
/// addresses: another look-up of the name could return others.
async fn addresses(url: &HttpUrl, nearest: Reach) -> Result<Vec<SocketAddr>, HttpError> {
    let resolved = lookup_host((url.host(), url.port)).await.map_err(HttpError::Dns)?;
    let (far, near): (Vec<_>, Vec<_>) =
        resolved.partition(|address| Reach::of(address.ip()) <= nearest);
    match near.first() {
        Some(address) if far.is_empty() => {
            Err(HttpError::TooNear { host: url.host().to_owned(), reach: Reach::of(address.ip()) })
        }
        _ => Ok(far),
    }
}
