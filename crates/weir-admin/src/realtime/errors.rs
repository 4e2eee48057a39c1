//! Errors of realtime as HTTP responses.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use weir_base::admin_api::AdminError;
use weir_realtime::hub::PublishError;
use weir_realtime::operations::OperationError;

/// The error when realtime is not served.
pub(crate) fn not_served() -> AdminError {
    let hint = "add an app under [[realtime.apps]] in weir.toml, and include realtime in --only";
    AdminError::new(StatusCode::NOT_FOUND, "this Weir does not serve realtime", hint)
}

/// Returns routes that respond to every request with that error.
pub(super) fn router() -> Router {
    Router::new().route("/realtime/{*rest}", any(async || not_served()))
}

pub(super) fn not_saved(error: &impl std::fmt::Display) -> AdminError {
    let hint = "free space in data_dir, then try again";
    AdminError::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string(), hint)
}

pub(super) fn no_such_channel(name: &str) -> AdminError {
    let hint = "a channel exists while it has subscribers or a history";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no channel {name:?}"), hint)
}

pub(super) fn no_users(channel: &str) -> AdminError {
    let hint = "only presence channels have users, and only while they have subscribers";
    AdminError::new(StatusCode::NOT_FOUND, format!("channel {channel:?} has no users"), hint)
}

pub(super) fn operation_error(error: OperationError) -> AdminError {
    use OperationError as E;
    let text = error.to_string();
    let (status, hint) = match error {
        E::NoSuchApp { .. } => (StatusCode::NOT_FOUND, ""),
        E::AppDisabled(_) => (StatusCode::CONFLICT, "enable it in weir.toml and reload"),
        E::NoSuchUser(_) => (
            StatusCode::NOT_FOUND,
            "users sign in with pusher:signin; close other connections by socket_id",
        ),
        E::NoSuchConnection { .. } => (StatusCode::NOT_FOUND, "it may be closed already"),
        E::Channel(_) | E::Event(_) | E::Data(_) | E::SocketId(_) => (StatusCode::BAD_REQUEST, ""),
        E::Refused(
            PublishError::Busy(_)
            | PublishError::HandedOver
            | PublishError::Log(_)
            | PublishError::Durable(_),
        ) => (StatusCode::SERVICE_UNAVAILABLE, ""),
        E::Refused(PublishError::TooManyChannels(_)) => (StatusCode::UNPROCESSABLE_ENTITY, ""),
        E::TooManyWatchers { .. } => (StatusCode::SERVICE_UNAVAILABLE, "close one of them"),
    };
    AdminError::new(status, text, hint)
}
