//! Shared parts of all responses.

use std::collections::BTreeMap;

use axum::Json;
use weir_base::admin_api::AdminError;

/// A JSON document or an error.
pub(crate) type AdminResult<T> = Result<Json<T>, AdminError>;

/// `{}`
pub type Done = BTreeMap<String, String>;

/// Rows of a list in one response by default.
const ROWS: usize = 100;
/// Limit of the rows that a request may ask for.
const ROWS_MAX: usize = 10_000;

/// Returns the number of rows for a request.
pub(crate) fn row_limit(limit: Option<usize>) -> usize {
    limit.unwrap_or(ROWS).clamp(1, ROWS_MAX)
}
