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
use super::exchange::{ExchangeError, RunningExchange, Unanswered, connect};
use super::head::{self, BodyHead, Target};
use super::{Proxy, answer};
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
        return Err(upgrade.refuse(StatusCode::BAD_REQUEST, "the request's head is malformed"));
    };
    let target = match Target::of(&parts) {
        Ok(target) => target,
        Err(refusal) => return Err(upgrade.refuse(refusal.status, refusal.text)),
    };
    let Some(app) = proxy.apps.find(target.host(), parts.uri.path()) else {
        return Err(upgrade.refuse(StatusCode::NOT_FOUND, answer::NO_APP));
    };
    let (app, method) = (Arc::clone(app), parts.method.clone());
    let origin = proxy.settings.trusted_proxies.origin(upgrade.peer, &parts.headers);
    let forwarded = proxy.forwarded(&app, origin, &parts.headers, &target, app.now());
    let entry = proxy.entry(&parts, upgrade.peer).map(|mut entry| {
        entry.for_app(&app.name, forwarded.id());
        entry
    });
    let wish = match super::wish(&app, &parts, origin) {
        Ok(wish) => wish,
        Err(refused) => {
            let client = Early { stream: upgrade.stream, bytes: Vec::new() };
            let answer = follow(entry, *refused);
            drop(spawn_local(async move { note(&app, pass_on(client, answer, &method).await) }));
            return Ok(());
        }
    };
    let protocol = parts.headers.get(UPGRADE).map_or(BodyHead::None, BodyHead::Upgrade);
    let head = head::write(&parts, &target, &forwarded, protocol);
    let Upgrade { stream, rest, client: whose, .. } = upgrade;
    let client = Early { stream, bytes: rest.to_vec() };
    let request = UpgradeRequest { method, head, entry, whose };
    drop(spawn_local(serve(Rc::clone(proxy), app, client, wish, request)));
    Ok(())
}

fn follow(
    entry: Option<Box<PendingLogEntry>>,
    answer: Response<ResponseBody>,
) -> Response<ResponseBody> {
    match entry {
        Some(entry) => entry.follow(answer),
        None => answer,
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
    whose: Option<ClientRequest>,
}

/// The client's socket before the worker has agreed.
struct Early {
    stream: ConnectionStream,
    /// The bytes that the client has sent behind its head.
    bytes: Vec<u8>,
}

impl Early {
    /// Resolves when the client has disconnected.
    async fn gone(&mut self) {
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
    async fn during<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = future => Some(done),
            () = self.gone() => None,
        }
    }
}

async fn serve(
    proxy: Rc<Proxy>,
    app: Arc<ProxiedApp>,
    mut client: Early,
    wish: RequestClass,
    mut request: UpgradeRequest,
) {
    let (entry, method, whose) =
        (request.entry.take(), request.method.clone(), request.whose.take());
    let unanswered = Unanswered::new(&app);
    let Some(asked) = client.during(ask(&proxy, &app, wish, request)).await else { return };
    unanswered.finish();
    let answer = match asked {
        Ok(agreed) if agreed.answer.status == StatusCode::SWITCHING_PROTOCOLS => {
            if let Err(refusal) = agreed.slot.open_stream(whose.as_ref()) {
                drop(agreed);
                let answer = follow(entry, answer::failed(ExchangeError::Refused(refusal)));
                return note(&app, pass_on(client, answer, &method).await);
            }
            if let Some(mut entry) = entry {
                agreed.timing.into_iter().for_each(|timing| entry.timed(timing));
                entry.answered(agreed.answer.status);
            }
            let connection = agreed.exchange.into_connection();
            let drain = proxy.drain.clone();
            let joined = agree(&app, client, agreed.answer, connection, agreed.slot, drain).await;
            return note(&app, joined);
        }
        Ok(UpgradeExchange { answer, exchange, slot, timing }) => {
            let mut response = proxy.pass_on(answer, exchange, slot, whose.as_ref());
            timing.into_iter().for_each(|timing| drop(response.extensions_mut().insert(timing)));
            response
        }
        Err(failed) => {
            app.metrics.failed_with(failed.metric());
            answer::failed(failed)
        }
    };
    note(&app, pass_on(client, follow(entry, answer), &method).await);
}

