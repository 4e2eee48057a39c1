//! Which attributes of channels a caller wants to know.

use super::super::excerpt::Excerpt;
use super::super::signature::SignedQuery;

/// The attributes that were asked for: a set. Those that a channel doesn't have are left out of what
/// is told about it, whoever asks.
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
}

impl<'a> ListRequest<'a> {
    /// Reads what is asked about many channels.
    ///
    /// # Errors
    /// The name that is no attribute's.
    pub fn parse(query: &'a SignedQuery<'_>) -> Result<Self, InfoError> {
        let filter_by_prefix = query.get("filter_by_prefix").unwrap_or_default();
        let info = InfoRequest::parse(query.get("info"))?;
        Ok(Self { filter_by_prefix, info })
    }
}
