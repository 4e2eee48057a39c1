//! The `channel_data` of a presence subscription: the subscriber's user, signed by the
//! application's server.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Plain};
use super::limits::PusherLimits;
use super::user_id::{self, UserIdError};

/// A member of a presence channel.
#[derive(Clone, Debug)]
pub struct PresenceData<'a> {
    /// The user's id. A number is converted to its digits, because members are keys of a JSON
    /// object.
    pub user_id: Cow<'a, str>,
    /// Information for other members, unchanged.
    pub user_info: Option<&'a RawValue>,
}

/// Why the data was rejected.
#[derive(Debug, thiserror::Error)]
pub enum PresenceDataError {
    /// The JSON does not have the required form.
    #[error("channel_data must be {{\"user_id\": .., \"user_info\": {{..}}}}: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// The user's id is invalid.
    #[error("channel_data: {0}")]
    UserId(#[from] UserIdError),
    /// The user's info exceeds a limit.
    #[error("channel_data: {0}")]
    UserInfo(#[from] UserInfoError),
}

/// Why `user_info` was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserInfoError {
    /// It is larger than the limit.
    #[error("user_info has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// It is nested deeper than the limit.
    #[error("user_info is nested deeper than {max} levels")]
    TooDeep { max: usize },
}

#[derive(Deserialize)]
struct PresenceDataFields<'a> {
    #[serde(borrow)]
    user_id: &'a RawValue,
    #[serde(borrow)]
    user_info: Option<&'a RawValue>,
}

impl<'a> PresenceData<'a> {
    /// Parses the signed text.
    ///
    /// # Errors
    /// Returns what is wrong, with the field's name.
    pub fn parse(channel_data: &'a str, limits: &PusherLimits) -> Result<Self, PresenceDataError> {
        let shape: PresenceDataFields<'_> =
            json::object(channel_data).map_err(PresenceDataError::Shape)?;
        let user_id = user_id::from_string_or_number(shape.user_id, "user_id", limits)?;
        Ok(Self { user_id, user_info: check_user_info(shape.user_info, limits)? })
    }
}

pub(super) fn check_user_info<'a>(
    user_info: Option<&'a RawValue>,
    limits: &PusherLimits,
) -> Result<Option<&'a RawValue>, UserInfoError> {
    let text = user_info.map_or("", RawValue::get);
    let (bytes, max) = (text.len(), limits.user_info_bytes_max);
    if bytes > max {
        return Err(UserInfoError::TooLarge { bytes, max });
    }
    match limits.json_depth_max {
        max if json::is_deeper_than(text, max) => Err(UserInfoError::TooDeep { max }),
        _ => Ok(user_info),
    }
}
