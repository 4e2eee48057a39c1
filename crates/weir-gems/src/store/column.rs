//! What a column holds, in either database.

use super::StoreError;
use crate::name::GemName;

/// A count, a length or a row's number: columns have 64 bits with a sign. What no column can hold, such
/// as a limit that is none, is the most that one can.
pub(super) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// The other way round. Nothing that is negative was ever written.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// A name that was checked when it was written.
pub(super) fn name(text: &str) -> Result<GemName, StoreError> {
    text.parse().map_err(|error| StoreError::Damaged(format!("the name {text:?}: {error}")))
}
