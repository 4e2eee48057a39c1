//! Messages of clients.
//!
//! As in Pusher, a rejected message is answered with a `pusher:error` **without a code**, and the
//! connection stays open. A code from 4000 to 4299 means that the connection ends, and some client
//! libraries (pysher) then stop for good or reconnect.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::channel::{ChannelName, ChannelNameError};
use super::event::{self, EventName, EventNameError};
use super::excerpt::Excerpt;
use super::json::{self, JsonText, Object, Plain};
use super::limits::PusherLimits;
use super::payload::{self, Payload, PayloadError};
use super::position::ChannelPosition;

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// `pusher:subscribe`.
    Subscribe(Subscribe),
    /// `pusher:unsubscribe`. The channel's name is not validated: unsubscribing without a
    /// subscription has no effect.
    Unsubscribe { channel: String },
    /// `pusher:ping`, to be answered with a `pusher:pong`.
    Ping,
    /// `pusher:pong`.
    Pong,
    /// `pusher:signin`.
    SignIn(SignIn),
    /// `client-...`: an event for the channel's other subscribers.
    ClientEvent(ClientEvent<'a>),
    /// `weir:members`: a request for a page of a presence channel's members.
    Members(MembersRequest),
}

/// A request for a page of a presence channel's members. This is an extension of Weir.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MembersRequest {
    /// The channel's name. It is not validated: an invalid one has no subscription either.
    pub channel: String,
    /// The version of the list that the previous pages belong to.
    pub version: Option<u64>,
    /// The index at which the page begins.
    #[serde(default)]
    pub start: usize,
    /// The most members of the page.
    pub limit: Option<usize>,
}

/// A request to subscribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// The channel to subscribe to.
    pub channel: ChannelName,
    /// `KEY:SIGNATURE` of the application's server. pusher-js sends an empty one for public
    /// channels.
    pub auth: Option<String>,
    /// The data that was signed with the socket and the channel, unchanged.
    pub channel_data: Option<String>,
    /// The position of the last event that the client has. This is an extension of Weir.
    pub recover: Option<ChannelPosition>,
    /// Whether to send batched changes of the members instead of an event for each. This is an
    /// extension of Weir.
    pub member_changes: bool,
}

/// A request to sign in as a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SignIn {
    /// `KEY:SIGNATURE` of the application's server.
    pub auth: String,
    /// The user's data as it was signed.
    pub user_data: String,
}

/// An event of a client for a channel's other subscribers. Borrowed, as it is published or dropped
/// at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEvent<'a> {
    /// The event's name, which begins with `client-`.
    pub event: EventName<'a>,
    /// The channel's name. It is not validated: an invalid one has no subscription either.
    pub channel: Cow<'a, str>,
    /// The event's data, or None if the message has none.
    pub data: Option<Payload<'a>>,
}

