//! The JSON document of `weir doctor --json` and `/v1/doctor`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router};
use serde_json::{Value, json};
use weir_advisor::{Advice, Observation};
use weir_base::admin_api::AdminError;

use super::Observed;
use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::response::AdminResult;

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

fn routes() -> ApiRoutes<Option<Observed>> {
    ApiRoutes::new().route("/doctor", get(doctor))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the route `GET doctor`, which serves the newest snapshot. None: nothing is observed.
pub fn router(observed: Option<Observed>) -> Router {
    routes().into_router().with_state(observed)
}

async fn doctor(State(observed): State<Option<Observed>>) -> AdminResult<Value> {
    let Some(observed) = observed else {
        let error = "this Weir observes nothing";
        let hint = "add a table [observe] to weir.toml, or run `weir doctor` once";
        return Err(AdminError::new(StatusCode::NOT_FOUND, error, hint));
    };
    let Some(snapshot) = observed.latest() else {
        let error = "there is no snapshot yet";
        let hint = "retry in a few seconds";
        return Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, error, hint));
    };
    let mut document = document(&snapshot.observation, &snapshot.advice);
    document["at"] = json!(snapshot.at.as_secs_f64());
    document["sources"] = json!(snapshot.sources);
    Ok(Json(document))
}
