//! Error responses. Each has one sentence of text, which `gem` shows to its user.

use std::io;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use weir_net::server::ResponseBody;

use super::Endpoint;
use super::representation::NOT_AT_ALL;
use crate::mirror::FileError;
use crate::package::PackageError;
use crate::store::{PushError, StoreError, YankError};

/// Maximum length of the text in bytes; some texts quote data that a client has sent.
const TEXT_BYTES_MAX: usize = 1_000;
/// Value of `Retry-After` in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("10");

/// Keys are accepted in other forms, too, but the Basic challenge makes a browser prompt its user.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"gems\", charset=\"UTF-8\"");

const FULL: &str = "the disk of this index is full: nothing can be kept until who runs it has made \
                    room; what is here can be installed";

/// An error response, and why the request failed.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    text: String,
    allow: Option<&'static str>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, text: impl ToString) -> Self {
        Self { status, text: text.to_string(), allow: None }
    }

    pub(super) fn not_found(text: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    pub(super) fn unauthorized(text: impl ToString) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, text)
    }

    pub(super) fn method_not_allowed(methods: &'static str) -> Self {
        let text = format!("this path takes {methods}");
        Self { allow: Some(methods), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }

    /// Returns the response for an endpoint that is switched off: 404 where clients then fall back
    /// to another endpoint, 503 where they have to retry.
    pub(super) fn switched_off(endpoint: Endpoint) -> Self {
        let status = match endpoint {
            Endpoint::Push | Endpoint::Yank | Endpoint::File | Endpoint::Hook => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::NOT_FOUND,
        };
        Self::new(status, format!("{:?} is switched off at the moment", endpoint.name()))
    }

    /// Returns a response without `Retry-After`: a retry does not bring a lost file back.
    pub(super) fn unreadable_file(full_name: &str, path: String, error: io::Error) -> Self {
        let is_lost = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData);
        let error = StoreError::Io { path, error };
        if !is_lost {
            return error.into();
        }
        tracing::error!(%error, "the file of a release is lost");
        let text = format!(
            "the file of {full_name} is missing or damaged here; who runs this index finds more in its \
             log, and with `weir gems verify --files`"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut text = printable(&self.text);
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('\n');
        let mut response = Response::new(ResponseBody::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, plain);
        headers.insert(header::CACHE_CONTROL, NOT_AT_ALL);
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, RETRY_AFTER);
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, CHALLENGE);
            }
            // The remaining body is not read, so the connection can't be reused.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// Reduces a text to one line without control characters, because it may quote arbitrary bytes from
/// a client.
fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars().take(TEXT_BYTES_MAX) {
        match letter {
            '"' | '\'' | '\\' => line.push(letter),
            _ => line.extend(letter.escape_debug()),
        }
    }
    line
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<&StoreError> for Failure {
    fn from(error: &StoreError) -> Self {
        let text = match error {
            // Not logged as an error: this is a limit with its own metric.
            StoreError::Busy { .. } => {
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, error);
            }
            StoreError::Unanswered(_) => {
                "it is not known whether this was done; try again: if it was, the answer is that \
                 it is so already"
            }
            error if error.is_full() => FULL,
            _ => "the gems' store does not answer; try again",
        };
        // The details go to the log for operators; clients can't act on them.
        tracing::error!(%error, "a request to the gems' store failed");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Away { .. } | FileError::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
            FileError::Absent { .. } => StatusCode::NOT_FOUND,
            FileError::Checksum { .. } | FileError::TooLong { .. } => StatusCode::BAD_GATEWAY,
            FileError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        match error {
            FileError::Store(error) => Self::from(&*error),
            error => Self::new(status, error),
        }
    }
}

impl From<PushError> for Failure {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Conflict(conflict) => Self::new(StatusCode::CONFLICT, conflict),
            PushError::Store(error) => error.into(),
        }
    }
}

impl From<YankError> for Failure {
    fn from(error: YankError) -> Self {
        match error {
            YankError::UnknownGem | YankError::UnknownRelease(_) => Self::not_found(error),
            YankError::AlreadyYanked(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, error),
            YankError::Store(error) => error.into(),
        }
    }
}

impl From<PackageError> for Failure {
    fn from(error: PackageError) -> Self {
        let status = match error {
            PackageError::Exceeded { .. } | PackageError::Entries(_) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn what_is_quoted_can_not_steer_a_terminal() {
        for (text, expected) in [
            ("a \"path\" isn't C:\\x", "a \"path\" isn't C:\\x"),
            ("a\x1b[31m\r\n\x07\0b", "a\\u{1b}[31m\\r\\n\\u{7}\\0b"),
            ("\u{e4}\u{202e}\u{9b}", "\u{e4}\\u{202e}\\u{9b}"),
        ] {
            let body = Failure::not_found(text).into_response().into_body();
            let told = body.collect().await.unwrap().to_bytes();
            assert_eq!(told, format!("{expected}\n"), "{text:?}");
        }
    }
}
