//! The exchange of one request for one response.
//!
//! A request is sent to another worker if it certainly reached none: the connection was refused, or
//! an idle connection had been closed. If a worker may have read the request, it is repeated only
//! if it is idempotent and its idle connection ended soon after (`repeat_within`), as when a worker
//! closes an idle connection. After a longer time, the request itself may have crashed the worker.
//! Requests that are not idempotent use no connection that has been idle for long.
//!
//! A worker is busy until it responds, whether or not the client still waits: if its slot were
//! released before, the next request would go to a stuck worker. So an exchange continues without
//! its client ([`RunningExchange`]).

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
use super::exchange_error::ExchangeError;
use super::head::{self, BodyHead};
use super::relay::{self, Relay, RelayKind};
use super::request_body::RequestBody;
use super::{AcceptedRequest, Proxy, gzip, own_response};
use crate::access_log::Timing;
use crate::app::{ProxiedApp, UpstreamSlot, UpstreamWorker};
use crate::dispatch::StreamSlot;
use crate::metrics::RequestFailure;
use crate::upstream::{
    Exchange, Framed, ResponseReader, UpstreamConnection, UpstreamError, UpstreamResponse,
    UpstreamResponseError,
};

impl Proxy {
    /// Returns a worker's response, or one that says why there is none.
    pub(super) async fn exchange(
        &self,
        app: &Arc<ProxiedApp>,
        prepared: Box<AcceptedRequest>,
    ) -> Response<ResponseBody> {
        let guard = ResponseGuard::new(app);
        let tried = self.try_workers(app, prepared).await;
        guard.finish();
        match tried {
            Ok(response) => response,
            Err(failed) => {
                app.metrics.failed_with(failed.metric());
                own_response::failed(failed)
            }
        }
    }

    async fn try_workers(
        &self,
        app: &Arc<ProxiedApp>,
        mut prepared: Box<AcceptedRequest>,
    ) -> Result<Response<ResponseBody>, ExchangeError> {
        if !prepared.body.is_whole() {
            // Boxed, so that the futures of the many requests without a body stay small.
            Box::pin(prepared.body.read_ahead(app)).await?;
            prepared.since = app.now();
        }
        let (mut may_reuse, arrived) = (true, prepared.since);
        for attempt in 0..app.limits.attempts_max {
            if attempt > 0 {
                // Time spent on the previous worker does not count for the next.
                prepared.since = app.now();
            }
            let slot = match app.free_slot(prepared.since) {
                Some(slot) => slot,
                None => {
                    let slot = app.slot(prepared.class, prepared.since).await?;
                    prepared.since = app.now();
                    slot
                }
            };
            let idle_since = oldest_idle(&prepared);
            let idle = if may_reuse { self.pool.take_idle(&slot.worker, idle_since) } else { None };
            let connection = match idle {
                Some(connection) => connection,
                None => match Box::pin(connect(app, &slot.worker)).await {
                    Some(connection) => connection,
                    None => continue,
                },
            };
            if let Some(exchanged) = self.send(app, &mut prepared, slot, connection).await? {
                return Ok(self.respond(app, &prepared, arrived, exchanged));
            }
            // The worker's other idle connections may have been closed at the same time.
            may_reuse = false;
        }
        Err(ExchangeError::Unreachable)
    }

    /// Counts a worker's response and relays it. `arrived`: when the request arrived.
    fn respond(
        &self,
        app: &ProxiedApp,
        prepared: &AcceptedRequest,
        arrived: Timestamp,
        (worker_response, exchange, slot): (Box<UpstreamResponse>, Exchange, UpstreamSlot),
    ) -> Response<ResponseBody> {
        let AcceptedRequest { since, gzip, is_traced, .. } = *prepared;
        let now = app.now();
        let service = now.since(since);
        app.metrics.responded(worker_response.status, service);
        app.metrics.record_durations(now.since(arrived), worker_response.runtime);
        let timing = self.timing(&slot, since.since(arrived), service, is_traced);
        let client = prepared.client.as_ref();
        let mut response = self.relay_response(worker_response, exchange, slot, client);
        if let (Some(gzip), Some(gzip_request)) = (&app.limits.gzip, gzip) {
            response = gzip::apply(gzip, gzip_request, response);
        }
        if let Some(timing) = timing {
            response.extensions_mut().insert(timing);
        }
        response
    }

    /// Returns the timing for the access log and the span, if there is one of them.
    pub(super) fn timing(
        &self,
        slot: &UpstreamSlot,
        queue: Duration,
        service: Duration,
        is_traced: bool,
    ) -> Option<Timing> {
        let worker = || slot.worker.address.to_string();
        let is_needed = is_traced || self.settings.access_log.is_some();
        is_needed.then(|| Timing { queue, service, worker: worker() })
    }

