//! One request, one answer.
//!
//! A request goes to another worker if it certainly reached none: the connection was refused, or an
//! idle one had been closed. One that may have been read is repeated only if it is idempotent and
//! came on a connection that had been idle, whose end it may have met.
//!
//! A worker that was given a request is busy until it answers, whether or not anybody still waits:
//! a slot that is given away before would send the next request to a worker that is stuck. So an
//! exchange whose client is gone goes on alone ([`Pending`]).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response};
use tokio::task::spawn_local;
use tokio::time::timeout;
use weir_net::server::Body;

use super::body::{AnswerBody, BodyState, Held, RequestBody};
use super::pool::Connection;
use super::{Prepared, Proxy, answer, head, pool};
use crate::app::{App, Slot, Worker};
use crate::dispatch::Refusal;
use crate::metrics::Failure;

/// Why a request has no worker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Refused(Refusal),
    TooLarge,
    BadBody,
    Unreachable,
    Broken,
    Late,
}

impl Failed {
    pub(super) fn metric(self) -> Option<Failure> {
        match self {
            // Counted where it was refused.
            Self::Refused(_) => None,
            Self::TooLarge | Self::BadBody => Some(Failure::BadRequest),
            Self::Unreachable => Some(Failure::Unreachable),
            Self::Broken => Some(Failure::Broken),
            Self::Late => Some(Failure::Late),
        }
    }
}

/// What came of sending a request to one worker.
enum Sent {
    Answer(Box<Answered>),
    /// It reached nobody, or may be repeated.
    Again(Box<Request<RequestBody>>),
    Failed(Failed),
}

/// A worker's answer, of which the head has come.
struct Answered {
    response: Response<Incoming>,
    slot: Slot,
    connection: Connection,
}

impl Proxy {
    /// The answer of a worker, or one that says why there is none.
    pub(super) async fn exchange(self: &Rc<Self>, prepared: Prepared) -> Response<Body> {
        let app = Arc::clone(&prepared.app);
        match self.try_workers(prepared).await {
            Ok(response) => response,
            Err(failed) => {
                app.metrics.failed_with(failed.metric());
                answer::failed(failed)
            }
        }
    }

    async fn try_workers(self: &Rc<Self>, prepared: Prepared) -> Result<Response<Body>, Failed> {
        let Prepared { app, wish, mut since, mut request } = prepared;
        let mut may_reuse = true;
        for _ in 0..app.limits.attempts_max {
            let slot = match app.free_slot(wish, since) {
                Some(slot) => slot,
                None => {
                    let slot = app.slot(wish, since).await?;
                    since = app.now();
                    slot
                }
            };
            let idle = if may_reuse { self.pool.idle(&slot.worker) } else { None };
            let connection = match idle {
                Some(connection) => connection,
                // Boxed: most requests have no use for its size.
                None => match Box::pin(connect(&app, &slot.worker)).await {
                    Some(connection) => connection,
                    None => continue,
                },
            };
            match send(&app, request, slot, connection).await {
                Sent::Answer(answered) => {
                    let Answered { response, slot, connection } = *answered;
                    app.metrics.answered(response.status(), app.now().since(since));
                    return Ok(self.pass_on(response, slot, connection));
                }
                Sent::Again(same) => {
                    request = same;
                    // The others may have ended with that one.
                    may_reuse = false;
                }
                Sent::Failed(failed) => return Err(failed),
            }
        }
        Err(Failed::Unreachable)
    }

    fn pass_on(
        &self,
        response: Response<Incoming>,
        slot: Slot,
        connection: Connection,
    ) -> Response<Body> {
        let (mut parts, incoming) = response.into_parts();
        head::remove_hop_by_hop(&mut parts.headers);
        let limits = &slot.app().limits;
        let (patience, drain) = if is_event_stream(&parts.headers) {
            (limits.stream_idle_timeout, Some(self.drain.clone()))
        } else {
            (limits.body_timeout, None)
        };
        let held = Held { slot, connection, pool: self.pool.clone() };
        Response::from_parts(parts, Body::new(AnswerBody::new(incoming, held, patience, drain)))
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// None: the worker can't be reached, and is left alone for a while.
async fn connect(app: &App, worker: &Worker) -> Option<Connection> {
    match timeout(app.limits.connect_timeout, pool::connect(&worker.address)).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err(_)) | Err(_) => {
            app.suspend(worker);
            None
        }
    }
}

async fn send(
    app: &App,
    request: Box<Request<RequestBody>>,
    slot: Slot,
    mut connection: Connection,
) -> Sent {
    let body = request.body().state();
    let again = may_be_repeated(&request, &connection).then(|| copy(&request));
    let answering = Box::pin(connection.sender.try_send_request(*request));
    let mut pending = Pending { exchange: Some(Exchange { answering, slot, connection }) };
    let Ok(answered) = timeout(app.limits.service_timeout, &mut pending).await else {
        return Sent::Failed(Failed::Late);
    };
    let mut error = match answered {
        Ok(answered) => return Sent::Answer(answered),
        Err(error) => error,
    };
    match (body.get(), error.take_message(), again) {
        (BodyState::TooLarge, ..) => Sent::Failed(Failed::TooLarge),
        (BodyState::Broken, ..) => Sent::Failed(Failed::BadBody),
        (_, Some(request), _) => Sent::Again(Box::new(request)),
        (_, None, Some(request)) => Sent::Again(request),
        (_, None, None) => {
            tracing::debug!(app = app.name, error = %error.error(), "no answer");
            Sent::Failed(Failed::Broken)
        }
    }
}

/// Idempotent methods: RFC 9110, section 9.2.2. One with a body is not repeated, for the body is
/// gone.
fn may_be_repeated(request: &Request<RequestBody>, connection: &Connection) -> bool {
    let method = request.method();
    connection.is_reused
        && request.body().is_empty()
        && method.is_idempotent()
        && method != Method::TRACE
}

fn copy(request: &Request<RequestBody>) -> Box<Request<RequestBody>> {
    let mut again = Box::new(Request::new(RequestBody::empty()));
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    again
}

type Answering =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>>>>;

/// A request that a worker has.
struct Exchange {
    answering: Answering,
    slot: Slot,
    connection: Connection,
}

/// A request that a worker has and somebody waits for. If nobody does any more, it goes on alone
/// until the worker answers or hangs up.
struct Pending {
    /// None: answered.
    exchange: Option<Exchange>,
}

impl Future for Pending {
    type Output = Result<Box<Answered>, Box<TrySendError<Request<RequestBody>>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(exchange) = &mut self.exchange else { return Poll::Pending };
        let Poll::Ready(answered) = exchange.answering.as_mut().poll(context) else {
            return Poll::Pending;
        };
        let Some(Exchange { slot, connection, .. }) = self.exchange.take() else {
            return Poll::Pending;
        };
        Poll::Ready(match answered {
            Ok(response) => Ok(Box::new(Answered { response, slot, connection })),
            Err(error) => Err(Box::new(error)),
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(exchange) = self.exchange.take() else { return };
        exchange.slot.app().metrics.failed(Failure::ClientGone);
        drop(spawn_local(async move {
            let Exchange { answering, slot, connection } = exchange;
            // The answer's body is cut off with its connection.
            drop(answering.await);
            drop(connection);
            drop(slot);
        }));
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pending").finish_non_exhaustive()
    }
}
