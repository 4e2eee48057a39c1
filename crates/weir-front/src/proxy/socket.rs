//! Upgrades: joins the sockets of client and worker, for WebSockets and other protocols.
//!
//! The worker's response is read as HTTP, and the sockets are joined only after a 101. Any other
//! response is relayed as usual, and the client's connection is closed after it.

mod frames;
mod join;
mod wire;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body as _;
use hyper::header::{HeaderName, HeaderValue, UPGRADE};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use tokio::io::AsyncWriteExt;
use tokio::task::spawn_local;
use weir_net::client::ClientRequest;
use weir_net::server::{ConnectionStream, HttpRequestHead, RejectedUpgrade, ResponseBody, Upgrade};

use self::join::Protocol;
use super::exchange::{ResponseGuard, RunningExchange, connect};
use super::exchange_error::ExchangeError;
use super::head::{self, BodyHead, Target};
use super::{Proxy, own_response};
use crate::access_log::{PendingLogEntry, Timing};
use crate::app::{ProxiedApp, UpstreamSlot};
use crate::dispatch::RequestClass;
use crate::drain::Drain;
use crate::upstream::{Exchange, Framed, UpstreamConnection, UpstreamError, UpstreamResponse};

/// How many bytes are read from a client before the worker has agreed. More wait in the kernel.
const EARLY_BYTES_MAX: usize = 16 << 10;
/// How long a client may leave a response unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes over the connection, or rejects it.
pub(super) fn start(proxy: &Rc<Proxy>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
    let Some(parts) = parts_of(upgrade.head) else {
        return Err(upgrade.reject(StatusCode::BAD_REQUEST, "the request's head is malformed"));
    };
    let target = match Target::new(&parts) {
        Ok(target) => target,
        Err(error) => return Err(upgrade.reject(error.status, error.text)),
    };
    let Some(app) = proxy.apps.find(target.host(), parts.uri.path()) else {
        return Err(upgrade.reject(StatusCode::NOT_FOUND, own_response::NO_APP));
    };
    let (app, method) = (Arc::clone(app), parts.method.clone());
    let origin = proxy.settings.trusted_proxies.origin(upgrade.peer, &parts.headers);
    let forwarded = proxy.forwarded(&app, origin, &parts.headers, &target, app.now());
    let entry = proxy.entry(&parts, upgrade.peer).map(|mut entry| {
        entry.set_app(&app.name, forwarded.id());
        entry
    });
    let class = match super::classify(&app, &parts, origin) {
        Ok(class) => class,
        Err(rejection) => {
            let client = EarlyClient { stream: upgrade.stream, bytes: Vec::new() };
            let response = log_when_done(entry, *rejection);
            drop(spawn_local(async move {
                log_end(&app, send_response(client, response, &method).await)
            }));
            return Ok(());
        }
    };
    let protocol = parts.headers.get(UPGRADE).map_or(BodyHead::None, BodyHead::Upgrade);
    let head = head::write(&parts, &target, &forwarded, protocol);
    let Upgrade { stream, rest, client: counted_client, .. } = upgrade;
    let client = EarlyClient { stream, bytes: rest.to_vec() };
    let request = UpgradeRequest { method, head, entry, counted_client };
    drop(spawn_local(serve_upgrade(Rc::clone(proxy), app, client, class, request)));
    Ok(())
}

fn log_when_done(
    entry: Option<Box<PendingLogEntry>>,
    response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    match entry {
        Some(entry) => entry.log_when_done(response),
        None => response,
    }
}

/// Converts the head for hyper. Returns None if hyper's types cannot represent it.
pub(super) fn parts_of(head: &HttpRequestHead<'_>) -> Option<request::Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(head.method.as_bytes()).ok()?;
    parts.uri = head.target.parse::<Uri>().ok()?;
    if let Some(raw) = head.raw_target {
        parts.extensions.insert(raw.clone());
    }
    parts.version = if head.version == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    for header in head.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        parts.headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(parts)
}

/// The request to the worker.
struct UpgradeRequest {
    method: Method,
    head: Vec<u8>,
    /// The entry in the access log.
    entry: Option<Box<PendingLogEntry>>,
    /// None: no particular client.
    counted_client: Option<ClientRequest>,
}

/// The client's socket before the worker has agreed.
struct EarlyClient {
    stream: ConnectionStream,
    /// The bytes that the client has sent behind its head.
    bytes: Vec<u8>,
}

impl EarlyClient {
    /// Resolves when the client has disconnected.
    async fn disconnected(&mut self) {
        let mut chunk = [0; 1024];
        while self.bytes.len() < EARLY_BYTES_MAX {
            match poll_fn(|context| self.stream.poll_read(context, &mut chunk)).await {
                Ok(count @ 1..) => self.bytes.extend_from_slice(&chunk[..count]),
                Ok(0) | Err(_) => return,
            }
        }
        std::future::pending().await
    }

    /// Waits for `future`. Returns None if the client disconnects first.
    async fn unless_disconnected<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            output = future => Some(output),
            () = self.disconnected() => None,
        }
    }
}

