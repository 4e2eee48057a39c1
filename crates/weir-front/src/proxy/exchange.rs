//! One request, one response.
//!
//! A request goes to another worker if it certainly reached none: the connection was refused, or an
//! idle one had been closed. One that may have been read is repeated only if it is idempotent and
//! came on a connection that had been idle, whose end it may have met: not one that the worker had for
//! longer (`repeat_within`), which may be what the worker died of. One that is not idempotent takes no
//! connection that has been idle for long.
//!
//! A worker that was given a request is busy until it answers, whether or not anybody still waits:
//! a slot that is given away before would send the next request to a worker that is stuck. So an
//! exchange whose client is gone goes on alone ([`RunningExchange`]).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::{Method, Response, StatusCode};
use tokio::task::spawn_local;
use tokio::time::timeout;
use weir_base::clock::Timestamp;
use weir_net::client::ClientRequest;
use weir_net::server::ResponseBody;

use super::deadlines::Deadlines;
use super::head::{self, BodyHead};
use super::relay::{self, Relay, RelayKind};
use super::request_body::RequestBody;
use super::{AcceptedRequest, Proxy, answer, gzip};
use crate::access_log::Timing;
use crate::app::{ProxiedApp, UpstreamSlot, UpstreamWorker};
use crate::dispatch::{QueueError, StreamSlot};
use crate::metrics::RequestFailure;
use crate::upstream::{
    AnswerReader, BadAnswer, Exchange, Framed, UpstreamConnection, UpstreamError, UpstreamResponse,
};

/// Why a request has no worker's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeError {
    Refused(QueueError),
    TooLarge,
    BadBody,
    SlowBody,
    Unreachable,
    Broken,
    /// The worker sent an invalid response.
    Malformed,
    /// The head of its response is longer than it may be.
    AnswerHead,
    Late,
}

impl ExchangeError {
    pub(super) fn metric(self) -> Option<RequestFailure> {
        match self {
            // Counted where it was refused.
            Self::Refused(_) => None,
            Self::TooLarge | Self::BadBody | Self::SlowBody => Some(RequestFailure::BadRequest),
            Self::Unreachable => Some(RequestFailure::Unreachable),
            Self::Broken | Self::Malformed => Some(RequestFailure::Broken),
            Self::AnswerHead => Some(RequestFailure::AnswerHead),
            Self::Late => Some(RequestFailure::Late),
        }
    }
}

impl Proxy {
    /// The response of a worker, or one that says why there is none.
    pub(super) async fn exchange(
        &self,
        app: &Arc<ProxiedApp>,
        prepared: Box<AcceptedRequest>,
    ) -> Response<ResponseBody> {
        let unanswered = Unanswered::new(app);
        let tried = self.try_workers(app, prepared).await;
        unanswered.finish();
        match tried {
            Ok(response) => response,
            Err(failed) => {
                app.metrics.failed_with(failed.metric());
                answer::failed(failed)
            }
        }
    }

    async fn try_workers(
        &self,
        app: &Arc<ProxiedApp>,
        mut prepared: Box<AcceptedRequest>,
    ) -> Result<Response<ResponseBody>, ExchangeError> {
        if !prepared.body.is_whole() {
            // Boxed: most requests have no use for its size.
            Box::pin(prepared.body.read_ahead(app)).await?;
            prepared.since = app.now();
        }
        let (mut may_reuse, arrived) = (true, prepared.since);
        for attempt in 0..app.limits.attempts_max {
            if attempt > 0 {
                // What the worker before had of it is nothing to the next.
                prepared.since = app.now();
            }
            let slot = match app.free_slot(prepared.since) {
                Some(slot) => slot,
                None => {
                    let slot = app.slot(prepared.wish, prepared.since).await?;
                    prepared.since = app.now();
                    slot
                }
            };
            let idle_since = oldest_idle(&prepared);
            let idle = if may_reuse { self.pool.idle(&slot.worker, idle_since) } else { None };
            let connection = match idle {
                Some(connection) => connection,
                None => match Box::pin(connect(app, &slot.worker)).await {
                    Some(connection) => connection,
                    None => continue,
                },
            };
            if let Some(answered) = self.send(app, &mut prepared, slot, connection).await? {
                return Ok(self.respond(app, &prepared, arrived, answered));
            }
            // The others may have ended with that one.
            may_reuse = false;
        }
        Err(ExchangeError::Unreachable)
    }

    /// Counts a worker's response, and passes it on. `arrived`: when the request did.
    fn respond(
        &self,
        app: &ProxiedApp,
        prepared: &AcceptedRequest,
        arrived: Timestamp,
        (answer, exchange, slot): (Box<UpstreamResponse>, Exchange, UpstreamSlot),
    ) -> Response<ResponseBody> {
        let AcceptedRequest { since, gzip, .. } = *prepared;
        let now = app.now();
        let service = now.since(since);
        app.metrics.answered(answer.status, service);
        app.metrics.compared(now.since(arrived), answer.runtime);
        let timing = self.timing(&slot, since.since(arrived), service);
        let client = prepared.client.as_ref();
        let mut response = self.pass_on(answer, exchange, slot, client);
        if let (Some(gzip), Some(asked)) = (&app.limits.gzip, gzip) {
            response = gzip::apply(gzip, asked, response);
        }
        if let Some(timing) = timing {
            response.extensions_mut().insert(timing);
        }
        response
    }

