//! The proxy of one core: receives requests and returns the responses of workers.
//!
//! Each request is handled alone, whatever connection it came on: it is checked ([`head`]), routed,
//! given a slot ([`crate::app`]) and sent ([`exchange`]), and its response is relayed ([`relay`]).
//! WebSockets and other upgrades become two joined sockets ([`socket`]).

mod deadlines;
mod exchange;
mod exchange_error;
mod gzip;
mod head;
mod manual;
mod own_response;
mod relay;
mod request_body;
mod socket;
mod trace;

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
use weir_traces::Tracer;

use self::deadlines::{Deadlines, TICK};
use self::exchange_error::ExchangeError;
use self::head::{Forwarded, RequestId, RequestStart, Target};
pub use self::manual::head_for_worker;
use self::request_body::RequestBody;
use self::trace::RequestSpan;
use crate::access_log::{AccessLog, PendingLogEntry};
use crate::app::ProxiedApp;
use crate::apps::Apps;
use crate::dispatch::{QueueError, RequestClass};
use crate::drain::Drain;
use crate::forwarded_headers::ForwardedHeader;
use crate::metrics::RequestFailure;
use crate::rules;
use crate::upstream::IdleConnections;

/// The settings that all apps share.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// The proxies whose information about clients is trusted.
    pub trusted_proxies: TrustedProxies,
    /// None: requests are not logged.
    pub access_log: Option<AccessLog>,
    /// Traces nothing by default.
    pub tracer: Tracer,
}

/// The front's proxy on one core.
#[derive(Debug)]
pub struct Proxy {
    apps: Arc<Apps>,
    settings: ProxySettings,
    pool: IdleConnections,
    start: RequestStart,
    deadlines: Deadlines,
    core: CoreIndex,
    drain: Drain,
}

/// A request that was checked and routed to an app.
#[derive(Debug)]
struct AcceptedRequest {
    class: RequestClass,
    since: Timestamp,
    method: Method,
    /// The head for the worker, up to the fields about the body. Nothing else of the client's head
    /// is kept, so hyper can reuse its buffer.
    head: Vec<u8>,
    /// None: the response is not compressed.
    gzip: Option<gzip::GzipRequest>,
    /// Whether the request has a span.
    is_traced: bool,
    /// Empty; its memory is reused for the fields of the response.
    fields: HeaderMap,
    body: RequestBody,
    /// None: no particular client.
    client: Option<ClientRequest>,
}

/// The app of a request, and the request.
type PreparedRequest = (Arc<ProxiedApp>, Box<AcceptedRequest>);

