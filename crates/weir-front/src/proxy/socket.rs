//! Upgraded connections: a WebSocket's two sockets, joined.
//!
//! The worker is asked with hyper, so that its answer is read as HTTP: only after a 101 are the two
//! sockets one. Anything else is passed on as the answer that it is, and the connection ends: a
//! worker that declines can't be sent the client's next request by accident.

mod join;
mod wire;

use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::task::spawn_local;
use tokio::time::timeout;
use weir_net::server::{Head, Peer, Refused, Stream, Upgrade};

use super::body::RequestBody;
use super::exchange::Failed;
use super::head::{self, Forwarded, Target};
use super::{Proxy, answer, pool};
use crate::app::{App, Slot};
use crate::dispatch::{Class, Client, Priority, Wish};
use crate::drain::Drain;

/// Bytes that a client may send before the worker has agreed. More wait in the kernel.
const EARLY_BYTES_MAX: usize = 16 << 10;
/// How long a client may take to read why its socket was declined.
const DECLINE_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes over the connection, or refuses it.
pub(super) fn start(proxy: &Rc<Proxy>, upgrade: Upgrade<'_>) -> Result<(), Refused> {
    let Some(mut parts) = parts_of(upgrade.head) else {
        return Err(upgrade.refuse(StatusCode::BAD_REQUEST, "the request's head is malformed"));
    };
    let target = match Target::of(&parts) {
        Ok(target) => target,
        Err(refusal) => return Err(upgrade.refuse(refusal.status, refusal.text)),
    };
    let Some(app) = proxy.apps.find(target.host(), parts.uri.path()) else {
        return Err(upgrade.refuse(StatusCode::NOT_FOUND, answer::NO_APP));
    };
    let app = Arc::clone(app);
    let protocol = parts.headers.get(UPGRADE).cloned();
    let start = proxy.start.at(app.now());
    head::rewrite(&mut parts, &target, Forwarded { peer: upgrade.peer, start });
    if let Some(protocol) = protocol {
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(UPGRADE, protocol);
    }
    let Upgrade { stream, rest, peer, .. } = upgrade;
    let client = Early { stream, bytes: rest.to_vec() };
    let request = Request::from_parts(parts, RequestBody::empty());
    drop(spawn_local(serve(app, client, request, peer, proxy.drain.clone())));
    Ok(())
}

/// None: hyper's types can't hold it, so it is malformed.
fn parts_of(head: &Head<'_>) -> Option<request::Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(head.method.as_bytes()).ok()?;
    parts.uri = head.target.parse::<Uri>().ok()?;
    parts.version = if head.version == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    for header in head.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        parts.headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(parts)
}

/// The client's side before the worker has agreed.
struct Early {
    stream: Stream,
    /// What the client has sent behind its head.
    bytes: Vec<u8>,
}

impl Early {
    /// Resolves when the client has gone.
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

    /// None: the client has gone before `future` was done.
    async fn during<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = future => Some(done),
            () = self.gone() => None,
        }
    }
}

async fn serve(
    app: Arc<App>,
    mut client: Early,
    request: Request<RequestBody>,
    peer: Peer,
    drain: Drain,
) {
    let wish =
        Wish { class: Class::Stream, priority: Priority::Normal, client: Client::of(peer.address) };
    let Some(asked) = client.during(ask(&app, wish, request)).await else {
        return app.metrics.failed(crate::metrics::Failure::ClientGone);
    };
    let ended = match asked {
        Ok((response, slot)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            agree(&app, client, response, slot, drain).await
        }
        Ok((response, slot)) => {
            let declining = wire::pass_on(&mut client.stream, response);
            let ended = timeout(DECLINE_TIMEOUT, declining).await;
            drop(slot);
            ended.unwrap_or(Ok(()))
        }
        Err(failed) => {
            app.metrics.failed_with(failed.metric());
            let (status, text) = answer::wording(failed);
            let refusing = wire::refuse(&mut client.stream, status, text);
            timeout(DECLINE_TIMEOUT, refusing).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(app = app.name, %error, "a socket ended");
    }
}

/// A worker's answer, and the slot that it holds.
async fn ask(
    app: &Arc<App>,
    wish: Wish,
    mut request: Request<RequestBody>,
) -> Result<(Response<Incoming>, Slot), Failed> {
    for _ in 0..app.limits.attempts_max {
        let slot = app.slot(wish, app.now()).await?;
        let connecting = pool::connect_for_upgrade(&slot.worker.address);
        let Ok(Ok(mut sender)) = timeout(app.limits.connect_timeout, connecting).await else {
            app.suspend(&slot.worker);
            continue;
        };
        let since = app.now();
        match timeout(app.limits.service_timeout, sender.try_send_request(request)).await {
            Ok(Ok(response)) => {
                app.metrics.answered(response.status(), app.now().since(since));
                return Ok((response, slot));
            }
            Ok(Err(mut error)) => match error.take_message() {
                Some(same) => request = same,
                None => return Err(Failed::Broken),
            },
            Err(_) => return Err(Failed::Late),
        }
    }
    Err(Failed::Unreachable)
}

/// Joins the two sockets until one side ends or both are silent for too long.
async fn agree(
    app: &App,
    mut client: Early,
    mut response: Response<Incoming>,
    slot: Slot,
    drain: Drain,
) -> io::Result<()> {
    let upgrading = hyper::upgrade::on(&mut response);
    wire::write_head(&mut client.stream, &response).await?;
    let worker = TokioIo::new(upgrading.await.map_err(io::Error::other)?);
    let joined = join::run(client.stream, &client.bytes, worker, app.limits.stream_idle_timeout);
    let ended = tokio::select! {
        ended = joined => ended,
        () = drain.turn() => Ok(()),
    };
    drop(slot);
    ended
}
