//! Conversions of values in columns, for both databases.

use super::StoreError;
use crate::name::GemName;

/// Converts a count, a length or a row id for a column, which has 64 bits with a sign. Larger
/// values, such as an unlimited limit, become the maximum.
pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// Converts a value of a column back. Negative values are never written.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Wraps a name that was validated when it was written.
pub(super) fn name(text: &str) -> Result<GemName, StoreError> {
    text.parse().map_err(|error| StoreError::Damaged(format!("the name {text:?}: {error}")))
}
