//! Routes HTTP requests on each core: to gems on their own listener and below their mount, to
//! realtime at `/app/`, `/apps/` and `/users/` where it has apps, and otherwise to the front's
//! apps.

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::HeaderValue;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, header};
use tokio::time::{sleep, timeout};
use tokio_util::either::Either;
use weir_front::Proxy;
use weir_net::Successor;
use weir_net::client::ClientAddress;
use weir_net::server::{ConnectionService, Peer, RejectedUpgrade, ResponseBody, Upgrade};
use weir_realtime::shard::Shard;

use crate::gems::GemsMounts;

/// The prefix of WebSocket paths; the key of an app follows.
const WEBSOCKET_PREFIX: &str = "/app/";

/// The routes of one core.
#[derive(Debug)]
pub(crate) struct Front {
    /// None: not served here.
    pub(crate) realtime: Option<Rc<Shard>>,
    /// None: not served here.
    pub(crate) gems: Option<GemsMounts>,
    pub(crate) proxy: Rc<Proxy>,
    /// The listener that serves apps; all listeners serve realtime.
    pub(crate) front_listener: Option<usize>,
    /// Counts requests to realtime on all cores.
    pub(crate) realtime_requests: RealtimeRequests,
    /// Set once another process has taken over and serves realtime.
    pub(crate) successor: Arc<OnceLock<Successor>>,
}

/// Counts requests to realtime without a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealtimeRequests(Arc<AtomicUsize>);

/// A counted request; dropping it ends it.
#[derive(Debug)]
struct RequestGuard(RealtimeRequests);

impl RealtimeRequests {
    fn begin(&self) -> RequestGuard {
        self.0.fetch_add(1, Ordering::SeqCst);
        RequestGuard(self.clone())
    }

    /// Waits `last_request` until the cores can start no new request, and then until the existing
    /// ones have their responses or take too long.
    pub(crate) async fn wait_until_done(&self, last_request: Duration) {
        sleep(last_request).await;
        let all_done = async {
            while self.0.load(Ordering::SeqCst) > 0 {
                sleep(REQUESTS_POLL_INTERVAL).await;
            }
        };
        if timeout(REQUESTS_TIMEOUT, all_done).await.is_err() {
            tracing::warn!(
                "requests to realtime take too long; they are rejected with a request to retry"
            );
        }
    }
}

const REQUESTS_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Publishing does not block; only a body may arrive slowly.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(2);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Front {
    /// Returns realtime if it serves `path`.
    fn realtime_at(&self, path: &str) -> Option<&Rc<Shard>> {
        let is_realtime_path = path.starts_with(WEBSOCKET_PREFIX) || Shard::serves(path);
        self.realtime.as_ref().filter(|shard| {
            // Without an app of its own it must not shadow the front's apps.
            is_realtime_path && (shard.has_apps() || !self.proxy.serves())
        })
    }

    /// Returns the gem index if it serves `path`, with the prefix of its paths.
    fn gems_at(&self, peer: Peer, path: &str) -> Option<(&GemsMounts, Arc<str>)> {
        let gems = self.gems.as_ref()?;
        gems.mount_of(peer.listener, path).map(|mount| (gems, mount))
    }

    fn has_apps_at(&self, peer: Peer) -> bool {
        self.proxy.serves() && self.front_listener == Some(peer.listener)
    }
}

impl ConnectionService for Front {
    fn claims_upgrade(&self, path: &str) -> bool {
        match self.realtime_at(path) {
            Some(_) => path.starts_with(WEBSOCKET_PREFIX),
            None => self.proxy.serves(),
        }
    }

    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        if self.gems_at(upgrade.peer, upgrade.head.path()).is_some() {
            return Err(upgrade.reject(StatusCode::NOT_FOUND, NO_UPGRADES));
        }
        if let Some(realtime) = self.realtime_at(upgrade.head.path()) {
            return realtime.connect(upgrade);
        }
        if self.has_apps_at(upgrade.peer) {
            return self.proxy.upgrade(upgrade);
        }
        Err(upgrade.reject(StatusCode::NOT_FOUND, NOT_FOUND_TEXT))
    }

    /// Only the listener of gems answers half-closed clients: apps treat a half-close as a
    /// disconnect.
    fn answers_half_closed(&self, listener: usize) -> bool {
        self.gems.as_ref().is_some_and(|gems| gems.own_listener == Some(listener))
    }

    async fn run(self: Rc<Self>) {
        let realtime = async {
            if let Some(realtime) = &self.realtime {
                Rc::clone(realtime).run().await;
            }
        };
        tokio::join!(realtime, Rc::clone(&self.proxy).run());
    }

    fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>> {
        if let Some((gems, mount)) = self.gems_at(peer, request.uri().path()) {
            let index = Arc::clone(&gems.index);
            let mut request = request;
            if let Some(client) =
                self.proxy.client(peer, request.headers()).and_then(ClientAddress::from_ip)
            {
                request.extensions_mut().insert(client);
            }
            let response: BoxedResponse =
                Box::pin(async move { index.answer_below(&mount, request).await });
            return Either::Right(Either::Left(response));
        }
        if let Some(realtime) = self.realtime_at(request.uri().path()) {
            // Counted before the check which process serves it, since the handover waits for
            // counted requests.
            let (realtime, guard) = (Rc::clone(realtime), self.realtime_requests.begin());
            if let Some(successor) = self.successor.get().cloned() {
                drop(guard);
                let response: BoxedResponse =
                    Box::pin(async move { forward(&successor, request, peer).await });
                return Either::Right(Either::Left(response));
            }
            let response: BoxedResponse = Box::pin(async move {
                let _guard = guard;
                realtime.handle(request, peer).await
            });
            return Either::Right(Either::Left(response));
        }
        if self.has_apps_at(peer) {
            return Either::Left(Rc::clone(&self.proxy).handle(request, peer));
        }
        Either::Right(Either::Right(ready(not_found())))
    }
}

/// Boxed, so that its size does not add to that of each request to an app.
type BoxedResponse = Pin<Box<dyn Future<Output = Response<ResponseBody>>>>;

const NOT_FOUND_TEXT: &str = "not found; realtime is at /app/KEY and /apps/ID/, apps are under [[front.apps]], gems below gems.mount\n";
const NO_UPGRADES: &str = "the gem index supports no protocol upgrades\n";

/// Forwards a request to the next process, which has realtime while this one has the connection.
async fn forward(
    successor: &Successor,
    request: Request<Incoming>,
    peer: Peer,
) -> Response<ResponseBody> {
    match successor.forward(request, peer.is_tls).await {
        Ok(response) => response.map(ResponseBody::new),
        Err(error) => {
            tracing::warn!(%error, "a request to realtime could not be passed on");
            let text = format!("{error}; try again\n");
            text_response(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

fn not_found() -> Response<ResponseBody> {
    text_response(StatusCode::NOT_FOUND, NOT_FOUND_TEXT)
}

fn text_response(status: StatusCode, text: impl Into<ResponseBody>) -> Response<ResponseBody> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
