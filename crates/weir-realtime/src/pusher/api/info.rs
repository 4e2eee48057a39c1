//! Which attributes of channels a caller wants to know.

use super::super::channel::ChannelKind;
use super::super::excerpt::Excerpt;
use super::super::signature::Query;

/// The attributes that were asked for: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoRequest {
    /// Distinct users, of a presence channel.
    pub user_count: bool,
    /// Connections that are subscribed.
    pub subscription_count: bool,
    /// The last event, of a cache channel.
    pub cache: bool,
}

/// A wish to list channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRequest<'a> {
    /// Only channels whose names begin so.
    pub filter_by_prefix: &'a str,
    /// About each of them.
    pub info: InfoRequest,
}

/// Why attributes were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// No attribute has that name.
    #[error(
        "info has '{}'; it is a list, with commas, of user_count, subscription_count, cache",
        Excerpt(.name)
    )]
    Unknown { name: String },
    /// Only presence channels have users.
    #[error("user_count is known of presence channels only{hint}")]
    NoUsers { hint: &'static str },
    /// Only cache channels have that.
    #[error("cache is known of cache channels only, one at a time")]
    NoCache,
}

impl InfoRequest {
    /// Reads a list with commas; nothing and an empty text ask for nothing.
    ///
    /// # Errors
    /// The name that is no attribute's.
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

    /// Reads what is asked about one channel.
    ///
    /// # Errors
    /// The attribute that such a channel doesn't have.
    pub fn of_channel(query: &Query<'_>, kind: ChannelKind) -> Result<Self, InfoError> {
        let info = Self::parse(query.get("info"))?;
        if info.user_count && !kind.has_presence() {
            return Err(InfoError::NoUsers { hint: "" });
        }
        if info.cache && !kind.caches {
            return Err(InfoError::NoCache);
        }
        Ok(info)
    }
}

impl<'a> ListRequest<'a> {
    /// Reads what is asked about many channels.
    ///
    /// # Errors
    /// The attribute that not all of them have.
    pub fn parse(query: &'a Query<'_>) -> Result<Self, InfoError> {
        let filter_by_prefix = query.get("filter_by_prefix").unwrap_or_default();
        let info = InfoRequest::parse(query.get("info"))?;
        if info.user_count && !ChannelKind::of(filter_by_prefix).has_presence() {
            return Err(InfoError::NoUsers { hint: ": add filter_by_prefix=presence-" });
        }
        if info.cache {
            return Err(InfoError::NoCache);
        }
        Ok(Self { filter_by_prefix, info })
    }
}