    /// For the access log, if there is one.
    pub(super) fn timing(
        &self,
        slot: &UpstreamSlot,
        queue: Duration,
        service: Duration,
    ) -> Option<Timing> {
        let worker = || slot.worker.address.to_string();
        self.settings.access_log.is_some().then(|| Timing { queue, service, worker: worker() })
    }

    /// Sends the request to one worker. None: it reached no worker, or may be repeated.
    async fn send(
        &self,
        app: &ProxiedApp,
        prepared: &mut AcceptedRequest,
        slot: UpstreamSlot,
        mut connection: Box<UpstreamConnection>,
    ) -> Result<Option<(Box<UpstreamResponse>, Exchange, UpstreamSlot)>, ExchangeError> {
        let AcceptedRequest { method, head, fields, body, .. } = prepared;
        let (framed, length) = body.framed();
        let body_head = match (framed, length) {
            (Framed::Chunked, _) => BodyHead::Chunked,
            (Framed::Length, None | Some(0)) => BodyHead::None,
            (Framed::Length, Some(length)) => BodyHead::Length(length),
        };
        connection.make_room(std::mem::take(fields));
        let mut bytes = connection.take_buffer();
        bytes.extend_from_slice(head);
        head::write_end(&mut bytes, method, body_head);
        body.write(&mut bytes, framed);
        let may_repeat = connection.is_reused && is_repeatable(method, body);
        let since = prepared.since;
        let limits = app.limits.head_limits();
        let method = method.clone();
        let exchange = Exchange::new(connection, method, bytes, body.rest.take(), framed, limits);
        let mut running = RunningExchange::new(exchange, slot);
        match running.answer(app, &self.deadlines).await? {
            // Nobody asked for another protocol.
            Ok(answer) if answer.status == StatusCode::SWITCHING_PROTOCOLS => {
                drop(running.take());
                Err(ExchangeError::Malformed)
            }
            Ok(answer) => Ok(running.take().map(|(exchange, slot)| (answer, exchange, slot))),
            // The worker has it all the same.
            Err(UpstreamError::Body(bad)) => {
                running.go_on_alone();
                Err(bad.into())
            }
            Err(UpstreamError::Unsent) => {
                body.rest = running.take().and_then(|(exchange, _)| exchange.into_body());
                Ok(None)
            }
            Err(UpstreamError::Ended) => {
                drop(running.take());
                let is_at_once = app.now().since(since) < app.limits.repeat_within;
                if may_repeat && is_at_once { Ok(None) } else { Err(ExchangeError::Broken) }
            }
            Err(UpstreamError::Bad(bad)) => {
                drop(running.take());
                tracing::warn!(app = app.name, error = %bad, "a worker's answer can't be passed on");
                Err(match bad {
                    BadAnswer::TooLong | BadAnswer::TooManyFields => ExchangeError::AnswerHead,
                    BadAnswer::Syntax | BadAnswer::Length | BadAnswer::Chunks(_) => {
                        ExchangeError::Malformed
                    }
                })
            }
        }
    }

    pub(super) fn pass_on(
        &self,
        mut answer: Box<UpstreamResponse>,
        exchange: Exchange,
        slot: UpstreamSlot,
        client: Option<&ClientRequest>,
    ) -> Response<ResponseBody> {
        let mut reader = exchange.into_reader(&mut answer);
        let body = match reader.take_whole() {
            Some(whole) => {
                relay::let_go(reader, &slot, &self.pool);
                ResponseBody::from(whole)
            }
            None if answer.is_event_stream => match slot.open_stream(client) {
                Ok(stream) => self.relay_stream(reader, slot, stream),
                Err(refusal) => {
                    relay::hang_up(reader, slot);
                    return answer::failed(ExchangeError::Refused(refusal));
                }
            },
            None => {
                let patience = slot.app().limits.body_timeout;
                Relay { reader, slot, pool: self.pool.clone(), patience, kind: RelayKind::Answer }
                    .start()
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }

    /// Events that are still to come.
    fn relay_stream(
        &self,
        reader: AnswerReader,
        slot: UpstreamSlot,
        stream: StreamSlot,
    ) -> ResponseBody {
        let has_own_slot = stream == StreamSlot::Own;
        let kind = RelayKind::Stream { drain: self.drain.clone(), has_own_slot };
        let patience = slot.app().limits.stream_idle_timeout;
        Relay { reader, slot, pool: self.pool.clone(), patience, kind }.start()
    }
}

/// None: the worker can't be reached, and is left alone for a while.
pub(super) async fn connect(
    app: &ProxiedApp,
    worker: &UpstreamWorker,
) -> Option<Box<UpstreamConnection>> {
    match timeout(app.limits.connect_timeout, UpstreamConnection::open(&worker.address)).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err(_)) | Err(_) => {
            app.suspend(worker);
            None
        }
    }
}

