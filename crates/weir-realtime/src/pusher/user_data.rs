//! `user_data` of a sign-in: whom the application's server says the connection's user is.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Plain};
use super::limits::PusherLimits;
use super::presence_data::{UserInfoError, check_user_info};
use super::user_id::{self, UserIdError};

/// A user who signs in.
#[derive(Clone, Debug)]
pub struct UserData<'a> {
    /// Never empty.
    pub id: Cow<'a, str>,
    /// What members of presence channels are shown, as it stood.
    pub user_info: Option<&'a RawValue>,
    /// Whose coming and going the user wants to know.
    pub watchlist: Watchlist<'a>,
}

/// The users that a user watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watchlist<'a> {
    /// The first ones, up to the limit. Nobody twice.
    pub accepted: Vec<Cow<'a, str>>,
    /// How many came after them. The sign-in succeeds, with an error 4302 beside it.
    pub left_out: usize,
}

/// Why the data was refused.
#[derive(Debug, thiserror::Error)]
pub enum UserDataError {
    /// Not the object it must be.
    #[error("user_data must be {{\"id\": \"..\", \"user_info\": {{..}}, \"watchlist\": [..]}}: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// Not an id.
    #[error("user_data: {0}")]
    UserId(#[from] UserIdError),
    /// Too much to show to everybody.
    #[error("user_data: {0}")]
    UserInfo(#[from] UserInfoError),
}

#[derive(Deserialize)]
struct UserDataFields<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    user_info: Option<&'a RawValue>,
    #[serde(borrow)]
    watchlist: Option<Vec<&'a RawValue>>,
}

impl<'a> UserData<'a> {
    /// Reads the text that was signed.
    ///
    /// # Errors
    /// What is wrong, with the field's name.
    pub fn parse(user_data: &'a str, limits: &PusherLimits) -> Result<Self, UserDataError> {
        let shape: UserDataFields<'_> = json::object(user_data).map_err(UserDataError::Shape)?;
        Ok(Self {
            // A string only: pusher-js takes no number here.
            id: user_id::from_string(shape.id, "id", limits)?,
            user_info: check_user_info(shape.user_info, limits)?,
            watchlist: Watchlist::read(&shape.watchlist.unwrap_or_default(), limits)?,
        })
    }
}

impl<'a> Watchlist<'a> {
    fn read(users: &[&'a RawValue], limits: &PusherLimits) -> Result<Self, UserIdError> {
        let (mut known, mut accepted, mut left_out) = (HashSet::new(), Vec::new(), users.len());
        for user in users {
            if accepted.len() >= limits.watchlist_users_max {
                break;
            }
            left_out -= 1;
            let user = user_id::from_string_or_number(user, "a user on the watchlist", limits)?;
            if known.insert(user.clone()) {
                accepted.push(user);
            }
        }
        Ok(Self { accepted, left_out })
    }
}
