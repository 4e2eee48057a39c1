//! Bodies of responses with the status 200. Each function appends one to a buffer.

use serde::Serialize;

use super::super::json::{List, Map, write};

/// The attributes of a channel: those that were requested and that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelInfo<'a> {
    /// Number of distinct users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_count: Option<usize>,
    /// Number of subscribed connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_count: Option<usize>,
    /// The last event, if it was requested. `Some(None)`, in JSON `null`, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Option<CachedEvent<'a>>>,
}

/// The last event of a cache channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CachedEvent<'a> {
    /// The event's data.
    pub data: &'a str,
    /// Seconds until the event expires.
    #[serde(rename = "ttl")]
    pub ttl_seconds: u64,
}

/// Appends an empty object, for requests without a result.
pub fn write_nothing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{}");
}

/// Appends channels by name, for a list or for an event published with `info`.
pub fn write_channels<'a>(
    out: &mut Vec<u8>,
    channels: impl Iterator<Item = (&'a str, ChannelInfo<'a>)> + Clone,
) {
    #[derive(Serialize)]
    struct Channels<T> {
        channels: T,
    }
    write(out, &Channels { channels: Map(channels) });
}

/// Appends the channels of a batch with `info`, in the order of the events.
pub fn write_batch<'a>(out: &mut Vec<u8>, channels: impl Iterator<Item = ChannelInfo<'a>> + Clone) {
    #[derive(Serialize)]
    struct Batch<T> {
        batch: T,
    }
    write(out, &Batch { batch: List(channels) });
}

/// Appends one channel.
pub fn write_channel(out: &mut Vec<u8>, occupied: bool, info: &ChannelInfo<'_>) {
    #[derive(Serialize)]
    struct Channel<'a> {
        occupied: bool,
        #[serde(flatten)]
        info: &'a ChannelInfo<'a>,
    }
    write(out, &Channel { occupied, info });
}

/// Appends the users of a presence channel.
pub fn write_users<'a>(out: &mut Vec<u8>, ids: impl Iterator<Item = &'a str> + Clone) {
    #[derive(Serialize)]
    struct Users<T> {
        users: T,
    }
    #[derive(Serialize)]
    struct User<'a> {
        id: &'a str,
    }
    write(out, &Users { users: List(ids.map(|id| User { id })) });
}
