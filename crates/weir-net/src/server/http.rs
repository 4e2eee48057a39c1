//! An HTTP/1 connection: hyper parses and frames, each request is routed by itself, and every wait
//! for the client has a deadline.
//!
//! If a later request is an upgrade, hyper gets no response to it: the request stays in progress,
//! the connection is taken apart, and the service gets the socket as for a first request.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::server::conn::http1::{Builder, Connection};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::time::{Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::error_response::{ErrorResponse, discard_body};
use super::first_head::{reject_head, upgrade};
use super::head::{Received, is_upgrade, names_upgrade};
use super::limits::HEADERS_USUAL;
use super::progress::Http1Progress;
use super::raw_target::RawTarget;
use super::rearming_timer::RearmingTimer;
use super::replay::Replay;
use super::runtime::CoreContext;
use super::{BoxError, ConnectionService, ConnectionStream, Peer, ResponseBody};
use crate::client::{ClientFull, ClientRequest};
use crate::metrics::{HeadRefusal, HttpServerLimit};

/// The smallest buffer that hyper accepts.
const HYPER_BUFFER_MIN: usize = 8 << 10;

/// Serves a connection to its end; `read`: the bytes from the start of its first request.
pub(super) async fn serve<S: ConnectionService>(
    core: Rc<CoreContext<S>>,
    stream: ConnectionStream,
    read: Vec<u8>,
    peer: Peer,
) {
    let progress = Rc::new(Http1Progress::new());
    let replay = Replay::new(stream, read, Rc::clone(&progress));
    let headers_max = core.limits().headers_max.min(HEADERS_USUAL);
    let connection = connect(&core, peer, &progress, replay, headers_max);
    let shutdown = Http1Shutdown::Serving(Box::pin(core.draining().clone().cancelled_owned()));
    let timer = RearmingTimer::default();
    let mut driven = Driven { connection, progress, shutdown, has_drain_waker: false, timer };
    let event = loop {
        match poll_fn(|context| driven.poll(&core, context)).await {
            Http1Event::HeadTooWide => driven = driven.widen(&core, peer),
            event => break event,
        }
    };
    match event {
        Http1Event::HeadTooWide => {}
        Http1Event::Ended(result) => {
            let is_answered = result.is_ok();
            count_error(&core, result);
            // hyper does not report whether the body was read. If the client has disconnected, this
            // is cheap.
            if is_answered && driven.progress.has_body() {
                discard_body(&core, driven.into_stream().0).await;
            }
        }
        Http1Event::Upgrade(request) => {
            let (stream, rest) = driven.into_stream();
            let received = Received::new(request);
            let rejected = received.with_head(|head| upgrade(&core, stream, head, &rest, peer));
            if let Some((stream, response)) = rejected {
                response.send_and_close(&core, stream).await;
            }
        }
        Http1Event::TooLate(HttpServerLimit::HeadTimeout) => {
            let response = reject_head(core.metrics(), HeadRefusal::Late);
            response.send_and_close(&core, driven.into_stream().0).await;
        }
        Http1Event::TooLate(limit) => {
            core.metrics().limit_hit(limit);
            close(driven.into_stream().0, limit);
        }
    }
}

type Http1<S> = Connection<TokioIo<Replay<Http1Progress>>, Routing<S>>;

fn connect<S: ConnectionService>(
    core: &Rc<CoreContext<S>>,
    peer: Peer,
    progress: &Rc<Http1Progress>,
    replay: Replay<Http1Progress>,
    headers_max: usize,
) -> Http1<S> {
    let routing = Routing { core: Rc::clone(core), peer, progress: Rc::clone(progress) };
    let mut builder = Builder::new();
    if headers_max != HEADERS_USUAL {
        // hyper has room for the usual number; with any other, it allocates for each request.
        builder.max_headers(headers_max);
    }
    builder
        // `Deadline` is used instead, which distinguishes a slow head from an idle connection.
        .header_read_timeout(None)
        .half_close(core.service().answers_half_closed(peer.listener))
        .max_buf_size(core.limits().head_bytes_max.max(HYPER_BUFFER_MIN))
        .serve_connection(TokioIo::new(replay), routing)
}

/// Closes a connection after a time limit.
fn close(mut stream: ConnectionStream, limit: HttpServerLimit) {
    // Errors do not matter: the socket is closed either way.
    let _ = match limit {
        // The kernel must not keep the bytes that the client did not read.
        HttpServerLimit::WriteTimeout | HttpServerLimit::AnswerTimeout => stream.set_linger_zero(),
        _ => stream.shutdown(),
    };
}