/// Workers close connections that have been idle for some seconds (gunicorn after 2, uvicorn and node
/// after 5), and a request that meets that moment is lost unless it can be repeated. One that can't be
/// goes over a connection that no worker closes yet.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Since when a connection may have been idle that is to take this request.
fn oldest_idle(prepared: &AcceptedRequest) -> Timestamp {
    let AcceptedRequest { method, body, since, .. } = prepared;
    if is_repeatable(method, body) { Timestamp::from_micros(0) } else { *since - FRESH_FOR }
}

/// Idempotent methods: RFC 9110, section 9.2.2. One whose body is gone can't be repeated.
fn is_repeatable(method: &Method, body: &RequestBody) -> bool {
    body.is_whole() && method.is_idempotent() && method != Method::TRACE
}

/// A request at a worker, with a client that waits. If the client disconnects, it continues alone
/// until the worker has responded or closes the connection.
pub(super) struct RunningExchange {
    /// None: it is over.
    exchange: Option<(Exchange, UpstreamSlot)>,
}

impl RunningExchange {
    pub(super) fn new(exchange: Exchange, slot: UpstreamSlot) -> Self {
        Self { exchange: Some((exchange, slot)) }
    }

    /// What it was made of, after a response or the end of the connection.
    pub(super) fn take(&mut self) -> Option<(Exchange, UpstreamSlot)> {
        self.exchange.take()
    }

    /// The head of the response, unless the worker or the client is too slow.
    pub(super) async fn answer(
        &mut self,
        app: &ProxiedApp,
        deadlines: &Deadlines,
    ) -> Result<Result<Box<UpstreamResponse>, UpstreamError>, ExchangeError> {
        let patience = app.limits.service_timeout;
        let Some((exchange, slot)) = &mut self.exchange else { return Err(ExchangeError::Broken) };
        let mut turn = UploadFairness::new(exchange.sent());
        loop {
            let (sent, was_uploading) = (exchange.sent(), exchange.is_uploading());
            let answer = poll_fn(|context| {
                let answer = exchange.poll_answer(context);
                if answer.is_pending() && (turn.is_clients || exchange.is_sending()) {
                    turn.note(exchange.sent(), exchange.waits_for_client(), slot);
                }
                match answer {
                    // From the end of an upload on the worker has all of its time.
                    Poll::Pending if was_uploading && !exchange.is_uploading() => Poll::Ready(None),
                    answer => answer.map(Some),
                }
            });
            match deadlines.within(patience, answer).await {
                Ok(Some(answer)) => return Ok(answer),
                // A long body may take its time while it moves.
                Err(_) if exchange.sent() == sent || !exchange.is_sending() => break,
                Ok(None) | Err(_) => {}
            }
        }
        let is_clients_fault = exchange.waits_for_client();
        self.go_on_alone();
        Err(if is_clients_fault { ExchangeError::SlowBody } else { ExchangeError::Late })
    }

    fn go_on_alone(&mut self) {
        let Some((mut exchange, slot)) = self.exchange.take() else { return };
        slot.owes_still();
        drop(spawn_local(async move {
            match exchange.outlive_client().await {
                // Its worker reads that the client has gone.
                Some(answer) if answer.status == StatusCode::SWITCHING_PROTOCOLS => {}
                Some(mut answer) => {
                    let mut reader = exchange.into_reader(&mut answer);
                    if !answer.is_event_stream {
                        let bytes_max = slot.app().limits.answer_buffer_bytes;
                        reader.discard(bytes_max).await;
                    } else if slot.make_stream() != Some(StreamSlot::Own) {
                        relay::outlive_listener(&mut reader, &slot).await;
                    }
                }
                None => {}
            }
            drop(slot);
        }));
    }
}

/// Whose turn it is while a body is on its way to a worker.
pub(super) struct UploadFairness {
    sent: u64,
    is_clients: bool,
}

impl UploadFairness {
    /// The worker's. `sent`: bytes that have left.
    pub(super) fn new(sent: u64) -> Self {
        Self { sent, is_clients: false }
    }

    pub(super) fn is_clients(&self) -> bool {
        self.is_clients
    }

    /// A worker that takes some of the body is not stuck, nor is one that waits for more of it.
    pub(super) fn note(&mut self, sent: u64, is_clients: bool, slot: &UpstreamSlot) {
        if is_clients && !self.is_clients {
            slot.waits_for_client();
        } else if !is_clients && (self.is_clients || self.sent != sent) {
            slot.owes();
        }
        *self = Self { sent, is_clients };
    }
}

impl Drop for RunningExchange {
    fn drop(&mut self) {
        self.go_on_alone();
    }
}

/// A request without a response; counted if its client goes before that is over.
pub(super) struct Unanswered<'a>(Option<&'a ProxiedApp>);

impl<'a> Unanswered<'a> {
    pub(super) const fn new(app: &'a ProxiedApp) -> Self {
        Self(Some(app))
    }

    /// It has a response, if only Weir's own.
    pub(super) fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(app) = self.0 {
            app.metrics.failed(RequestFailure::ClientGone);
        }
    }
}
