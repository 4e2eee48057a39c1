//! What went wrong, as an HTTP answer.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use weir_realtime::hub::Refused;
use weir_realtime::operations::OperationError;
use weir_realtime::switchboard::SwitchError;

/// An error and what to do about it.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    hint: &'static str,
}

const PAGES: &str = "see docs/reference for the requests of the admin API";

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: &'static str) -> Self {
        Self { status, error: error.into(), hint }
    }

    pub(super) fn not_served() -> Self {
        let hint = "it is with an app in [[realtime.apps]], unless --only leaves it out";
        Self::new(StatusCode::NOT_FOUND, "realtime is not served by this Weir", hint)
    }

    pub(super) fn no_such_page() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such request", PAGES)
    }

    pub(super) fn wrong_method() -> Self {
        let hint = "reading is GET, acting is POST";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this request has another method", hint)
    }

    pub(super) fn no_such_app(id: &str) -> Self {
        OperationError::NoSuchApp(id.to_owned()).into()
    }

    pub(super) fn no_such_channel(name: &str) -> Self {
        let hint = "a channel is there while somebody is subscribed or its history is kept";
        Self::new(StatusCode::NOT_FOUND, format!("nobody knows channel {name:?}"), hint)
    }

    pub(super) fn no_users(channel: &str) -> Self {
        let hint = "only presence channels have users, and only while somebody is subscribed";
        Self::new(StatusCode::NOT_FOUND, format!("channel {channel:?} has no users"), hint)
    }

    pub(super) fn is_on(pattern: &str) -> Self {
        let hint = "GET switches lists what is off";
        Self::new(StatusCode::NOT_FOUND, format!("{pattern:?} is not switched off"), hint)
    }
}

impl From<OperationError> for Problem {
    fn from(error: OperationError) -> Self {
        use OperationError as E;
        let text = error.to_string();
        let (status, hint) = match error {
            E::NoSuchApp(_) => (StatusCode::NOT_FOUND, "GET realtime/overview lists the apps"),
            E::AppDisabled(_) => (StatusCode::CONFLICT, "enable it in weir.toml and reload"),
            E::NoSuchUser(_) => (
                StatusCode::NOT_FOUND,
                "users sign in with pusher:signin; who did not can be named by socket_id",
            ),
            E::NoSuchConnection { .. } => (StatusCode::NOT_FOUND, "it may be gone already"),
            E::Channel(_) | E::Event(_) | E::Data(_) | E::SocketId(_) => {
                (StatusCode::BAD_REQUEST, "")
            }
            E::Refused(Refused::Busy(_)) => (StatusCode::SERVICE_UNAVAILABLE, ""),
            E::Refused(Refused::TooManyChannels(_)) => (StatusCode::UNPROCESSABLE_ENTITY, ""),
            E::TooManyWatchers { .. } => (StatusCode::SERVICE_UNAVAILABLE, "close one of them"),
        };
        Self::new(status, text, hint)
    }
}

impl From<SwitchError> for Problem {
    fn from(error: SwitchError) -> Self {
        let status = match &error {
            SwitchError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
            SwitchError::NotKept { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string(), "")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.error, "hint": self.hint }))).into_response()
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
            Problem::new(StatusCode::BAD_REQUEST, error.body_text(), PAGES)
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
