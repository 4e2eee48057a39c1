//! The streams of a connection: each is checked, passed to the service, and run in a task of its
//! own.

use std::cell::RefCell;
use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::header::{COOKIE, HOST};
use hyper::rt::Executor;
use hyper::{Method, Request, Response};
use tokio::task::spawn_local;

use super::progress::Http2Progress;
use super::responding::{Pieces, RequestGuard, RespondingStream, SendProgress};
use crate::client::{ClientFull, ClientRequest};
use crate::metrics::{HeadRefusal, HttpServerLimit};
use crate::server::error_response::ErrorResponse;
use crate::server::first_head::reject_head;
use crate::server::rearming_timer::RearmingTimer;
use crate::server::runtime::CoreContext;
use crate::server::{ConnectionService, Peer};

/// Passes each stream's request to the service.
pub(super) struct Routing<S> {
    pub(super) core: Rc<CoreContext<S>>,
    pub(super) peer: Peer,
    pub(super) progress: Rc<Http2Progress>,
    pub(super) tasks: Tasks<S>,
}

impl<S: ConnectionService> hyper::service::Service<Request<Incoming>> for Routing<S> {
    type Response = Response<Pieces>;
    type Error = h2::Error;
    type Future = RespondingStream;

    fn call(&self, mut request: Request<Incoming>) -> RespondingStream {
        let (is_head, send_progress) = (request.method() == Method::HEAD, self.tasks.announce());
        if self.progress.is_after_goaway(&self.core.limits()) {
            return RespondingStream { response: None, guard: None, is_head, send_progress };
        }
        if self.progress.begin_request() == self.core.limits().http2.streams_max {
            self.core.metrics().limit_hit(HttpServerLimit::Http2StreamsMax);
        }
        let mut guard = RequestGuard::new(&self.progress);
        let response: Pin<Box<dyn Future<Output = _>>> = match self.admit(&request) {
            Err(response) => Box::pin(ready(response.into_response())),
            Ok(client) => {
                self.core.metrics().request();
                if let Some(client) = client {
                    guard.count_for(client.clone());
                    request.extensions_mut().insert(client);
                }
                Box::pin(Rc::clone(self.core.service()).http(request, self.peer))
            }
        };
        RespondingStream { response: Some(response), guard: Some(guard), is_head, send_progress }
    }
}

impl<S: ConnectionService> Routing<S> {
    /// Returns the client of a request, or the response that rejects it.
    fn admit(&self, request: &Request<Incoming>) -> Result<Option<ClientRequest>, ErrorResponse> {
        if let Some(reason) = self.check(request) {
            return Err(reject_head(self.core.metrics(), reason));
        }
        let client = self.core.clients().request(self.peer, request.headers());
        client.map_err(|ClientFull(used)| ErrorResponse::overloaded(used.reason()))
    }

    /// Returns why a request that h2 accepts is rejected, if it is.
    fn check(&self, request: &Request<Incoming>) -> Option<HeadRefusal> {
        if request.method() == Method::CONNECT {
            return Some(HeadRefusal::Connect);
        }
        let host = request.headers().get(HOST);
        if let (Some(host), Some(authority)) = (host, request.uri().authority())
            && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
        {
            return Some(HeadRefusal::TwoHosts);
        }
        if fields(request) > self.core.limits().headers_max {
            return Some(HeadRefusal::TooManyFields);
        }
        (bytes(request) > self.core.limits().head_bytes_max).then_some(HeadRefusal::TooManyBytes)
    }
}

/// Counts the fields. Cookies may be split into several (RFC 9113, section 8.2.3) and count as one.
fn fields(request: &Request<Incoming>) -> usize {
    let cookies = request.headers().get_all(COOKIE).iter().count();
    request.headers().len() - cookies.saturating_sub(1)
}

/// Returns approximately how long the head would be in HTTP/1.1.
fn bytes(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(1, |target| target.as_str().len());
    let fields = request.headers().iter();
    let fields: usize = fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    request.method().as_str().len() + target + fields
}

/// Spawns the task of each stream.
pub(super) struct Tasks<S> {
    core: Rc<CoreContext<S>>,
    /// The progress of the stream whose task is spawned next: hyper does so right after the call.
    next: Rc<RefCell<Rc<SendProgress>>>,
}

impl<S: ConnectionService> Tasks<S> {
    pub(super) fn new(core: &Rc<CoreContext<S>>) -> Self {
        Self { core: Rc::clone(core), next: Rc::default() }
    }

    fn announce(&self) -> Rc<SendProgress> {
        let send_progress = Rc::new(SendProgress::default());
        self.next.replace(Rc::clone(&send_progress));
        send_progress
    }
}

impl<S> Clone for Tasks<S> {
    fn clone(&self) -> Self {
        Self { core: Rc::clone(&self.core), next: Rc::clone(&self.next) }
    }
}

impl<S: ConnectionService, F: Future<Output = ()> + 'static> Executor<F> for Tasks<S> {
    fn execute(&self, stream: F) {
        let (core, send_progress) = (Rc::clone(&self.core), Rc::clone(&self.next.borrow()));
        let stream = Box::pin(stream);
        drop(spawn_local(Patient { stream, core, send_progress, timer: RearmingTimer::default() }));
    }
}

/// The task of a stream. It ends when its client reads none of the response for too long, while
/// other streams of the connection continue.
struct Patient<F, S> {
    stream: Pin<Box<F>>,
    core: Rc<CoreContext<S>>,
    send_progress: Rc<SendProgress>,
    timer: RearmingTimer,
}

impl<S: ConnectionService, F: Future<Output = ()>> Future for Patient<F, S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let Some(since) = this.send_progress.waits_since() else { return Poll::Pending };
        let step = since + this.core.limits().write_timeout;
        let (deadline, limit) = match this.send_progress.until() {
            Some(until) if until <= step => (until, HttpServerLimit::AnswerTimeout),
            _ => (step, HttpServerLimit::WriteTimeout),
        };
        this.timer.poll(context, deadline).map(|()| {
            // The dropped stream is reset.
            this.core.metrics().limit_hit(limit);
        })
    }
}
