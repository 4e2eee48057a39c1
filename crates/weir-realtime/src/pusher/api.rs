//! Bodies and queries of requests to the HTTP API, and bodies of its responses.

mod info;
mod publish;
mod response;

pub use info::{InfoError, InfoRequest, ListRequest};
pub use publish::{BatchEvent, Publish, UserEvent, parse_batch, parse_publish, parse_user_event};
pub use response::{
    CachedEvent, ChannelInfo, write_batch, write_channel, write_channels, write_nothing,
    write_users,
};

use super::channel::ChannelNameError;
use super::event::EventNameError;
use super::json::Plain;
use super::payload::PayloadError;
use super::socket_id::SocketIdError;

/// Why a request was rejected. Its text is the response's body, and [`ApiError::status`] the
/// response's status.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The body is larger than the limit.
    #[error("the body has {bytes} bytes; at most {max} are allowed")]
    BodyTooLarge { bytes: usize, max: usize },
    /// The idempotency key is empty or longer than the limit.
    #[error("idempotency_key has {bytes} bytes; write 1 to {max}")]
    IdempotencyKey { bytes: usize, max: usize },
    /// The body is nested deeper than the limit.
    #[error("the body is nested deeper than {max} levels")]
    TooDeep { max: usize },
    /// The body is not JSON, or does not have the required form.
    #[error("the body is not the JSON that this needs: {}", Plain(.0))]
    Shape(serde_json::Error),
    /// The body is not UTF-8.
    #[error("the body is not UTF-8: {0}")]
    Encoding(std::str::Utf8Error),
    /// The event's name is invalid.
    #[error("{0}")]
    EventName(#[from] EventNameError),
    /// The event's data is invalid.
    #[error("{0}")]
    Payload(#[from] PayloadError),
    /// The event has no channel.
    #[error("an event needs channels, an array of names, or channel, one name")]
    NoChannel,
    /// The event has both `channels` and `channel`.
    #[error("an event has either channels or channel, not both")]
    TwoKindsOfChannels,
    /// There are more channels than the limit.
    #[error("the event is for {channels} channels; at most {max} are allowed")]
    TooManyChannels { channels: usize, max: usize },
    /// A channel's name is invalid.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// The connection's id is invalid.
    #[error("{0}")]
    SocketId(#[from] SocketIdError),
    /// The attributes in `info` are invalid.
    #[error("{0}")]
    Info(#[from] InfoError),
    /// There are more events than the limit.
    #[error("the batch has {events} events; at most {max} are allowed")]
    BatchTooLarge { events: usize, max: usize },
    /// An event of a batch is invalid. None of the batch is published.
    #[error("event {index} of the batch: {source}")]
    InBatch { index: usize, source: Box<ApiError> },
}

impl ApiError {
    /// Returns the HTTP status: 413 for a body or data that is too large, otherwise 400.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::BodyTooLarge { .. } | Self::Payload(PayloadError::TooLarge { .. }) => 413,
            Self::InBatch { source, .. } => source.status(),
            _ => 400,
        }
    }
}
