//! `GET /app/KEY/channels/NAME/events`: a channel as server-sent events.
//!
//! Public channels need no permission. Private ones need a URL that the application's server has
//! signed as it signs its own requests (`auth_key`, `auth_timestamp`, `auth_version`,
//! `auth_signature`). The URL is valid for `api_timestamp_tolerance`. Presence channels need a
//! WebSocket, as a stream can't identify its user.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use weir_net::client::{ClientFull, ClientRequest};
use weir_net::server::{Peer, ResponseBody};

use super::response::ApiFailure;
use super::route::decode;
use crate::app::App;
use crate::pusher::channel::{Access, ChannelName};
use crate::pusher::close_code::CloseCode;
use crate::pusher::position::ChannelPosition;
use crate::pusher::signature::SignedRequest;
use crate::shard::Shard;
use crate::shard::connect::{self, is_origin_allowed};
use crate::shard::event_stream::EventStreamRequest;

/// The header that browsers send when they reconnect.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

impl Shard {
    /// Handles a request for an event stream.
    pub(super) fn stream(
        self: Rc<Self>,
        request: &Request<Incoming>,
        peer: Peer,
    ) -> Response<ResponseBody> {
        let origin = request.headers().get(header::ORIGIN).cloned();
        let mut response = match self.try_stream(request, peer) {
            Ok(request) => started(ResponseBody::new(self.stream_events(request))),
            Err(failure) => failure.into_response(),
        };
        if let Some(origin) = origin.filter(|_| response.status() != StatusCode::FORBIDDEN) {
            // The origin was checked, so its pages may read the response.
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::VARY, HeaderValue::from_static("origin"));
        }
        response
    }

    fn try_stream(
        &self,
        request: &Request<Incoming>,
        peer: Peer,
    ) -> Result<EventStreamRequest, ApiFailure> {
        let path = request.uri().path();
        let (key, name) = parse_path(path)?;
        if request.method() != Method::GET {
            let text = "a stream of events is read with GET";
            return Err(ApiFailure::new(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let (app, quota) = self.admit_to_app(key, peer).map_err(close_code_failure)?;
        let origin = request.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        if !is_origin_allowed(&app, origin) {
            return Err(ApiFailure::new(StatusCode::FORBIDDEN, "this origin is not allowed"));
        }
        let channel = ChannelName::parse(&name, &self.hub.settings().limits.pusher)
            .map_err(|error| ApiFailure::new(StatusCode::BAD_REQUEST, error))?;
        self.authorise_stream(&app, &channel, path, request.uri().query().unwrap_or_default())?;
        let after = last_event_id(request.headers())?;
        let client = request.extensions().get::<ClientRequest>();
        if let Some(Err(ClientFull(used))) = client.map(ClientRequest::become_stream) {
            return Err(ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, used.reason()));
        }
        Ok(EventStreamRequest { app, quota, channel, after })
    }

    fn authorise_stream(
        &self,
        app: &App,
        channel: &ChannelName,
        path: &str,
        query: &str,
    ) -> Result<(), ApiFailure> {
        match channel.kind().access {
            Access::Public => Ok(()),
            Access::Private | Access::Encrypted => {
                let signed = SignedRequest { method: "GET", path, query, body: &[] };
                let limits = &self.hub.settings().limits.pusher;
                let verified =
                    app.settings().token().verify_request(&signed, self.hub.clock.now(), limits);
                verified
                    .map(|_| ())
                    .map_err(|error| ApiFailure::new(StatusCode::UNAUTHORIZED, error))
            }
            Access::Presence | Access::ServerToUser => {
                let text = "this channel needs a WebSocket, which says whose it is";
                Err(ApiFailure::new(StatusCode::BAD_REQUEST, text))
            }
        }
    }
}

/// Returns the app's key and the channel's name.
fn parse_path(path: &str) -> Result<(&str, std::borrow::Cow<'_, str>), ApiFailure> {
    let parts: Vec<&str> =
        path.strip_prefix(connect::PATH).unwrap_or_default().split('/').collect();
    match parts[..] {
        [key, "channels", name, "events"] => Ok((key, decode(name)?)),
        [_] => Err(ApiFailure::new(
            StatusCode::UPGRADE_REQUIRED,
            "this address takes WebSockets only; is the Upgrade header lost in a proxy?",
        )),
        _ => Err(ApiFailure::new(
            StatusCode::NOT_FOUND,
            "nothing is here; a stream of events is at /app/KEY/channels/NAME/events",
        )),
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<ChannelPosition>, ApiFailure> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let position = id.to_str().ok().and_then(|id| id.parse().ok());
    let wrong = || ApiFailure::new(StatusCode::BAD_REQUEST, "Last-Event-ID is not an event's id");
    position.map(Some).ok_or_else(wrong)
}

/// Converts a WebSocket close code to an HTTP error.
fn close_code_failure(code: CloseCode) -> ApiFailure {
    let status = match code {
        CloseCode::NoSuchApp | CloseCode::PathNotFound => StatusCode::NOT_FOUND,
        CloseCode::AppDisabled | CloseCode::TlsOnly => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    ApiFailure::new(status, code.reason())
}

fn started(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, text);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Keeps nginx from buffering the response.
    let buffering = HeaderName::from_static("x-accel-buffering");
    headers.insert(buffering, HeaderValue::from_static("no"));
    response
}
