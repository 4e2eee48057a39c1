//! What went wrong, as an HTTP answer: the one place where errors become statuses.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::handle::HandleError;
use crate::store::StoreError;

/// An error and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    hint: &'static str,
}

/// `{"error":"..","hint":".."}`
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Text {
    error: String,
    hint: String,
}

const PLACES: &str = "a place is scheduled, retries, dead or queue:NAME";

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: &'static str) -> Self {
        Self { status, error: error.into(), hint }
    }

    /// The same, with something behind the error.
    pub(super) fn with_note(mut self, note: &str) -> Self {
        self.error.push_str(note);
        self
    }

    pub(super) fn no_such_page() -> Self {
        let hint = "see docs/reference for the requests of the admin API";
        Self::new(StatusCode::NOT_FOUND, "there is no such request", hint)
    }

    pub(super) fn wrong_method() -> Self {
        let hint = "reading is GET, acting is POST";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this request has another method", hint)
    }

    pub(super) fn no_such_job(jid: &str) -> Self {
        let hint = "it may be done already; an id is case-sensitive";
        Self::new(StatusCode::NOT_FOUND, format!("there is no job {jid:?}"), hint)
    }

    pub(super) fn no_such_worker(wid: &str) -> Self {
        let hint = "it may have stopped beating; GET workers lists those that beat";
        Self::new(StatusCode::NOT_FOUND, format!("there is no worker {wid:?}"), hint)
    }
}

impl From<HandleError> for Problem {
    fn from(error: HandleError) -> Self {
        let text = error.to_string();
        match error {
            HandleError::Gone => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text, "is it being restarted? try again")
            }
            HandleError::Busy => {
                let hint = "try again, or raise jobs.limits.admin_requests_max";
                Self::new(StatusCode::TOO_MANY_REQUESTS, text, hint)
            }
            HandleError::Invalid(_) => Self::new(StatusCode::BAD_REQUEST, text, PLACES),
            HandleError::Store(error) => Self::new(status(&error), text, hint(&error)),
        }
    }
}

const fn status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        StoreError::Limit(_) => StatusCode::UNPROCESSABLE_ENTITY,
        StoreError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        StoreError::NotFound(_) => StatusCode::NOT_FOUND,
        StoreError::Closed => StatusCode::SERVICE_UNAVAILABLE,
    }
}

const fn hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::DiskFull => "free space in data_dir",
        StoreError::Failed(_) => "see the log, check the disk, then restart",
        StoreError::Limit(_) => "the limit is a setting under [jobs.limits]",
        StoreError::TooLarge { .. } => "keep large data elsewhere and put its address into the job",
        StoreError::NotFound(_) => "it may be done already",
        StoreError::Closed => "is it being restarted? try again",
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = Text { error: self.error, hint: self.hint.to_owned() };
        (self.status, Json(text)).into_response()
    }
}

/// The query of a URL.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<T: for<'de> Deserialize<'de>, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let Query(value) = read.map_err(|error: QueryRejection| {
            Problem::new(StatusCode::BAD_REQUEST, error.body_text(), PLACES)
        })?;
        Ok(Self(value))
    }
}

/// A JSON body.
#[derive(Debug)]
pub(super) struct Input<T>(pub(super) T);

impl<T: for<'de> Deserialize<'de>, S: Send + Sync> FromRequest<S> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let read = Json::<T>::from_request(request, state).await;
        let Json(value) = read.map_err(|error: JsonRejection| {
            let hint = "the body is JSON, sent with Content-Type: application/json";
            Problem::new(error.status(), error.body_text(), hint)
        })?;
        Ok(Self(value))
    }
}
