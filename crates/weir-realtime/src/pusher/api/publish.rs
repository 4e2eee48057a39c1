//! Bodies of requests that publish events.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::channel::ChannelName;
use super::super::event::EventName;
use super::super::json::{self, JsonText};
use super::super::limits::PusherLimits;
use super::super::payload::Payload;
use super::super::socket_id::SocketId;
use super::{ApiError, InfoRequest};

/// One event for some channels: `POST /apps/ID/events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// The event's name.
    pub name: EventName<'a>,
    /// The event's data.
    pub data: Payload<'a>,
    /// The channels to publish to, without duplicates, in the given order.
    pub channels: Vec<ChannelName>,
    /// The connection that does not receive the event.
    pub socket_id: Option<SocketId>,
    /// The attributes to return of each channel. None if none were requested.
    pub info: Option<InfoRequest>,
    /// An event with this key is published once, however often the request is repeated.
    pub idempotency_key: Option<Cow<'a, str>>,
}

/// One event for one channel, of `POST /apps/ID/batch_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEvent<'a> {
    /// The event's name.
    pub name: EventName<'a>,
    /// The event's data.
    pub data: Payload<'a>,
    /// The channel to publish to.
    pub channel: ChannelName,
    /// The connection that does not receive the event.
    pub socket_id: Option<SocketId>,
    /// The attributes to return of the channel. None if none were requested.
    pub info: Option<InfoRequest>,
    /// An event with this key is published once, however often the request is repeated.
    pub idempotency_key: Option<Cow<'a, str>>,
}

/// One event for a user: `POST /apps/ID/users/USER/events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserEvent<'a> {
    /// The event's name.
    pub name: EventName<'a>,
    /// The event's data.
    pub data: Payload<'a>,
    /// An event with this key is published once, however often the request is repeated.
    pub idempotency_key: Option<Cow<'a, str>>,
}

/// The fields of an event in any of the bodies.
#[derive(Deserialize)]
struct EventBody<'a> {
    #[serde(borrow)]
    name: JsonText<'a>,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(borrow)]
    channel: Option<JsonText<'a>>,
    #[serde(borrow)]
    channels: Option<Vec<JsonText<'a>>>,
    #[serde(borrow)]
    socket_id: Option<JsonText<'a>>,
    #[serde(borrow)]
    info: Option<JsonText<'a>>,
    #[serde(borrow)]
    idempotency_key: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
struct BatchBody<'a> {
    #[serde(borrow)]
    batch: Vec<&'a RawValue>,
}

/// Parses the body of `POST /apps/ID/events`.
///
/// # Errors
/// Returns what is wrong, for the developer of the application.
pub fn parse_publish<'a>(body: &'a [u8], limits: &PusherLimits) -> Result<Publish<'a>, ApiError> {
    let event: EventBody<'a> = parse(text(body, limits)?)?;
    Ok(Publish {
        channels: channels(&event, limits)?,
        socket_id: socket_id(&event)?,
        info: info(&event)?,
        idempotency_key: idempotency_key(&event)?,
        name: EventName::parse(event.name.0, limits)?,
        data: Payload::from_json(event.data, limits.event_data_bytes_max)?,
    })
}

/// Parses the body of `POST /apps/ID/batch_events`.
///
/// # Errors
/// Returns what is wrong with the first invalid event, for the developer of the application.
pub fn parse_batch<'a>(
    body: &'a [u8],
    limits: &PusherLimits,
) -> Result<Vec<BatchEvent<'a>>, ApiError> {
    let BatchBody { batch } = parse(text(body, limits)?)?;
    let (events, max) = (batch.len(), limits.batch_events_max);
    if events > max {
        return Err(ApiError::BatchTooLarge { events, max });
    }
    let in_batch = |(index, source)| ApiError::InBatch { index, source: Box::new(source) };
    batch
        .into_iter()
        .enumerate()
        .map(|(index, json)| {
            batch_event(json.get(), limits).map_err(|error| in_batch((index, error)))
        })
        .collect()
}

