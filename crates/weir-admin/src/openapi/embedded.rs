//! `GET openapi.json`: the document that was generated when this version was made.

use std::io::Read;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use flate2::read::ZlibDecoder;

use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;

/// Written by build.rs.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.z"));

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut document = Vec::new();
    ZlibDecoder::new(PACKED).read_to_end(&mut document).expect("build.rs has compressed it");
    document.into()
});

fn routes() -> ApiRoutes<()> {
    ApiRoutes::new().route("/openapi.json", get(embedded))
}

/// Returns the description of the route.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the route of the document.
pub(crate) fn router() -> Router {
    routes().into_router()
}

async fn embedded() -> ([(HeaderName, &'static str); 1], Bytes) {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone())
}
