//! The HTTP API: what callers ask for in bodies and queries, and what they are answered.

mod answer;
mod info;
mod publish;

pub use answer::{
    CachedEvent, ChannelInfo, write_batch, write_channel, write_channels, write_nothing,
    write_users,
};
pub use info::{InfoError, InfoRequest, ListRequest};
pub use publish::{BatchEvent, Publish, UserEvent, parse_batch, parse_publish, parse_user_event};

use super::channel::ChannelNameError;
use super::event::EventNameError;
use super::json::Plain;
use super::payload::PayloadError;
use super::socket_id::SocketIdError;

/// Why a request was refused. Its text is the answer's body, [`ApiError::status`] its status.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Larger than the limit.
    #[error("the body has {bytes} bytes; at most {max} are allowed")]
    BodyTooLarge { bytes: usize, max: usize },
    /// Nested deeper than the limit.
    #[error("the body is nested deeper than {max} levels")]
    TooDeep { max: usize },
    /// Not JSON, or not what is needed.
    #[error("the body is not the JSON that this needs: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// Not UTF-8.
    #[error("the body is not UTF-8: {0}")]
    Encoding(std::str::Utf8Error),
    /// Not a name that may be published.
    #[error("{0}")]
    EventName(#[from] EventNameError),
    /// Not data that can be passed on.
    #[error("{0}")]
    Payload(#[from] PayloadError),
    /// Nowhere to publish to.
    #[error("an event needs channels, an array of names, or channel, one name")]
    NoChannel,
    /// Said twice, perhaps differently.
    #[error("an event has either channels or channel, not both")]
    TwoKindsOfChannels,
    /// More channels than the limit.
    #[error("the event is for {channels} channels; at most {max} are allowed")]
    TooManyChannels { channels: usize, max: usize },
    /// Not a channel's name.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// Not a connection's id.
    #[error("{0}")]
    SocketId(#[from] SocketIdError),
    /// Not attributes of a channel.
    #[error("{0}")]
    Info(#[from] InfoError),
    /// More events than the limit.
    #[error("the batch has {events} events; at most {max} are allowed")]
    BatchTooLarge { events: usize, max: usize },
    /// One event of a batch; then none of them is published.
    #[error("event {index} of the batch: {source}")]
    InBatch { index: usize, source: Box<ApiError> },
}

impl ApiError {
    /// The HTTP status: 413 for what is too large, 400 for the rest.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::BodyTooLarge { .. } | Self::Payload(PayloadError::TooLarge { .. }) => 413,
            Self::InBatch { source, .. } => source.status(),
            _ => 400,
        }
    }
}
