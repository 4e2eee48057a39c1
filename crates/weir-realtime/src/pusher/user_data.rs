//! The `user_data` of a sign-in: the connection's user, signed by the application's server.

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
    /// The user's id, never empty.
    pub id: Cow<'a, str>,
    /// Information for members of presence channels, unchanged.
    pub user_info: Option<&'a RawValue>,
    /// The users whose online and offline events this user receives.
    pub watchlist: Watchlist<'a>,
}

/// The users that a user watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watchlist<'a> {
    /// The first users, up to the limit, without duplicates.
    pub accepted: Vec<Cow<'a, str>>,
    /// Number of users beyond the limit. The sign-in succeeds, with an additional error 4302.
    pub dropped: usize,
}

/// Why the data was rejected.
#[derive(Debug, thiserror::Error)]
pub enum UserDataError {
    /// The JSON does not have the required form.
    #[error("user_data must be {{\"id\": \"..\", \"user_info\": {{..}}, \"watchlist\": [..]}}: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// A user's id is invalid.
    #[error("user_data: {0}")]
    UserId(#[from] UserIdError),
    /// The user's info exceeds a limit.
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
    /// Parses the signed text.
    ///
    /// # Errors
    /// Returns what is wrong, with the field's name.
    pub fn parse(user_data: &'a str, limits: &PusherLimits) -> Result<Self, UserDataError> {
        let shape: UserDataFields<'_> = json::object(user_data).map_err(UserDataError::Shape)?;
        Ok(Self {
            // Only a string is allowed: pusher-js does not accept a number here.
            id: user_id::from_string(shape.id, "id", limits)?,
            user_info: check_user_info(shape.user_info, limits)?,
            watchlist: Watchlist::read(&shape.watchlist.unwrap_or_default(), limits)?,
        })
    }
}

impl<'a> Watchlist<'a> {
    fn read(users: &[&'a RawValue], limits: &PusherLimits) -> Result<Self, UserIdError> {
        let (mut known, mut accepted, mut dropped) = (HashSet::new(), Vec::new(), users.len());
        for user in users {
            if accepted.len() >= limits.watchlist_users_max {
                break;
            }
            dropped -= 1;
            let user = user_id::from_string_or_number(user, "a user on the watchlist", limits)?;
            if known.insert(user.clone()) {
                accepted.push(user);
            }
        }
        Ok(Self { accepted, dropped })
    }
}