/// Parses the body of `POST /apps/ID/users/USER/events`.
///
/// # Errors
/// Returns what is wrong, for the developer of the application.
pub fn parse_user_event<'a>(
    body: &'a [u8],
    limits: &PusherLimits,
) -> Result<UserEvent<'a>, ApiError> {
    let event: EventBody<'a> = parse(text(body, limits)?)?;
    Ok(UserEvent {
        idempotency_key: idempotency_key(&event)?,
        name: EventName::parse(event.name.0, limits)?,
        data: Payload::from_json(event.data, limits.event_data_bytes_max)?,
    })
}

fn text<'a>(body: &'a [u8], limits: &PusherLimits) -> Result<&'a str, ApiError> {
    let (bytes, max) = (body.len(), limits.api_body_bytes_max);
    if bytes > max {
        return Err(ApiError::BodyTooLarge { bytes, max });
    }
    let text = str::from_utf8(body).map_err(ApiError::Encoding)?;
    match limits.json_depth_max {
        max if json::is_deeper_than(text, max) => Err(ApiError::TooDeep { max }),
        _ => Ok(text),
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    json::object(text).map_err(ApiError::Shape)
}

fn batch_event<'a>(text: &'a str, limits: &PusherLimits) -> Result<BatchEvent<'a>, ApiError> {
    let event: EventBody<'a> = parse(text)?;
    let mut channels = channels(&event, limits)?;
    let (socket_id, info) = (socket_id(&event)?, info(&event)?);
    match (channels.pop(), channels.len()) {
        (Some(channel), 0) => Ok(BatchEvent {
            channel,
            socket_id,
            info,
            idempotency_key: idempotency_key(&event)?,
            name: EventName::parse(event.name.0, limits)?,
            data: Payload::from_json(event.data, limits.event_data_bytes_max)?,
        }),
        // An event of a batch has exactly one channel, because its response describes one.
        (_, others) => Err(ApiError::TooManyChannels { channels: others + 1, max: 1 }),
    }
}

fn channels(event: &EventBody<'_>, limits: &PusherLimits) -> Result<Vec<ChannelName>, ApiError> {
    let names = match (&event.channels, &event.channel) {
        (Some(_), Some(_)) => return Err(ApiError::TwoKindsOfChannels),
        (Some(names), None) => names.as_slice(),
        (None, Some(name)) => std::slice::from_ref(name),
        (None, None) => &[],
    };
    let max = limits.event_channels_max;
    match names.len() {
        0 => return Err(ApiError::NoChannel),
        channels if channels > max => return Err(ApiError::TooManyChannels { channels, max }),
        _ => {}
    }
    let mut seen = HashSet::with_capacity(names.len());
    names
        .iter()
        .filter(|JsonText(name)| seen.insert(name))
        .map(|JsonText(name)| Ok(ChannelName::parse(name, limits)?))
        .collect()
}

fn socket_id(event: &EventBody<'_>) -> Result<Option<SocketId>, ApiError> {
    event.socket_id.as_ref().map(|JsonText(id)| Ok(id.parse()?)).transpose()
}

/// Bytes of a key, which is stored for each event.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

fn idempotency_key<'a>(event: &EventBody<'a>) -> Result<Option<Cow<'a, str>>, ApiError> {
    let Some(JsonText(key)) = &event.idempotency_key else { return Ok(None) };
    match key.len() {
        1..=IDEMPOTENCY_KEY_BYTES_MAX => Ok(Some(key.clone())),
        bytes => Err(ApiError::IdempotencyKey { bytes, max: IDEMPOTENCY_KEY_BYTES_MAX }),
    }
}

fn info(event: &EventBody<'_>) -> Result<Option<InfoRequest>, ApiError> {
    event.info.as_ref().map(|JsonText(list)| Ok(InfoRequest::parse(Some(list))?)).transpose()
}
