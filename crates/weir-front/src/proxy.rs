//! Proxy mode on one core: a request in, the answer of a worker out.
//!
//! Every request is judged ([`head`]), routed, given a slot ([`crate::app`]), sent ([`exchange`])
//! and its answer passed on ([`relay`]) by itself, whatever connection it came on. WebSockets and
//! other upgrades become two joined sockets ([`socket`]).

mod answer;
mod by_hand;
mod deadlines;
mod exchange;
mod gzip;
mod head;
mod relay;
mod request_body;
mod socket;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::{MissedTickBehavior, interval};
use weir_base::clock::Timestamp;
use weir_net::client::{ClientAddress, ClientRequest, Origin, TrustedProxies};
use weir_net::server::{CoreIndex, Peer, RejectedUpgrade, ResponseBody, Upgrade};

pub use self::by_hand::head_for_worker;
use self::deadlines::{Deadlines, TICK};
use self::exchange::Failed;
use self::head::{Forwarded, RequestId, RequestStart, Target};
use self::request_body::RequestBody;
use crate::access_log::{AccessLog, Entry};
use crate::app::App;
use crate::apps::Apps;
use crate::dispatch::{Refusal, Wish};
use crate::drain::Drain;
use crate::forwarded_headers::ForwardedHeader;
use crate::metrics::Failure;
use crate::rules;
use crate::upstream::Pool;

/// What holds for all apps.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// Whose word about clients counts.
    pub trusted_proxies: TrustedProxies,
    /// None: requests are not logged.
    pub access_log: Option<AccessLog>,
}

/// One core's part of the front.
#[derive(Debug)]
pub struct Proxy {
    apps: Arc<Apps>,
    settings: ProxySettings,
    pool: Pool,
    start: RequestStart,
    deadlines: Deadlines,
    core: CoreIndex,
    drain: Drain,
}

/// A request that was judged.
#[derive(Debug)]
struct Prepared {
    wish: Wish,
    since: Timestamp,
    method: Method,
    /// What a worker gets, up to what it says of the body. Nothing of the client's own is kept beside
    /// it: the buffer that hyper read it into is free for what comes next.
    head: Vec<u8>,
    /// None: the answer goes out as it is.
    gzip: Option<gzip::Asked>,
    /// Empty: the room of the client's fields, for those of the answer.
    fields: HeaderMap,
    body: RequestBody,
    /// None: nobody's in particular.
    client: Option<ClientRequest>,
}

/// Whose it is, too.
type Judged = (Arc<App>, Box<Prepared>);

impl Proxy {
    /// The part of `core`.
    #[must_use]
    pub fn new(
        apps: Arc<Apps>,
        settings: ProxySettings,
        core: CoreIndex,
        drain: Drain,
    ) -> Rc<Self> {
        Rc::new(Self {
            apps,
            settings,
            pool: Pool::default(),
            start: RequestStart::default(),
            deadlines: Deadlines::default(),
            core,
            drain,
        })
    }

    /// The core's own work, until the core's end; without apps there is none.
    pub async fn run(self: Rc<Self>) {
        if self.apps.is_empty() {
            return;
        }
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.deadlines.tick();
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

    /// Whom a request is from: who is at the other end, or for whom a trusted proxy speaks. None: a
    /// unix socket, and nobody says more.
    #[must_use]
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        self.settings.trusted_proxies.origin(peer, headers).address
    }