    /// Sends the request to one worker. Returns None if the request may be sent again.
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
        connection.reuse_fields(std::mem::take(fields));
        let mut bytes = connection.take_buffer();
        bytes.extend_from_slice(head);
        head::write_end(&mut bytes, method, body_head);
        body.write(&mut bytes, framed);
        let may_repeat = connection.is_reused && is_repeatable(method, body);
        let since = prepared.since;
        let limits = app.limits.head_limits();
        let method = method.clone();
        let exchange =
            Exchange::new(connection, method, bytes, body.remaining.take(), framed, limits);
        let mut running = RunningExchange::new(exchange, slot);
        match running.await_response_head(app, &self.deadlines).await? {
            // The request asked for no other protocol.
            Ok(response) if response.status == StatusCode::SWITCHING_PROTOCOLS => {
                drop(running.take());
                Err(ExchangeError::Malformed)
            }
            Ok(response) => Ok(running.take().map(|(exchange, slot)| (response, exchange, slot))),
            // The worker has a part of the request, and keeps its slot until it responds.
            Err(UpstreamError::Body(error)) => {
                running.finish_without_client();
                Err(error.into())
            }
            Err(UpstreamError::Unsent) => {
                body.remaining = running.take().and_then(|(exchange, _)| exchange.into_body());
                Ok(None)
            }
            Err(UpstreamError::Ended) => {
                drop(running.take());
                let is_at_once = app.now().since(since) < app.limits.repeat_within;
                if may_repeat && is_at_once { Ok(None) } else { Err(ExchangeError::Broken) }
            }
            Err(UpstreamError::Bad(error)) => {
                drop(running.take());
                tracing::warn!(app = app.name, error = %error, "a worker's answer can't be passed on");
                Err(match error {
                    UpstreamResponseError::TooLong | UpstreamResponseError::TooManyFields => {
                        ExchangeError::ResponseHead
                    }
                    UpstreamResponseError::Syntax
                    | UpstreamResponseError::Length
                    | UpstreamResponseError::Chunks(_) => ExchangeError::Malformed,
                })
            }
        }
    }

    pub(super) fn relay_response(
        &self,
        mut worker_response: Box<UpstreamResponse>,
        exchange: Exchange,
        slot: UpstreamSlot,
        client: Option<&ClientRequest>,
    ) -> Response<ResponseBody> {
        let mut reader = exchange.into_reader(&mut worker_response);
        let body = match reader.take_whole() {
            Some(body) => {
                relay::return_connection(reader, &slot, &self.pool);
                ResponseBody::from(body)
            }
            None if worker_response.is_event_stream => match slot.open_stream(client) {
                Ok(stream) => self.relay_stream(reader, slot, stream),
                Err(error) => {
                    relay::end_rejected_stream(reader, slot);
                    return own_response::failed(ExchangeError::Refused(error));
                }
            },
            None => {
                let idle_timeout = slot.app().limits.body_timeout;
                Relay {
                    reader,
                    slot,
                    pool: self.pool.clone(),
                    idle_timeout,
                    kind: RelayKind::Response,
                }
                .start()
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = worker_response.status;
        *response.headers_mut() = worker_response.headers;
        response
    }

    /// Creates the body that relays an event stream.
    fn relay_stream(
        &self,
        reader: ResponseReader,
        slot: UpstreamSlot,
        stream: StreamSlot,
    ) -> ResponseBody {
        let has_own_slot = stream == StreamSlot::Own;
        let kind = RelayKind::Stream { drain: self.drain.clone(), has_own_slot };
        let idle_timeout = slot.app().limits.stream_idle_timeout;
        Relay { reader, slot, pool: self.pool.clone(), idle_timeout, kind }.start()
    }
}

/// Opens a connection. Returns None, and suspends the worker, if it cannot be reached.
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

/// How long an idle connection is safe for a request that cannot be repeated. Workers close
/// connections that have been idle for some seconds (gunicorn after 2, uvicorn and node after 5),
/// and a request sent in that moment is lost.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Returns since when a connection may have been idle to be used for this request.
fn oldest_idle(prepared: &AcceptedRequest) -> Timestamp {
    let AcceptedRequest { method, body, since, .. } = prepared;
    if is_repeatable(method, body) { Timestamp::from_micros(0) } else { *since - FRESH_FOR }
}

/// Returns whether a request may be repeated: its method is idempotent (RFC 9110, section 9.2.2)
/// and its whole body is buffered.
fn is_repeatable(method: &Method, body: &RequestBody) -> bool {
    body.is_whole() && method.is_idempotent() && method != Method::TRACE
}

/// A request that was sent to a worker for a waiting client. On drop, it continues without the
/// client until the worker has responded or closes the connection.
pub(super) struct RunningExchange {
    /// None: taken out.
    exchange: Option<(Exchange, UpstreamSlot)>,
}

impl RunningExchange {
    pub(super) fn new(exchange: Exchange, slot: UpstreamSlot) -> Self {
        Self { exchange: Some((exchange, slot)) }
    }

    /// Takes out the exchange and its slot, after a response or the end of the connection.
    pub(super) fn take(&mut self) -> Option<(Exchange, UpstreamSlot)> {
        self.exchange.take()
    }

    /// Waits for the head of the response. Fails if the worker or the client is too slow.
    pub(super) async fn await_response_head(
        &mut self,
        app: &ProxiedApp,
        deadlines: &Deadlines,
    ) -> Result<Result<Box<UpstreamResponse>, UpstreamError>, ExchangeError> {
        let time_limit = app.limits.service_timeout;
        let Some((exchange, slot)) = &mut self.exchange else { return Err(ExchangeError::Broken) };
        let mut upload = UploadFairness::new(exchange.sent());
        loop {
            let (sent, was_uploading) = (exchange.sent(), exchange.is_uploading());
            let response = poll_fn(|context| {
                let response = exchange.poll_response(context);
                if response.is_pending() && (upload.is_clients_turn || exchange.is_sending()) {
                    upload.update(exchange.sent(), exchange.waits_for_client(), slot);
                }
                match response {
                    // Restarts the time limit: the worker has all of it from the end of the upload.
                    Poll::Pending if was_uploading && !exchange.is_uploading() => Poll::Ready(None),
                    response => response.map(Some),
                }
            });
            match deadlines.within(time_limit, response).await {
                Ok(Some(response)) => return Ok(response),
                // A long upload may exceed the limit while bytes move.
                Err(_) if exchange.sent() == sent || !exchange.is_sending() => break,
                Ok(None) | Err(_) => {}
            }
        }
        let is_clients_fault = exchange.waits_for_client();
        self.finish_without_client();
        Err(if is_clients_fault { ExchangeError::SlowBody } else { ExchangeError::Late })
    }

    fn finish_without_client(&mut self) {
        let Some((mut exchange, slot)) = self.exchange.take() else { return };
        slot.ensure_response_timer();
        drop(spawn_local(async move {
            match exchange.wait_without_client().await {
                // Closes the connection, from which the worker sees that the client has gone.
                Some(response) if response.status == StatusCode::SWITCHING_PROTOCOLS => {}
                Some(mut response) => {
                    let mut reader = exchange.into_reader(&mut response);
                    if !response.is_event_stream {
                        let bytes_max = slot.app().limits.answer_buffer_bytes;
                        reader.discard(bytes_max).await;
                    } else if slot.make_stream() != Some(StreamSlot::Own) {
                        relay::wait_for_worker_to_notice(&mut reader, &slot).await;
                    }
                }
                None => {}
            }
            drop(slot);
        }));
    }
}

/// Tracks during an upload whether the worker or the client is awaited.
pub(super) struct UploadFairness {
    sent: u64,
    is_clients_turn: bool,
}

impl UploadFairness {
    /// Creates it for an awaited worker. `sent`: the bytes sent so far.
    pub(super) fn new(sent: u64) -> Self {
        Self { sent, is_clients_turn: false }
    }

    pub(super) fn is_clients_turn(&self) -> bool {
        self.is_clients_turn
    }

    /// Updates the state. A worker that reads a part of the body is not stuck, nor is one that
    /// waits for more of it.
    pub(super) fn update(&mut self, sent: u64, is_clients_turn: bool, slot: &UpstreamSlot) {
        if is_clients_turn && !self.is_clients_turn {
            slot.stop_response_timer();
        } else if !is_clients_turn && (self.is_clients_turn || self.sent != sent) {
            slot.start_response_timer();
        }
        *self = Self { sent, is_clients_turn };
    }
}

impl Drop for RunningExchange {
    fn drop(&mut self) {
        self.finish_without_client();
    }
}

/// Counts a disconnected client if it is dropped before [`Unanswered::finish`].
pub(super) struct ResponseGuard<'a>(Option<&'a ProxiedApp>);

impl<'a> ResponseGuard<'a> {
    pub(super) const fn new(app: &'a ProxiedApp) -> Self {
        Self(Some(app))
    }

    /// Notes that the request has a response, from a worker or from Weir.
    pub(super) fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for ResponseGuard<'_> {
    fn drop(&mut self) {
        if let Some(app) = self.0 {
            app.metrics.failed(RequestFailure::ClientGone);
        }
    }
}