async fn serve_upgrade(
    proxy: Rc<Proxy>,
    app: Arc<ProxiedApp>,
    mut client: EarlyClient,
    class: RequestClass,
    mut request: UpgradeRequest,
) {
    let (entry, method, counted_client) =
        (request.entry.take(), request.method.clone(), request.counted_client.take());
    let guard = ResponseGuard::new(&app);
    let Some(outcome) =
        client.unless_disconnected(request_upgrade(&proxy, &app, class, request)).await
    else {
        return;
    };
    guard.finish();
    let response = match outcome {
        Ok(switched) if switched.response.status == StatusCode::SWITCHING_PROTOCOLS => {
            if let Err(error) = switched.slot.open_stream(counted_client.as_ref()) {
                drop(switched);
                let response =
                    log_when_done(entry, own_response::failed(ExchangeError::Refused(error)));
                return log_end(&app, send_response(client, response, &method).await);
            }
            if let Some(mut entry) = entry {
                switched.timing.into_iter().for_each(|timing| entry.set_timing(timing));
                entry.finish_upgrade(switched.response.status);
            }
            let connection = switched.exchange.into_connection();
            let drain = proxy.drain.clone();
            let joined =
                switch_protocols(&app, client, switched.response, connection, switched.slot, drain)
                    .await;
            return log_end(&app, joined);
        }
        Ok(UpgradeExchange { response, exchange, slot, timing }) => {
            let mut response =
                proxy.relay_response(response, exchange, slot, counted_client.as_ref());
            timing.into_iter().for_each(|timing| drop(response.extensions_mut().insert(timing)));
            response
        }
        Err(failed) => {
            app.metrics.failed_with(failed.metric());
            own_response::failed(failed)
        }
    };
    log_end(&app, send_response(client, log_when_done(entry, response), &method).await);
}

/// Relays a response other than 101, after which the connection is closed. If the body breaks off,
/// the last chunk is missing.
async fn send_response(
    mut client: EarlyClient,
    response: Response<ResponseBody>,
    method: &Method,
) -> io::Result<()> {
    let (mut parts, mut body) = response.into_parts();
    let framed = wire::frame(&mut parts, &body, method);
    let head = wire::head_bytes(parts.status, &parts.headers);
    wire::write(&mut client.stream, &head, WRITE_TIMEOUT).await?;
    let mut bytes = Vec::new();
    loop {
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(next) = client.unless_disconnected(next).await else { return Ok(()) };
        let Some(frame) = next else { break };
        if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
            bytes.clear();
            framed.write(&mut bytes, &data);
            wire::write(&mut client.stream, &bytes, WRITE_TIMEOUT).await?;
        }
    }
    bytes.clear();
    framed.write_end(&mut bytes);
    wire::write(&mut client.stream, &bytes, WRITE_TIMEOUT).await?;
    AsyncWriteExt::shutdown(&mut client.stream).await
}

fn log_end(app: &ProxiedApp, ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(app = app.name, %error, "a socket ended");
    }
}

/// A worker's response, the exchange with its body, and the slot.
struct UpgradeExchange {
    response: Box<UpstreamResponse>,
    exchange: Exchange,
    slot: UpstreamSlot,
    timing: Option<Timing>,
}

async fn request_upgrade(
    proxy: &Proxy,
    app: &Arc<ProxiedApp>,
    class: RequestClass,
    request: UpgradeRequest,
) -> Result<UpgradeExchange, ExchangeError> {
    let UpgradeRequest { method, head, .. } = request;
    let arrived = app.now();
    for _ in 0..app.limits.attempts_max {
        let slot = app.slot_for_stream(class).await?;
        let Some(connection) = connect(app, &slot.worker).await else { continue };
        let since = app.now();
        let (bytes, limits) = (head.clone(), app.limits.head_limits());
        let exchange =
            Exchange::new(connection, method.clone(), bytes, None, Framed::Length, limits);
        let mut running = RunningExchange::new(exchange, slot);
        let outcome = running.await_response_head(app, &proxy.deadlines).await?;
        match (outcome, running.take()) {
            (Ok(response), Some((exchange, slot))) => {
                let service = app.now().since(since);
                app.metrics.responded(response.status, service);
                let timing = proxy.timing(&slot, since.since(arrived), service, false);
                return Ok(UpgradeExchange { response, exchange, slot, timing });
            }
            (Err(UpstreamError::Unsent), _) => {}
            (Ok(_) | Err(_), _) => return Err(ExchangeError::Broken),
        }
    }
    Err(ExchangeError::Unreachable)
}

/// Returns the protocol that the worker has agreed to.
fn protocol(response: &UpstreamResponse) -> Protocol {
    let upgrade = response.headers.get(UPGRADE).map(HeaderValue::as_bytes);
    match upgrade {
        Some(name) if name.eq_ignore_ascii_case(b"websocket") => Protocol::WebSocket,
        _ => Protocol::Other,
    }
}

/// Joins the two sockets until one side ends, both are idle for too long, or Weir shuts down.
async fn switch_protocols(
    app: &ProxiedApp,
    mut client: EarlyClient,
    response: Box<UpstreamResponse>,
    worker: Box<UpstreamConnection>,
    slot: UpstreamSlot,
    drain: Drain,
) -> io::Result<()> {
    let head = wire::head_bytes(response.status, &response.headers);
    wire::write(&mut client.stream, &head, WRITE_TIMEOUT).await?;
    wire::write(&mut client.stream, &response.rest, WRITE_TIMEOUT).await?;
    let idle_timeout = app.limits.stream_idle_timeout;
    let protocol = protocol(&response);
    let end = (protocol, drain.wait_random_time());
    let ended = join::run(client.stream, &client.bytes, worker.socket, idle_timeout, end).await;
    drop(slot);
    ended
}