/// Relays a response other than 101, after which the connection is closed. If the body breaks off,
/// the last chunk is missing.
async fn pass_on(
    mut client: Early,
    answer: Response<ResponseBody>,
    method: &Method,
) -> io::Result<()> {
    let (mut parts, mut body) = answer.into_parts();
    let framed = wire::frame(&mut parts, &body, method);
    let head = wire::head_bytes(parts.status, &parts.headers);
    wire::write(&mut client.stream, &head, WRITE_TIMEOUT).await?;
    let mut bytes = Vec::new();
    loop {
        let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(next) = client.during(next).await else { return Ok(()) };
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

fn note(app: &ProxiedApp, ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(app = app.name, %error, "a socket ended");
    }
}

/// A worker's response, the exchange with its body, and the slot.
struct UpgradeExchange {
    answer: Box<UpstreamResponse>,
    exchange: Exchange,
    slot: UpstreamSlot,
    timing: Option<Timing>,
}

async fn ask(
    proxy: &Proxy,
    app: &Arc<ProxiedApp>,
    wish: RequestClass,
    request: UpgradeRequest,
) -> Result<UpgradeExchange, ExchangeError> {
    let UpgradeRequest { method, head, .. } = request;
    let arrived = app.now();
    for _ in 0..app.limits.attempts_max {
        let slot = app.slot_for_stream(wish).await?;
        let Some(connection) = connect(app, &slot.worker).await else { continue };
        let since = app.now();
        let (bytes, limits) = (head.clone(), app.limits.head_limits());
        let exchange =
            Exchange::new(connection, method.clone(), bytes, None, Framed::Length, limits);
        let mut running = RunningExchange::new(exchange, slot);
        let asked = running.answer(app, &proxy.deadlines).await?;
        match (asked, running.take()) {
            (Ok(answer), Some((exchange, slot))) => {
                let service = app.now().since(since);
                app.metrics.answered(answer.status, service);
                let timing = proxy.timing(&slot, since.since(arrived), service);
                return Ok(UpgradeExchange { answer, exchange, slot, timing });
            }
            (Err(UpstreamError::Unsent), _) => {}
            (Ok(_) | Err(_), _) => return Err(ExchangeError::Broken),
        }
    }
    Err(ExchangeError::Unreachable)
}

/// Returns the protocol that the worker has agreed to.
fn protocol(answer: &UpstreamResponse) -> Protocol {
    let upgrade = answer.headers.get(UPGRADE).map(HeaderValue::as_bytes);
    match upgrade {
        Some(name) if name.eq_ignore_ascii_case(b"websocket") => Protocol::WebSocket,
        _ => Protocol::Other,
    }
}

/// Joins the two sockets until one side ends, both are idle for too long, or Weir shuts down.
async fn agree(
    app: &ProxiedApp,
    mut client: Early,
    answer: Box<UpstreamResponse>,
    worker: Box<UpstreamConnection>,
    slot: UpstreamSlot,
    drain: Drain,
) -> io::Result<()> {
    let head = wire::head_bytes(answer.status, &answer.headers);
    wire::write(&mut client.stream, &head, WRITE_TIMEOUT).await?;
    wire::write(&mut client.stream, &answer.rest, WRITE_TIMEOUT).await?;
    let patience = app.limits.stream_idle_timeout;
    let protocol = protocol(&answer);
    let end = (protocol, drain.turn());
    let ended = join::run(client.stream, &client.bytes, worker.socket, patience, end).await;
    drop(slot);
    ended
}
