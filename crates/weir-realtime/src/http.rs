//! The HTTP API. Each request is handled on the core that accepted it.

mod events;
mod history;
mod publish;
mod query;
mod response;
mod route;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::HeaderMap;
use hyper::{Request, Response, StatusCode};
use weir_net::server::{Peer, ResponseBody};
use weir_traces::{Span, SpanKind, TraceContext};

use self::response::ApiFailure;
use self::route::ApiRoute;
use crate::app::App;
use crate::metrics::LimitKind;
use crate::pusher::api::ApiError;
use crate::pusher::signature::{SignedQuery, SignedRequest, check_body};
use crate::shard::{Shard, connect};
use crate::trace::FanoutSpan;

/// Prefixes of the paths of the API.
const PATHS: [&str; 3] = ["/apps/", "/users/", connect::PATH];

/// A request with a valid signature.
struct SignedCall<'a> {
    app: &'a Arc<App>,
    query: &'a SignedQuery<'a>,
    body: &'a [u8],
    /// None: it is not traced, or publishes nothing here.
    fanout: Option<&'a FanoutSpan>,
}

impl Shard {
    /// Returns whether the path belongs to the API or to an event stream.
    #[must_use]
    pub fn serves(path: &str) -> bool {
        PATHS.iter().any(|prefix| path.starts_with(prefix))
    }

    /// Handles a request and returns the response.
    pub async fn handle(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<ResponseBody> {
        if request.uri().path().starts_with(connect::PATH) {
            return self.stream(&request, peer);
        }
        match self.handle_api_request(request).await {
            Ok(body) => response::json(body),
            Err(failure) => failure.into_response(),
        }
    }

    /// Handles a request of the API. The signature covers the body's digest, so the sender is
    /// verified before the body is read.
    async fn handle_api_request(&self, request: Request<Incoming>) -> Result<Vec<u8>, ApiFailure> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let route = ApiRoute::parse(&head.method, path)?;
        let settings = self.hub.settings().limits.pusher.clone();
        let signed = SignedRequest {
            method: head.method.as_str(),
            path,
            query: head.uri.query().unwrap_or_default(),
            body: &[],
        };
        let app = self.app_of(&route, signed.query)?;
        let now = self.hub.clock.now();
        let query = app
            .settings()
            .token()
            .verify_head(&signed, now, &settings)
            .map_err(|error| ApiFailure::new(StatusCode::UNAUTHORIZED, error))?;
        self.check_in_service(&app)?;
        let mut span = self.publish_span(&route, &head.headers, &app);
        let body = self.body_of(body, settings.api_body_bytes_max).await?;
        check_body(&query, &body)
            .map_err(|error| ApiFailure::new(StatusCode::UNAUTHORIZED, error))?;
        // A reload may have changed the app while the body arrived.
        self.check_in_service(&app)?;
        let fanout = span.as_ref().and_then(|span| self.fanout(span));
        let call = SignedCall { app: &app, query: &query, body: &body, fanout: fanout.as_ref() };
        let result = self.carry_out(&route, &call, &settings).await;
        if let (Some(span), Err(failure)) = (&mut span, &result) {
            // Its text may quote the event.
            span.fail(failure.status().to_string());
        }
        result
    }

    /// Begins the span of a request that publishes, if it is traced.
    fn publish_span(&self, route: &ApiRoute<'_>, headers: &HeaderMap, app: &App) -> Option<Span> {
        let tracer = &self.hub.tracer;
        if !tracer.is_on() || !route.operation.publishes() {
            return None;
        }
        // The request is signed, so its context is that of the application's server.
        let caller = TraceContext::of_headers(headers);
        let mut span = tracer.start("publish", SpanKind::Server, caller)?;
        span.set("messaging.system", "weir");
        span.set("messaging.operation.name", "publish");
        span.set("weir.realtime_app", app.settings().id.to_string());
        Some(span)
    }

    /// Begins the span of the fan-out. With a log that nodes share, the fan-out is not part of the request.
    fn fanout(&self, span: &Span) -> Option<FanoutSpan> {
        self.hub.broker.log.is_none().then(|| FanoutSpan::begin(span))
    }

    fn check_in_service(&self, app: &Arc<App>) -> Result<(), ApiFailure> {
        let settings = app.settings();
        if !settings.is_enabled {
            return Err(ApiFailure::new(StatusCode::FORBIDDEN, "this app is disabled"));
        }
        let current = self.hub.app_by_id(&settings.id);
        match current.is_some_and(|current| Arc::ptr_eq(&current, app)) {
            true => Ok(()),
            false => Err(ApiFailure::new(StatusCode::NOT_FOUND, "this app was removed")),
        }
    }

    /// Reads the whole body. Returns an error if it is too large or does not arrive in time.
    async fn body_of(&self, body: Incoming, max: usize) -> Result<Bytes, ApiFailure> {
        let timeout = self.hub.settings().limits.api_body_timeout;
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > max {
            return Err(ApiError::BodyTooLarge { bytes: announced, max }.into());
        }
        match tokio::time::timeout(timeout, Limited::new(body, max).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(ApiError::BodyTooLarge { bytes: max + 1, max }.into())
            }
            // The client is gone, so nothing reads the response.
            Ok(Err(error)) => Err(ApiFailure::new(StatusCode::BAD_REQUEST, error)),
            Err(_) => {
                self.hub.metrics.limit_hit(LimitKind::ApiBodyTimeout);
                let text =
                    "the body did not arrive in time (realtime.limits.advanced.api_body_timeout)";
                Err(ApiFailure::new(StatusCode::REQUEST_TIMEOUT, text))
            }
        }
    }

    /// Returns the app of the path. For paths without one, returns the app of the query's
    /// `auth_key`.
    fn app_of(&self, route: &ApiRoute<'_>, query: &str) -> Result<Arc<App>, ApiFailure> {
        let unknown = |text: String| ApiFailure::new(StatusCode::NOT_FOUND, text);
        match route.app_id {
            Some(id) => self
                .hub
                .app_by_id(id)
                .ok_or_else(|| unknown(format!("no app has the id '{}'", response::shorten(id)))),
            None => form_urlencoded::parse(query.as_bytes())
                .find(|(name, _)| name == "auth_key")
                .and_then(|(_, key)| self.hub.app_by_key(&key))
                .ok_or_else(|| unknown("no app has this auth_key".to_owned())),
        }
    }
}
