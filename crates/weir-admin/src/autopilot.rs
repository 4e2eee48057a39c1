//! The admin API of the autopilot. Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET autopilot` | an [`AutopilotStatus`] |
//! | `GET autopilot/journal?before=12&limit=50` | a list of [`JournalEntry`], the newest first |
//! | `POST autopilot/mode`: a [`ModeChange`] | an [`AutopilotStatus`], once the mode is in force |
//! | `POST autopilot/override`: an [`OverrideChange`] | an [`AutopilotStatus`], once the value is in force |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router};
use weir_autopilot::journal::JournalEntry;
use weir_autopilot::view::{AutopilotStatus, JournalQuery, ModeChange, OverrideChange};
use weir_autopilot::{AutopilotHandle, CommandError};
use weir_base::admin_api::{AdminError, JsonInput, Params};

use crate::api_routes::{ApiRoutes, get, post};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::AdminResult;

fn routes() -> ApiRoutes<Option<AutopilotHandle>> {
    ApiRoutes::new()
        .route("/autopilot", get(status))
        .route("/autopilot/journal", get(journal))
        .route("/autopilot/mode", post(set_mode))
        .route("/autopilot/override", post(set_override))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes; they return an error if no autopilot runs here.
pub fn router(autopilot: Option<AutopilotHandle>) -> Router {
    routes().into_router().with_state(autopilot)
}

async fn status(State(autopilot): State<Option<AutopilotHandle>>) -> AdminResult<AutopilotStatus> {
    let handle = autopilot.ok_or_else(not_served)?;
    Ok(Json((*handle.status()).clone()))
}

async fn journal(
    State(autopilot): State<Option<AutopilotHandle>>,
    Params(query): Params<JournalQuery>,
) -> AdminResult<Vec<JournalEntry>> {
    let handle = autopilot.ok_or_else(not_served)?;
    Ok(Json(handle.journal(&query)))
}

async fn set_mode(
    State(autopilot): State<Option<AutopilotHandle>>,
    JsonInput(change): JsonInput<ModeChange>,
) -> AdminResult<AutopilotStatus> {
    let handle = autopilot.ok_or_else(not_served)?;
    handle.set_mode(change).await.map_err(command_error)?;
    Ok(Json((*handle.status()).clone()))
}

async fn set_override(
    State(autopilot): State<Option<AutopilotHandle>>,
    JsonInput(change): JsonInput<OverrideChange>,
) -> AdminResult<AutopilotStatus> {
    let handle = autopilot.ok_or_else(not_served)?;
    handle.set_override(change).await.map_err(command_error)?;
    Ok(Json((*handle.status()).clone()))
}

/// Converts an error of a command.
pub fn command_error(error: CommandError) -> AdminError {
    let (status, hint) = match error {
        CommandError::NotRunning => (StatusCode::SERVICE_UNAVAILABLE, "is it being restarted?"),
        CommandError::Busy => (StatusCode::TOO_MANY_REQUESTS, ""),
        CommandError::NotPossible(_) => (StatusCode::CONFLICT, ""),
        CommandError::Invalid(_) => (StatusCode::BAD_REQUEST, ""),
        CommandError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "see the log"),
    };
    AdminError::new(status, error.to_string(), hint)
}

fn not_served() -> AdminError {
    let hint = "it runs where the job server runs";
    AdminError::new(StatusCode::NOT_FOUND, "there is no autopilot here", hint)
}
