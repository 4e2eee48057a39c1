//! Proxy mode on one core: a request in, the answer of a worker out.
//!
//! Every request is judged ([`head`]), routed, given a slot ([`crate::app`]), sent ([`exchange`])
//! and its answer passed on ([`body`]) by itself, whatever connection it came on. WebSockets and
//! other upgrades become two joined sockets ([`socket`]).

mod answer;
mod body;
mod exchange;
mod head;
mod pool;
mod socket;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::header::ACCEPT;
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::time::{MissedTickBehavior, interval};
use weir_net::server::{Body, CoreIndex, Peer, Refused, Upgrade};

use self::body::RequestBody;
use self::exchange::Failed;
use self::head::Target;
use self::pool::Pool;
use crate::apps::Apps;
use crate::dispatch::{Class, Client, Priority, Refusal, Wish};
use crate::metrics::Failure;

/// How exact waits in queues are.
const TICK: Duration = Duration::from_millis(20);

/// One core's part of the front.
#[derive(Debug)]
pub struct Proxy {
    apps: Arc<Apps>,
    pool: Pool,
    core: CoreIndex,
}

impl Proxy {
    /// The part of `core`.
    #[must_use]
    pub fn new(apps: Arc<Apps>, core: CoreIndex) -> Rc<Self> {
        Rc::new(Self { apps, pool: Pool::default(), core })
    }

    /// The core's own work, until the core's end.
    pub async fn run(self: Rc<Self>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.pool.forget_closed();
            // One core does it for all.
            if self.core == CoreIndex(0) {
                self.apps.tick();
            }
        }
    }

    /// Whether there is an app for any request at all.
    #[must_use]
    pub fn serves(&self) -> bool {
        !self.apps.is_empty()
    }

    /// Answers one request.
    pub async fn answer(self: Rc<Self>, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let target = match Target::of(&parts) {
            Ok(target) => target,
            Err(refusal) => return answer::text(refusal.status, refusal.text),
        };
        let Some(app) = self.apps.find(&target.host, parts.uri.path()) else {
            return answer::text(StatusCode::NOT_FOUND, answer::NO_APP);
        };
        let bytes_max = app.limits.request_bytes_max;
        if body.size_hint().lower() > bytes_max {
            app.metrics.failed(Failure::BadRequest);
            return answer::failed(&Failed::TooLarge);
        }
        let wish = wish(&parts, peer);
        head::rewrite(&mut parts, &target, peer, app.now());
        let outgoing = Request::from_parts(parts, RequestBody::new(body, bytes_max));
        match self.exchange(app, wish, outgoing).await {
            Ok(response) => response,
            Err(failed) => answer::failed(&failed),
        }
    }

    /// Takes over a connection that is to become something else than HTTP.
    ///
    /// # Errors
    /// There is no app for it.
    pub fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), Refused> {
        socket::start(self, upgrade)
    }
}

fn wish(request: &Parts, peer: Peer) -> Wish {
    let wants_events = request
        .headers
        .get(ACCEPT)
        .is_some_and(|accept| accept.as_bytes().starts_with(b"text/event-stream"));
    let class = if wants_events { Class::Stream } else { Class::Request };
    Wish { class, priority: Priority::Normal, client: Client::of(peer.address) }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
