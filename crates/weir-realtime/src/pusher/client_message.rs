//! What a client says.
//!
//! Every refusal is answered with a `pusher:error` **without a code** and the connection goes on,
//! as with the original: a code from 4000 to 4299 means "the connection ends", and some client
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

/// One message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// `pusher:subscribe`.
    Subscribe(Subscribe),
    /// `pusher:unsubscribe`. Any name: one that was never subscribed to is not there to leave.
    Unsubscribe { channel: String },
    /// `pusher:ping`: wants a `pusher:pong`.
    Ping,
    /// `pusher:pong`: somebody is there.
    Pong,
    /// `pusher:signin`.
    SignIn(SignIn),
    /// `client-...`: for the channel's other subscribers.
    ClientEvent(ClientEvent<'a>),
    /// `weir:members`: wants a page of a presence channel's members.
    Members(MembersWish),
}

/// A wish for a page of a presence channel's members: Weir's extension.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MembersWish {
    /// Not checked: if it is no name of a channel, the client has not subscribed to it either.
    pub channel: String,
    /// Of the list that the pages before were of.
    pub version: Option<u64>,
    /// Where the page begins.
    #[serde(default)]
    pub start: usize,
    /// How many members it may have.
    pub limit: Option<usize>,
}

/// A wish to subscribe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// Where to.
    pub channel: ChannelName,
    /// `KEY:SIGNATURE` of the application's server. pusher-js sends an empty one for public
    /// channels.
    pub auth: Option<String>,
    /// What was signed beside socket and channel, as it was signed.
    pub channel_data: Option<String>,
    /// The last event that the client has: Weir's extension.
    pub recover: Option<ChannelPosition>,
    /// Differences of the members instead of an event for each: Weir's extension.
    pub member_changes: bool,
}

/// A wish to be known as a user.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SignIn {
    /// `KEY:SIGNATURE` of the application's server.
    pub auth: String,
    /// Who the user is, as it was signed.
    pub user_data: String,
}

/// An event of a client for the others. Borrowed: it is passed on or dropped at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEvent<'a> {
    /// Begins with `client-`.
    pub event: EventName<'a>,
    /// Not checked: if it is no name of a channel, the client has not subscribed to it either.
    pub channel: Cow<'a, str>,
    /// Whatever was sent; nothing if nothing was.
    pub data: Option<Payload<'a>>,
}

/// Why a message was refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientMessageError {
    /// Larger than the limit.
    #[error("the message has {bytes} bytes; at most {max} are allowed")]
    TooLarge { bytes: usize, max: usize },
    /// Nested deeper than the limit.
    #[error("the message is nested deeper than {max} levels")]
    TooDeep { max: usize },
    /// Not JSON, or not an object with an `event`.
    #[error(
        "the message is not {{\"event\": \"..\", \"data\": ..}}: {}",
        Plain(.0)
    )]
    Shape(serde_json::Error),
    /// The event has no data, and needs some.
    #[error("{event} needs data")]
    NoData { event: &'static str },
    /// The data is not what the event needs.
    #[error("data of {event}: {}", Plain(.source))]
    Data { event: &'static str, source: serde_json::Error },
    /// Not a channel's name.
    #[error("{0}")]
    Channel(#[from] ChannelNameError),
    /// A client event without a channel.
    #[error("event '{}' needs a channel", Excerpt(.event))]
    NoChannel { event: String },
    /// Not a name that a client may use.
    #[error("{0}")]
    EventName(#[from] EventNameError),
    /// Not data that can be passed on.
    #[error("{0}")]
    Payload(#[from] PayloadError),
    /// Nothing that the protocol knows.
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
    /// Reads the text of one message.
    ///
    /// # Errors
    /// What is wrong, for the client's developer.
    pub fn parse(text: &'a str, limits: &PusherLimits) -> Result<Self, ClientMessageError> {
        check_bounds(text, limits)?;
        let envelope: Envelope<'a> = json::object(text).map_err(ClientMessageError::Shape)?;
        match &*envelope.event.0 {
            "pusher:subscribe" => subscribe(envelope.data, limits).map(Self::Subscribe),
            "pusher:unsubscribe" => unsubscribe(envelope.data),
            // Whatever their data is: {} by pusher-js, "" by pysher, nothing by others.
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

/// `data` as an object, or as a string that holds one: clients may encode it twice, as servers do.
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
