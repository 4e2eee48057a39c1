//! The JSON document of `weir doctor --json` and `/v1/doctor`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use weir_advisor::{Advice, Observation};
use weir_base::admin_api::AdminError;

use super::Observed;

/// Returns the verdict, the findings and the whole observation.
pub fn document(observation: &Observation, advice: &Advice) -> Value {
    let drain_seconds = advice.verdict.until_all_is_empty().map(|left| left.as_secs());
    json!({
        "line": advice.verdict.to_string(),
        "verdict": advice.verdict,
        "drain_seconds": drain_seconds,
        "findings": advice.findings,
        "observation": observation,
    })
}

/// Returns the route `GET doctor`, which serves the newest snapshot. None: nothing is observed.
pub fn router(observed: Option<Observed>) -> Router {
    Router::new().route("/doctor", get(doctor)).with_state(observed)
}

async fn doctor(State(observed): State<Option<Observed>>) -> Response {
    let Some(observed) = observed else {
        let error = "this Weir observes nothing";
        let hint = "add a table [observe] to weir.toml, or run `weir doctor` once";
        return AdminError::new(StatusCode::NOT_FOUND, error, hint).into_response();
    };
    let Some(snapshot) = observed.latest() else {
        let error = "there is no snapshot yet";
        return AdminError::new(StatusCode::SERVICE_UNAVAILABLE, error, "retry in a few seconds")
            .into_response();
    };
    let mut document = document(&snapshot.observation, &snapshot.advice);
    document["at"] = json!(snapshot.at.as_secs_f64());
    document["sources"] = json!(snapshot.sources);
    Json(document).into_response()
}
