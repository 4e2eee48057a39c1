//! Bodies of answers with the status 200: each function appends one to a buffer.

use serde::Serialize;

use super::super::json::{List, Map, write};

/// What is told about a channel: the attributes that were asked for and that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelInfo<'a> {
    /// Distinct users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_count: Option<usize>,
    /// Connections that are subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_count: Option<usize>,
    /// The last event, if it was asked for; `null` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Option<CachedEvent<'a>>>,
}

/// The last event of a cache channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CachedEvent<'a> {
    /// Its data.
    pub data: &'a str,
    /// Seconds that it will still be kept.
    #[serde(rename = "ttl")]
    pub ttl_seconds: u64,
}

/// The answer to what asks nothing: an empty object.
pub fn write_nothing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{}");
}

/// Channels by name: the answer to a list, and to an event published with `info`.
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

/// The answer to a batch with `info`: one for each event, in the events' order.
pub fn write_batch<'a>(out: &mut Vec<u8>, channels: impl Iterator<Item = ChannelInfo<'a>> + Clone) {
    #[derive(Serialize)]
    struct Batch<T> {
        batch: T,
    }
    write(out, &Batch { batch: List(channels) });
}

/// One channel.
pub fn write_channel(out: &mut Vec<u8>, occupied: bool, info: &ChannelInfo<'_>) {
    #[derive(Serialize)]
    struct Channel<'a> {
        occupied: bool,
        #[serde(flatten)]
        info: &'a ChannelInfo<'a>,
    }
    write(out, &Channel { occupied, info });
}

/// The users of a presence channel.
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