impl Proxy {
    /// Creates the proxy of `core`.
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
            pool: IdleConnections::default(),
            start: RequestStart::default(),
            deadlines: Deadlines::default(),
            core,
            drain,
        })
    }

    /// Runs the core's periodic work until the core ends. Without apps there is none.
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
            // Shared work; the first core does it for all.
            if self.core == CoreIndex(0) {
                self.apps.tick();
            }
        }
    }

    /// Returns whether there are any apps.
    #[must_use]
    pub fn serves(&self) -> bool {
        !self.apps.is_empty()
    }

    /// Returns the client of a request: the peer, or the address that a trusted proxy reports. None
    /// for a unix socket without a reported address.
    #[must_use]
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
        self.settings.trusted_proxies.origin(peer, headers).address
    }

    /// Responds to one request.
    pub fn handle(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>> {
        // Outside the future, which then holds little more than a pointer to the request.
        let (parts, body) = request.into_parts();
        let mut entry = self.entry(&parts, peer);
        let mut span = self.span(&parts, peer);
        let prepared = self.prepare(parts, body, peer, (entry.as_deref_mut(), span.as_deref_mut()));
        async move {
            let response = match prepared {
                Ok((app, prepared)) => self.exchange(&app, prepared).await,
                Err(rejection) => *rejection,
            };
            let response = match span {
                Some(span) => span.follow(response),
                None => response,
            };
            match entry {
                Some(entry) => entry.log_when_done(response),
                None => response,
            }
        }
    }

    /// Creates the entry in the access log, if there is one.
    fn entry(&self, request: &Parts, peer: Peer) -> Option<Box<PendingLogEntry>> {
        let log = self.settings.access_log.as_ref()?;
        let mut entry = Box::new(PendingLogEntry::new(log, self.apps.clock(), request));
        entry.set_client(self.client(peer, &request.headers));
        Some(entry)
    }

    /// Begins the span of a request, if it is traced.
    fn span(&self, request: &Parts, peer: Peer) -> Option<Box<RequestSpan>> {
        let tracer = &self.settings.tracer;
        if !tracer.is_on() {
            return None;
        }
        let is_trusted =
            tracer.follows_clients() || self.settings.trusted_proxies.trusts(peer.address);
        RequestSpan::begin(tracer, request, is_trusted)
    }

    fn prepare(
        &self,
        parts: Parts,
        body: Incoming,
        peer: Peer,
        (entry, span): (Option<&mut PendingLogEntry>, Option<&mut RequestSpan>),
    ) -> Result<PreparedRequest, Box<Response<ResponseBody>>> {
        let target = Target::new(&parts)
            .map_err(|error| Box::new(own_response::no_request(error.status, error.text)))?;
        let Some(app) = self.apps.find(target.host(), parts.uri.path()) else {
            return Err(Box::new(own_response::text(StatusCode::NOT_FOUND, own_response::NO_APP)));
        };
        let origin = self.settings.trusted_proxies.origin(peer, &parts.headers);
        let class = classify(app, &parts, origin)?;
        let bytes_max = app.limits.request_bytes_max;
        if body.size_hint().lower() > bytes_max {
            app.metrics.failed(RequestFailure::BadRequest);
            return Err(Box::new(own_response::failed(ExchangeError::TooLarge)));
        }
        let since = app.now();
        let mut forwarded = self.forwarded(app, origin, &parts.headers, &target, since);
        if let Some(entry) = entry {
            entry.set_app(&app.name, forwarded.id());
        }
        let is_traced = span.is_some();
        if let Some(span) = span {
            span.set_app(&app.name, &parts, origin.is_tls);
            forwarded.trace = Some(span.forwarded());
        }
        let head = head::write_start(&parts, &target, &forwarded);
        let gzip = app.limits.gzip.as_ref().map(|_| gzip::GzipRequest {
            is_accepted: gzip::is_accepted(&parts.headers),
            is_head: parts.method == Method::HEAD,
        });
        let Parts { method, headers: mut fields, mut extensions, .. } = parts;
        fields.clear();
        let client = extensions.remove();
        let body = RequestBody::new(body, bytes_max);
        let prepared =
            AcceptedRequest { class, since, method, head, gzip, is_traced, fields, body, client };
        Ok((Arc::clone(app), Box::new(prepared)))
    }

    /// Collects the header fields that a worker of `app` or the access log uses.
    fn forwarded(
        &self,
        app: &ProxiedApp,
        origin: Origin,
        headers: &HeaderMap,
        target: &Target,
        since: Timestamp,
    ) -> Forwarded {
        let wanted = app.forwarded_headers;
        let wants_start = wanted.has(ForwardedHeader::XRequestStart);
        let wants_id =
            wanted.has(ForwardedHeader::XRequestId) || self.settings.access_log.is_some();
        Forwarded {
            headers: wanted,
            origin,
            start: wants_start.then(|| self.start.header_value(since)),
            id: wants_id.then(|| RequestId::new(target, headers)),
            trace: None,
        }
    }

    /// Takes over a connection that requests an upgrade.
    ///
    /// # Errors
    /// Returns the rejection if the head must not be forwarded, or if no app serves the request.
    pub fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        socket::start(self, upgrade)
    }
}

/// Returns the class of a request, or the response if it is rejected immediately.
fn classify(
    app: &ProxiedApp,
    request: &Parts,
    origin: Origin,
) -> Result<RequestClass, Box<Response<ResponseBody>>> {
    let (path, headers) = (request.uri.path(), &request.headers);
    if app.maintenance.is_on() {
        app.metrics.failed(RequestFailure::Maintenance);
        return Err(Box::new(own_response::maintenance(&app.maintenance)));
    }
    if app.has_no_program() {
        app.metrics.failed(RequestFailure::Unreachable);
        return Err(Box::new(own_response::no_program()));
    }
    if let Some(rule) = app.shed.iter().find(|rule| rule.rejects(path, headers)) {
        app.metrics.failed(RequestFailure::Shed);
        return Err(Box::new(own_response::shed(&rule.settings)));
    }
    let priority = rules::priority(&app.priorities, path, headers);
    Ok(RequestClass { priority, client: origin.address.and_then(ClientAddress::from_ip) })
}

impl From<QueueError> for ExchangeError {
    fn from(error: QueueError) -> Self {
        Self::Refused(error)
    }
}
