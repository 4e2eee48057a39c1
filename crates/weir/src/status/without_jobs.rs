//! What `/v1/jobs` answers where there are none.

use axum::http::StatusCode;
use axum::routing::any;
use axum::{Json, Router};
use serde_json::json;

use crate::part::Part;

/// Says which parts were wanted instead.
pub(super) fn router(only: &[Part]) -> Router {
    let parts: Vec<&str> = only.iter().map(|part| part.name()).collect();
    let error = format!("jobs are not part of this process (--only {})", parts.join(","));
    let hint = "start Weir without --only, or with jobs among its parts";
    let answer = (StatusCode::NOT_FOUND, Json(json!({ "error": error, "hint": hint })));
    Router::new().route("/{*rest}", any(async move || answer))
}