fn count_error<S: ConnectionService>(core: &CoreContext<S>, result: hyper::Result<()>) {
    let Err(error) = result else { return };
    // hyper has responded; only count it.
    if error.is_parse_too_large() {
        reject_head(core.metrics(), HeadRefusal::TooManyBytes);
    } else if error.is_parse() {
        reject_head(core.metrics(), HeadRefusal::Malformed);
    }
    tracing::debug!(%error, "connection ended");
}

/// How hyper's part of a connection ends.
enum Http1Event {
    Ended(hyper::Result<()>),
    Upgrade(Box<Request<()>>),
    /// The next head has more fields than hyper accepts.
    HeadTooWide,
    TooLate(HttpServerLimit),
}

/// A connection with its shutdown and its deadline.
struct Driven<S: ConnectionService> {
    connection: Http1<S>,
    progress: Rc<Http1Progress>,
    shutdown: Http1Shutdown,
    /// Whether the drain's token has a waker of this task.
    has_drain_waker: bool,
    timer: RearmingTimer,
}

/// The state of a connection's shutdown.
enum Http1Shutdown {
    /// Until the core drains.
    Serving(Pin<Box<WaitForCancellationFutureOwned>>),
    /// The next response is the last one and says so (`Connection: close`). Until then, or until
    /// the core stops, the connection stays open for `idle_timeout`: a client may reuse it at any
    /// moment, and a request that meets its close is lost.
    Draining(Pin<Box<WaitForCancellationFutureOwned>>),
    /// The connection is closed once it has been idle for `last_request_timeout`.
    Stopping(Option<Pin<Box<Sleep>>>),
    /// hyper is closing the connection.
    Closing,
}

impl<S: ConnectionService> Driven<S> {
    fn poll(&mut self, core: &CoreContext<S>, context: &mut Context<'_>) -> Poll<Http1Event> {
        loop {
            // hyper first: it must have read the first request before the shutdown begins.
            if let Poll::Ready(result) = Pin::new(&mut self.connection).poll(context) {
                return Poll::Ready(Http1Event::Ended(result));
            }
            if let Some(request) = self.progress.take_upgrade() {
                return Poll::Ready(Http1Event::Upgrade(request));
            }
            if self.progress.is_head_too_wide() {
                return Poll::Ready(Http1Event::HeadTooWide);
            }
            if !self.advance_shutdown(core, context) {
                break;
            }
        }
        // Checked first, because the limits are shared by all cores and reading them costs more.
        if !self.progress.is_waiting_for_client() {
            return Poll::Pending;
        }
        let Some(deadline) = self.progress.deadline(&core.limits()) else {
            return Poll::Pending;
        };
        self.timer.poll(context, deadline.at).map(|()| Http1Event::TooLate(deadline.limit))
    }

    /// Returns whether hyper was told to close the connection, so that it must be polled.
    fn advance_shutdown(&mut self, core: &CoreContext<S>, context: &mut Context<'_>) -> bool {
        if let Http1Shutdown::Serving(draining) = &mut self.shutdown {
            // Avoids registering the waker twice, which costs more than this check.
            if self.has_drain_waker && !core.draining().is_cancelled() {
                return false;
            }
            self.has_drain_waker = true;
            if draining.as_mut().poll(context).is_pending() {
                return false;
            }
            let stopping = core.stopping().clone().cancelled_owned();
            self.shutdown = Http1Shutdown::Draining(Box::pin(stopping));
        }
        if let Http1Shutdown::Draining(stopping) = &mut self.shutdown {
            if stopping.as_mut().poll(context).is_pending() {
                return false;
            }
            self.shutdown = Http1Shutdown::Stopping(None);
        }
        let Http1Shutdown::Stopping(wait) = &mut self.shutdown else { return false };
        // The response began before the drain, so it does not announce that it is the last one.
        if self.progress.has_request() {
            return false;
        }
        let until = self.progress.idle_since() + core.limits().last_request_timeout;
        let wait = wait.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if wait.as_mut().poll(context).is_pending() {
            return false;
        }
        self.shutdown = Http1Shutdown::Closing;
        Pin::new(&mut self.connection).graceful_shutdown();
        true
    }

