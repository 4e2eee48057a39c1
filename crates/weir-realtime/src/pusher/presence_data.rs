//! `channel_data` of a presence channel: whom the application's server says the subscriber is.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Plain};
use super::limits::PusherLimits;
use super::user_id::{self, UserIdError};

/// A member of a presence channel.
#[derive(Clone, Debug)]
pub struct PresenceData<'a> {
    /// Always text; numbers are taken as their digits, as members are keys of an object.
    pub user_id: Cow<'a, str>,
    /// What the others are shown, as it stood.
    pub user_info: Option<&'a RawValue>,
}

/// Why the data was refused.
#[derive(Debug, thiserror::Error)]
pub enum PresenceDataError {
    /// Not the object it must be.
    #[error("channel_data must be {{\"user_id\": .., \"user_info\": {{..}}}}: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// Not an id.
    #[error("channel_data: {0}")]
    UserId(#[from] UserIdError),
    /// Too much to show to everybody.
    #[error("channel_data: {0}")]
    UserInfo(#[from] UserInfoError),
}

/// Why `user_info` was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserInfoError {
    /// Larger than the limit.
    #[error("user_info has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// Nested deeper than the limit.
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
    /// Reads the text that was signed.
    ///
    /// # Errors
    /// What is wrong, with the field's name.
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