    /// Answers one request.
    pub fn answer(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>> {
        // Judged here and not in the future, which then holds little but a pointer to the request.
        let (parts, body) = request.into_parts();
        let mut entry = self.entry(&parts, peer);
        let prepared = self.prepare(parts, body, peer, entry.as_deref_mut());
        async move {
            let answer = match prepared {
                Ok((app, prepared)) => self.exchange(&app, prepared).await,
                Err(refused) => *refused,
            };
            match entry {
                Some(entry) => entry.follow(answer),
                None => answer,
            }
        }
    }

    /// For the access log, if there is one.
    fn entry(&self, request: &Parts, peer: Peer) -> Option<Box<Entry>> {
        let log = self.settings.access_log.as_ref()?;
        let mut entry = Box::new(Entry::new(log, self.apps.clock(), request));
        entry.of_client(self.client(peer, &request.headers));
        Some(entry)
    }

    fn prepare(
        &self,
        parts: Parts,
        body: Incoming,
        peer: Peer,
        entry: Option<&mut Entry>,
    ) -> Result<Judged, Box<Response<ResponseBody>>> {
        let target = Target::of(&parts)
            .map_err(|refusal| Box::new(answer::no_request(refusal.status, refusal.text)))?;
        let Some(app) = self.apps.find(target.host(), parts.uri.path()) else {
            return Err(Box::new(answer::text(StatusCode::NOT_FOUND, answer::NO_APP)));
        };
        let origin = self.settings.trusted_proxies.origin(peer, &parts.headers);
        let wish = wish(app, &parts, origin)?;
        let bytes_max = app.limits.request_bytes_max;
        if body.size_hint().lower() > bytes_max {
            app.metrics.failed(Failure::BadRequest);
            return Err(Box::new(answer::failed(Failed::TooLarge)));
        }
        let since = app.now();
        let forwarded = self.forwarded(app, origin, &parts.headers, &target, since);
        if let Some(entry) = entry {
            entry.for_app(&app.name, forwarded.id());
        }
        let head = head::write_start(&parts, &target, &forwarded);
        let gzip = app.limits.gzip.as_ref().map(|_| gzip::Asked {
            is_accepted: gzip::is_accepted(&parts.headers),
            is_head: parts.method == Method::HEAD,
        });
        let Parts { method, headers: mut fields, mut extensions, .. } = parts;
        fields.clear();
        let client = extensions.remove();
        let body = RequestBody::new(body, bytes_max);
        let prepared = Prepared { wish, since, method, head, gzip, fields, body, client };
        Ok((Arc::clone(app), Box::new(prepared)))
    }

    /// What a worker of `app` is told, and what is logged of that. What nobody reads is not made.
    fn forwarded(
        &self,
        app: &App,
        origin: Origin,
        headers: &HeaderMap,
        target: &Target,
        since: Timestamp,
    ) -> Forwarded {
        let told = app.forwarded_headers;
        let wants_start = told.has(ForwardedHeader::XRequestStart);
        let wants_id = told.has(ForwardedHeader::XRequestId) || self.settings.access_log.is_some();
        Forwarded {
            headers: told,
            origin,
            start: wants_start.then(|| self.start.at(since)),
            id: wants_id.then(|| RequestId::of(target, headers)),
        }
    }

    /// Takes over a connection that is to become something else than HTTP.
    ///
    /// # Errors
    /// There is no app for it.
    pub fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        socket::start(self, upgrade)
    }
}

/// What a request wants of the app, unless it is told to go at once.
fn wish(app: &App, request: &Parts, origin: Origin) -> Result<Wish, Box<Response<ResponseBody>>> {
    let (path, headers) = (request.uri.path(), &request.headers);
    if app.maintenance.is_on() {
        app.metrics.failed(Failure::Maintenance);
        return Err(Box::new(answer::maintenance(&app.maintenance)));
    }
    if app.has_no_program() {
        app.metrics.failed(Failure::Unreachable);
        return Err(Box::new(answer::no_program()));
    }
    if let Some(rule) = app.shed.iter().find(|rule| rule.refuses(path, headers)) {
        app.metrics.failed(Failure::Shed);
        return Err(Box::new(answer::shed(&rule.settings)));
    }
    let priority = rules::priority(&app.priorities, path, headers);
    Ok(Wish { priority, client: origin.address.and_then(ClientAddress::of) })
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