    /// Parses the current head again, and accepts as many fields as are allowed from now on. Room
    /// for them costs each request time, so connections start without it.
    fn widen(self, core: &Rc<CoreContext<S>>, peer: Peer) -> Self {
        let Self { connection, progress, .. } = self;
        let parts = connection.into_parts();
        let (stream, unread) = parts.io.into_inner().into_parts();
        let (read, consumed) = ([&parts.read_buf[..], &unread].concat(), parts.read_buf.len());
        progress.widen();
        let replay = Replay::resume(stream, read, consumed, Rc::clone(&progress));
        let connection = connect(core, peer, &progress, replay, core.limits().headers_max);
        Self { connection, progress, ..self }
    }

    /// Returns the socket and the bytes behind the requests that were routed.
    fn into_stream(self) -> (ConnectionStream, Vec<u8>) {
        let parts = self.connection.into_parts();
        let (stream, unread) = parts.io.into_inner().into_parts();
        let mut rest = Vec::from(parts.read_buf);
        rest.extend(unread);
        (stream, rest)
    }
}

/// Passes each request to the service.
struct Routing<S> {
    core: Rc<CoreContext<S>>,
    peer: Peer,
    progress: Rc<Http1Progress>,
}

type AnswerFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>>>>;

/// A request to which the service responds.
struct Responding<S> {
    response: AnswerFuture,
    core: Rc<CoreContext<S>>,
    progress: Rc<Http1Progress>,
    /// Counts as a request of its client until the response has ended.
    client: Option<ClientRequest>,
}

impl<S: ConnectionService> Future for Responding<S> {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.response.as_mut().poll(context).map(|mut response| {
            if self.core.draining().is_cancelled() {
                // hyper closes the connection after this response.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let progress = Rc::clone(&self.progress);
            progress.begin_response(response.extensions().get().copied());
            let _client = self.client.take();
            Ok(response.map(|body| TrackedBody { body, progress, _client }))
        })
    }
}

impl<S: ConnectionService> hyper::service::Service<Request<Incoming>> for Routing<S> {
    type Response = Response<TrackedBody>;
    type Error = Infallible;
    type Future = Responding<S>;

    fn call(&self, mut request: Request<Incoming>) -> Responding<S> {
        let target = self.progress.begin_request(request.body().into());
        if let Some(target) = target {
            let Some((uri, raw)) = RawTarget::parse(&target) else {
                return self.reject(reject_head(self.core.metrics(), HeadRefusal::Malformed));
            };
            *request.uri_mut() = uri;
            request.extensions_mut().insert(raw);
        }
        if self.is_upgrade(&request) {
            self.progress.request_upgrade(Box::new(request.map(drop)));
            return self.respond_with(Box::pin(pending()), None);
        }
        self.core.metrics().request();
        let client = match self.core.clients().request(self.peer, request.headers()) {
            Ok(client) => client,
            Err(ClientFull(used)) => return self.reject(ErrorResponse::overloaded(used.reason())),
        };
        if let Some(client) = &client {
            request.extensions_mut().insert(client.clone());
        }
        // Boxed directly, because a future around it would hold it twice.
        let response = Box::pin(Rc::clone(self.core.service()).http(request, self.peer));
        self.respond_with(response, client)
    }
}

impl<S: ConnectionService> Routing<S> {
    fn respond_with(&self, response: AnswerFuture, client: Option<ClientRequest>) -> Responding<S> {
        let (core, progress) = (Rc::clone(&self.core), Rc::clone(&self.progress));
        Responding { response, core, progress, client }
    }

    /// Responds without the service.
    fn reject(&self, error: ErrorResponse) -> Responding<S> {
        let mut response = error.into_response();
        if response.status() == StatusCode::BAD_REQUEST {
            // The connection is closed, as after a head that hyper rejects.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.respond_with(Box::pin(ready(response)), None)
    }

    fn is_upgrade(&self, request: &Request<Incoming>) -> bool {
        let values = |name| request.headers().get_all(name).iter().map(HeaderValue::as_bytes);
        request.version() == Version::HTTP_11
            && values(UPGRADE).any(is_upgrade)
            && values(CONNECTION).any(names_upgrade)
            && self.core.service().claims_upgrade(request.uri().path())
    }
}

/// The body of a response; its request is in progress until it is dropped.
#[derive(Debug)]
struct TrackedBody {
    body: ResponseBody,
    progress: Rc<Http1Progress>,
    _client: Option<ClientRequest>,
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.progress.end_request();
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
