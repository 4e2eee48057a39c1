//! The attributes of channels that a request asks for.

use super::super::excerpt::Excerpt;
use super::super::signature::SignedQuery;

/// A set of requested attributes. Responses omit those that a channel does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoRequest {
    /// The number of distinct users, for a presence channel.
    pub user_count: bool,
    /// The number of subscribed connections.
    pub subscription_count: bool,
    /// The last event, for a cache channel.
    pub cache: bool,
}

/// A request to list channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRequest<'a> {
    /// Prefix of the names of the listed channels.
    pub filter_by_prefix: &'a str,
    /// The attributes of each channel.
    pub info: InfoRequest,
}

/// Why attributes were rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// No attribute has this name.
    #[error(
        "info has '{}'; it is a list, with commas, of user_count, subscription_count, cache",
        Excerpt(.name)
    )]
    Unknown { name: String },
}

impl InfoRequest {
    /// Parses a comma-separated list. None and an empty text request nothing.
    ///
    /// # Errors
    /// Returns the first name that is not an attribute.
    pub fn parse(list: Option<&str>) -> Result<Self, InfoError> {
        let mut info = Self::default();
        let names = list.unwrap_or_default().split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            match name {
                "user_count" => info.user_count = true,
                "subscription_count" => info.subscription_count = true,
                "cache" => info.cache = true,
                _ => return Err(InfoError::Unknown { name: name.to_owned() }),
            }
        }
        Ok(info)
    }
}

impl<'a> ListRequest<'a> {
    /// Parses the query of a request to list channels.
    ///
    /// # Errors
    /// Returns the first name that is not an attribute.
    pub fn parse(query: &'a SignedQuery<'_>) -> Result<Self, InfoError> {
        let filter_by_prefix = query.get("filter_by_prefix").unwrap_or_default();
        let info = InfoRequest::parse(query.get("info"))?;
        Ok(Self { filter_by_prefix, info })
    }
}
