//! HTTP on a listener: limited connections, a deadline for each request's head, graceful shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_net::Listener;

use weir_admin::audit::SocketPeer;
use weir_config::Admin;

/// Pause after an error of `accept` (no descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A router with its limits.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    router: Router,
    connections_max: usize,
    head_timeout: Duration,
    /// None: the router has its own limits.
    request_timeout: Option<Duration>,
}

impl Endpoint {
    /// Returns the endpoint of the admin API.
    pub(crate) fn admin(router: Router, settings: &Admin) -> Self {
        let request_timeout = Some(settings.request_timeout);
        Self { request_timeout, ..Self::console(router, settings) }
    }

    /// Returns the endpoint of the console.
    pub(crate) fn console(router: Router, settings: &Admin) -> Self {
        Self {
            router,
            connections_max: settings.connections_max,
            head_timeout: settings.head_timeout,
            request_timeout: None,
        }
    }
}

/// Serves `endpoint` on `listener` until `shutdown`.
pub(crate) fn serve(
    listener: Listener,
    endpoint: Endpoint,
    shutdown: &ShutdownToken,
) -> std::io::Result<()> {
    let listener = match listener {
        Listener::Tcp(listener) => HttpListener::Tcp(TcpListener::from_std(listener)?),
        Listener::Unix(listener) => HttpListener::Unix(UnixListener::from_std(listener)?),
    };
    shutdown.spawn(accept_all(listener, endpoint, shutdown.clone()));
    Ok(())
}

enum HttpListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Address(SocketAddr),
    Process(SocketPeer),
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl HttpListener {
    async fn accept(&self) -> std::io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Box::new(stream), Peer::Address(address)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = SocketPeer { uid: stream.peer_cred()?.uid() };
                Ok((Box::new(stream), Peer::Process(peer)))
            }
        }
    }
}

/// Accepts connections. Those beyond the limit wait in the listening socket's backlog.
async fn accept_all(listener: HttpListener, endpoint: Endpoint, shutdown: ShutdownToken) {
    let slots = Arc::new(Semaphore::new(endpoint.connections_max));
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = shutdown.requested() => return,
        };
        // The semaphore is never closed.
        let Ok(slot) = slot else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.requested() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let serving = serve_connection(stream, peer, endpoint.clone(), shutdown.clone());
                shutdown.spawn(async move {
                    serving.await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(
    stream: Box<dyn Stream>,
    peer: Peer,
    endpoint: Endpoint,
    shutdown: ShutdownToken,
) {
    let Endpoint { router, head_timeout, request_timeout, .. } = endpoint;
    let service = RouterService {
        router: TowerToHyperService::new(router),
        peer,
        request_timeout,
        shutdown: shutdown.clone(),
    };
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.requested() => {
            // The request in progress gets its response, and no further one is read.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // A client may close its connection at any time.
        tracing::debug!(%error, "connection ended");
    }
}

/// The router for one connection.
struct RouterService {
    router: TowerToHyperService<Router>,
    peer: Peer,
    request_timeout: Option<Duration>,
    shutdown: ShutdownToken,
}

type RouterResult = Result<Response<Body>, Infallible>;

impl Service<Request<Incoming>> for RouterService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = RouterResult> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        match self.peer {
            Peer::Address(address) => drop(request.extensions_mut().insert(ConnectInfo(address))),
            Peer::Process(peer) => drop(request.extensions_mut().insert(peer)),
        }
        let response = self.router.call(request);
        let (timeout, shutdown) = (self.request_timeout, self.shutdown.clone());
        Box::pin(async move {
            let response = match timeout {
                None => response.await?,
                Some(timeout) => match tokio::time::timeout(timeout, response).await {
                    Ok(response) => response?,
                    Err(_) => timeout_response(timeout),
                },
            };
            Ok(end_streams_at_shutdown(response, shutdown))
        })
    }
}

fn timeout_response(timeout: Duration) -> Response<Body> {
    let seconds = timeout.as_secs();
    let text = format!("no response within {seconds} s (admin.advanced.request_timeout)\n");
    (StatusCode::GATEWAY_TIMEOUT, text).into_response()
}

/// Ends event streams, which have no end of their own, at the shutdown.
fn end_streams_at_shutdown(response: Response<Body>, shutdown: ShutdownToken) -> Response<Body> {
    let is_stream = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/event-stream");
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_stream) {
        return response;
    }
    response.map(|body| {
        let end = Box::pin(async move { shutdown.requested().await });
        Body::new(EndingBody { body, end })
    })
}

struct EndingBody {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for EndingBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
