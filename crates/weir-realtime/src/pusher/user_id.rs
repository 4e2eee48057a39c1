//! Ids of the application's users.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::JsonText;
use super::limits::PusherLimits;

/// Why an id was rejected. `field` is where it occurred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserIdError {
    /// The id is empty.
    #[error("{field} is empty")]
    Empty { field: &'static str },
    /// The id is longer than the limit.
    #[error("{field} is longer than {max} characters")]
    TooLong { field: &'static str, max: usize },
    /// The id is neither text nor a whole number.
    #[error("{field} must be {expected}")]
    Type { field: &'static str, expected: &'static str },
}

/// Checks the length of an id.
pub(super) fn check<'a>(
    id: Cow<'a, str>,
    field: &'static str,
    limits: &PusherLimits,
) -> Result<Cow<'a, str>, UserIdError> {
    let max = limits.user_id_characters_max;
    match &*id {
        "" => Err(UserIdError::Empty { field }),
        long if long.len() > max && long.chars().count() > max => {
            Err(UserIdError::TooLong { field, max })
        }
        _ => Ok(id),
    }
}

/// Parses an id that is a string.
pub(super) fn from_string<'a>(
    json: &'a RawValue,
    field: &'static str,
    limits: &PusherLimits,
) -> Result<Cow<'a, str>, UserIdError> {
    let text = JsonText::deserialize(json)
        .map_err(|_| UserIdError::Type { field, expected: "a string" })?;
    check(text.0, field, limits)
}

/// Parses an id that is a string or a whole number. A number is converted to its digits.
pub(super) fn from_string_or_number<'a>(
    json: &'a RawValue,
    field: &'static str,
    limits: &PusherLimits,
) -> Result<Cow<'a, str>, UserIdError> {
    let digits = json.get().strip_prefix('-').unwrap_or(json.get());
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return check(Cow::Borrowed(json.get()), field, limits);
    }
    from_string(json, field, limits).map_err(|error| match error {
        UserIdError::Type { field, .. } => {
            UserIdError::Type { field, expected: "a string or a whole number" }
        }
        other => other,
    })
}
