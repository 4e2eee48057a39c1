//! The responses that Weir writes itself.

use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use weir_net::server::ResponseBody;

use super::exchange_error::ExchangeError;
use crate::app::Maintenance;
use crate::dispatch::QueueError;
use crate::shed::ShedSettings;

/// Retry-After for a full queue or an overload, in seconds. Either ends within moments or lasts
/// long; earlier retries would only add to the load.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("2");

/// Retry-After during maintenance, in seconds.
const MAINTENANCE_SECONDS: HeaderValue = HeaderValue::from_static("60");

/// The text for a request that no app serves.
pub(super) const NO_APP: &str = "no app is served at this host and path\n";

/// The text for a request that is rejected immediately.
pub(super) const COME_BACK: &str = "the server is overloaded; try again later\n";

/// Creates a response with a status and a line of text.
pub(super) fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Creates the response to a request that must not be forwarded.
pub(super) fn no_request(status: StatusCode, line: &'static str) -> Response<ResponseBody> {
    let mut response = text(status, line);
    if status == StatusCode::NOT_IMPLEMENTED {
        // The end of the body is uncertain, so the bytes behind it must not be read as a request.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Creates the response to a request that got none from a worker.
pub(super) fn failed(failed: ExchangeError) -> Response<ResponseBody> {
    let (status, line) = wording(failed);
    let mut response = text(status, line);
    set_retry_after(status, response.headers_mut());
    response
}

/// Adds Retry-After to the rejections after which a retry may succeed: a full queue, a slow worker.
pub(super) fn set_retry_after(status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::GATEWAY_TIMEOUT {
        headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
}

/// Creates the response with the maintenance page.
pub(super) fn maintenance(maintenance: &Maintenance) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(maintenance.page()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(RETRY_AFTER, MAINTENANCE_SECONDS);
    response
}

/// Creates the response to a request while none of the app's workers can be started.
pub(super) fn no_program() -> Response<ResponseBody> {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let line = "no worker of this app can be started (weir workers list says why)\n";
    let mut response = text(status, line);
    response.headers_mut().insert(RETRY_AFTER, MAINTENANCE_SECONDS);
    response
}

/// Creates the response of a shed rule.
pub(super) fn shed(rule: &ShedSettings) -> Response<ResponseBody> {
    let mut response = text(rule.status, COME_BACK);
    let seconds = HeaderValue::from(rule.retry_after.as_secs());
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}

pub(super) fn wording(failed: ExchangeError) -> (StatusCode, &'static str) {
    match failed {
        ExchangeError::Refused(QueueError::QueueFull) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests wait for this app (queue_max); try again\n",
        ),
        ExchangeError::Refused(QueueError::QueueTimeout) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "no worker of this app was free in time (queue_timeout); try again\n",
        ),
        ExchangeError::Refused(QueueError::Overload) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this app has more requests than it can serve (overload_wait); try again\n",
        ),
        ExchangeError::Refused(QueueError::Streams) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this app has as many WebSockets and event streams as it may have (streams); try again\n",
        ),
        ExchangeError::Refused(QueueError::ClientStreams) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "your address has too many WebSockets and event streams open (front.clients.streams_max); try again later\n",
        ),
        ExchangeError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request's body is longer than this app allows (request_bytes_max)\n",
        ),
        ExchangeError::BadBody => {
            (StatusCode::BAD_REQUEST, "the request's body broke off or is damaged\n")
        }
        ExchangeError::SlowBody => (
            StatusCode::REQUEST_TIMEOUT,
            "the request's body did not arrive in time (body_timeout)\n",
        ),
        ExchangeError::Unreachable => {
            (StatusCode::BAD_GATEWAY, "no worker of this app can be reached\n")
        }
        ExchangeError::Broken => (
            StatusCode::BAD_GATEWAY,
            "the worker closed the connection before its response was complete\n",
        ),
        ExchangeError::Malformed => (
            StatusCode::BAD_GATEWAY,
            "what the worker said is no answer of HTTP/1.1 to this request\n",
        ),
        ExchangeError::ResponseHead => (
            StatusCode::BAD_GATEWAY,
            "the worker's answer has a longer head than this app allows (answer_head_bytes_max, answer_headers_max)\n",
        ),
        ExchangeError::Late => {
            (StatusCode::GATEWAY_TIMEOUT, "the worker did not answer in time (service_timeout)\n")
        }
    }
}
