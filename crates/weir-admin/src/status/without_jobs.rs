//! The response of `/v1/jobs` where jobs are not served.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use weir_base::admin_api::AdminError;

/// Returns routes whose error lists the parts that are served.
pub(super) fn router(only: &[&str]) -> Router {
    let error = format!("this process does not serve jobs; it serves {}", only.join(", "));
    let hint =
        "set jobs.listen to an address, and start Weir without --only or with jobs among its parts";
    let problem = AdminError::new(StatusCode::NOT_FOUND, error, hint);
    Router::new().route("/{*rest}", any(async move || problem))
}