/// Why a message was rejected.
#[derive(Debug, thiserror::Error)]
pub enum ClientMessageError {
    /// The message is larger than the limit.
    #[error("the message has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// The message is nested deeper than the limit.
    #[error("the message is nested deeper than {max} levels")]
    TooDeep { max: usize },
    /// The message is not JSON, or not an object with an `event`.
    #[error(
        "the message is not {{\"event\": \"..\", \"data\": ..}}: {}",
        Plain(.0)
    )]
    Shape(serde_json::Error),
    /// The message lacks the data that its event requires.
    #[error("{event} needs data")]
    NoData { event: &'static str },
    /// The data does not have the form that the event requires.
    #[error("data of {event}: {}", Plain(.source))]
    Data { event: &'static str, source: serde_json::Error },
    /// The channel's name is invalid.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// A client event has no channel.
    #[error("event '{}' needs a channel", Excerpt(.event))]
    NoChannel { event: String },
    /// The event's name is not one that clients may use.
    #[error("{0}")]
    EventName(#[from] EventNameError),
    /// The event's data is invalid.
    #[error("{0}")]
    Payload(#[from] PayloadError),
    /// The event is unknown.
    #[error(
        "unknown event '{}': a client sends pusher:subscribe, pusher:unsubscribe, pusher:signin, pusher:ping, pusher:pong, and events whose names begin with client-",
        Excerpt(.event)
    )]
    UnknownEvent { event: String },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    event: JsonText<'a>,
    #[serde(borrow)]
    channel: Option<JsonText<'a>>,
    #[serde(borrow, default, deserialize_with = "json::present")]
    data: Option<&'a RawValue>,
}

impl<'a> ClientMessage<'a> {
    /// Parses the text of one message.
    ///
    /// # Errors
    /// Returns what is wrong, for the client's developer.
    pub fn parse(text: &'a str, limits: &PusherLimits) -> Result<Self, ClientMessageError> {
        check_bounds(text, limits)?;
        let envelope: Envelope<'a> = json::object(text).map_err(ClientMessageError::Shape)?;
        match &*envelope.event.0 {
            "pusher:subscribe" => subscribe(envelope.data, limits).map(Self::Subscribe),
            "pusher:unsubscribe" => unsubscribe(envelope.data),
            // Their data is ignored: pusher-js sends {}, pysher sends "", others send none.
            "pusher:ping" => Ok(Self::Ping),
            "pusher:pong" => Ok(Self::Pong),
            "weir:members" => parse_data("weir:members", envelope.data).map(Self::Members),
            "pusher:signin" => parse_data("pusher:signin", envelope.data).map(Self::SignIn),
            name if event::is_client_event(name) => {
                client_event(envelope, limits).map(Self::ClientEvent)
            }
            _ => Err(ClientMessageError::UnknownEvent { event: envelope.event.0.into_owned() }),
        }
    }
}

fn check_bounds(text: &str, limits: &PusherLimits) -> Result<(), ClientMessageError> {
    let (bytes, max) = (text.len(), limits.client_message_bytes_max);
    if bytes > max {
        return Err(ClientMessageError::TooLarge { bytes, max });
    }
    match limits.json_depth_max {
        max if json::is_deeper_than(text, max) => Err(ClientMessageError::TooDeep { max }),
        _ => Ok(()),
    }
}

fn subscribe(
    data: Option<&RawValue>,
    limits: &PusherLimits,
) -> Result<Subscribe, ClientMessageError> {
    #[derive(Deserialize)]
    struct Data {
        channel: String,
        auth: Option<String>,
        channel_data: Option<String>,
        recover: Option<Object<ChannelPosition>>,
        #[serde(default)]
        member_changes: bool,
    }
    let data: Data = parse_data("pusher:subscribe", data)?;
    Ok(Subscribe {
        channel: ChannelName::parse(&data.channel, limits)?,
        auth: data.auth,
        channel_data: data.channel_data,
        recover: data.recover.map(|Object(position)| position),
        member_changes: data.member_changes,
    })
}

fn unsubscribe(data: Option<&RawValue>) -> Result<ClientMessage<'static>, ClientMessageError> {
    #[derive(Deserialize)]
    struct Data {
        channel: String,
    }
    let Data { channel } = parse_data("pusher:unsubscribe", data)?;
    Ok(ClientMessage::Unsubscribe { channel })
}

/// Parses `data`, an object or a string that contains one: clients may encode it twice, as servers
/// do.
fn parse_data<T: DeserializeOwned>(
    event: &'static str,
    data: Option<&RawValue>,
) -> Result<T, ClientMessageError> {
    let data = data.ok_or(ClientMessageError::NoData { event })?;
    match payload::string_content(data) {
        Some(content) => content.and_then(|content| json::object(&content)),
        None => json::object(data.get()),
    }
    .map_err(|source| ClientMessageError::Data { event, source })
}

fn client_event<'a>(
    envelope: Envelope<'a>,
    limits: &PusherLimits,
) -> Result<ClientEvent<'a>, ClientMessageError> {
    let event = EventName::parse(envelope.event.0, limits)?;
    let Some(JsonText(channel)) = envelope.channel else {
        return Err(ClientMessageError::NoChannel { event: event.as_str().to_owned() });
    };
    let data = match envelope.data {
        Some(data) => Some(Payload::from_json(data, limits.event_data_bytes_max)?),
        None => None,
    };
    Ok(ClientEvent { event, channel, data })
}
