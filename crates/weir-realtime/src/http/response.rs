//! Responses: JSON, or a text that says what to do.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use weir_net::server::ResponseBody;

use crate::hub::PublishError;
use crate::pusher::api::ApiError;
use crate::shared_log::AppendError;

/// Why a request failed: a status and a text.
#[derive(Debug)]
pub(super) struct ApiFailure {
    status: StatusCode,
    text: String,
}

/// How long a client should wait before it retries. A core's queue drains in less.
const RETRY_AFTER_SECONDS: &str = "1";

impl ApiFailure {
    pub(super) fn new(status: StatusCode, text: impl ToString) -> Self {
        Self { status, text: text.to_string() }
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::from(format!("{}\n", self.text)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, text);
        if self.status == StatusCode::UPGRADE_REQUIRED {
            // RFC 9110, 15.5.22: the response names the protocol.
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

impl From<ApiError> for ApiFailure {
    fn from(error: ApiError) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, error)
    }
}

impl From<AppendError> for ApiFailure {
    fn from(error: AppendError) -> Self {
        PublishError::from(error).into()
    }
}

impl From<PublishError> for ApiFailure {
    fn from(error: PublishError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }
}

/// Returns a response with the status 200.
pub(super) fn json(body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Cuts text from a client to a length that fits into an error.
pub(super) fn shorten(text: &str) -> &str {
    const BYTES_MAX: usize = 200;
    &text[..text.floor_char_boundary(BYTES_MAX)]
}
