//! The JSON object that follows most verbs.

use serde::Deserialize;

use super::refusal::FaktoryError;

/// Reads the object behind `command`. Serde alone would take an array as one, too, its elements in
/// the order of our fields.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    command: &'static str,
    json: &'a [u8],
) -> Result<T, FaktoryError> {
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(FaktoryError::malformed(command, "a JSON object must follow"));
    }
    serde_json::from_slice(json).map_err(|error| FaktoryError::malformed(command, error))
}
