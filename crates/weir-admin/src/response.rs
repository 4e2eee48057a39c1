//! What the responses of all parts have in common.

use std::collections::BTreeMap;

use axum::Json;
use weir_base::admin_api::AdminError;

/// A JSON document, or what went wrong.
pub(crate) type AdminResult<T> = Result<Json<T>, AdminError>;

/// `{}`
pub type Done = BTreeMap<String, String>;

/// Rows of a list in one response, unless the request has another number ..
const ROWS: usize = 100;
/// .. and at most.
const ROWS_MAX: usize = 10_000;

/// How many rows a request gets.
pub(crate) fn bounded(limit: Option<usize>) -> usize {
    limit.unwrap_or(ROWS).clamp(1, ROWS_MAX)
}
