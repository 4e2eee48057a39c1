//! Shared parts of the admin API's requests: reading input, and one format of errors.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An error with a hint, sent as `{"error":"..","hint":".."}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminError {
    status: StatusCode,
    error: String,
    hint: &'static str,
}

/// Extracts the query of a URL.
#[derive(Clone, Debug)]
pub struct Params<T>(pub T);

/// Extracts a JSON body.
#[derive(Clone, Debug)]
pub struct JsonInput<T>(pub T);

const PAGES: &str = "see docs/reference for the requests of the admin API";

impl AdminError {
    /// Creates an error; `hint` may be empty.
    #[must_use]
    pub fn new(status: StatusCode, error: impl Into<String>, hint: &'static str) -> Self {
        Self { status, error: error.into(), hint }
    }

    /// Appends `note` to the error's text.
    #[must_use]
    pub fn with_note(mut self, note: &str) -> Self {
        self.error.push_str(note);
        self
    }

    /// Returns the error and the hint as text for people.
    #[must_use]
    pub fn text(&self) -> String {
        if self.hint.is_empty() {
            self.error.clone()
        } else {
            format!("{} ({})", self.error, self.hint)
        }
    }

    /// Returns the error for an unknown path.
    #[must_use]
    pub fn no_such_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such request", PAGES)
    }

    /// Returns the error for a known path with another method.
    #[must_use]
    pub fn wrong_method() -> Self {
        let hint = "reading is GET, acting is POST";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this request has another method", hint)
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Text {
            error: String,
            hint: &'static str,
        }
        (self.status, Json(Text { error: self.error, hint: self.hint })).into_response()
    }
}

impl From<QueryRejection> for AdminError {
    fn from(error: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.body_text(), PAGES)
    }
}

impl From<JsonRejection> for AdminError {
    fn from(error: JsonRejection) -> Self {
        let hint = "the body is JSON, sent with Content-Type: application/json";
        Self::new(error.status(), error.body_text(), hint)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AdminError> {
        let Query(value) = Query::<T>::from_request_parts(parts, state).await?;
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonInput<T> {
    type Rejection = AdminError;

    async fn from_request(request: Request, state: &S) -> Result<Self, AdminError> {
        let Json(value) = Json::<T>::from_request(request, state).await?;
        Ok(Self(value))
    }
}
