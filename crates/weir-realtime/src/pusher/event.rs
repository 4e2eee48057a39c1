//! Names of events, and which of them are whose.

use std::borrow::Cow;

use super::excerpt::Excerpt;
use super::limits::PusherLimits;

/// What clients send to each other begins so.
pub const CLIENT_PREFIX: &str = "client-";
/// What only the server and the client library say to each other begins with one of these.
const RESERVED_PREFIXES: [&str; 2] = ["pusher:", "pusher_internal:"];

/// The name of an event that is passed on: never empty, within the limit, not the protocol's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName<'a>(Cow<'a, str>);

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventNameError {
    /// Nothing there.
    #[error("the event name is empty")]
    Empty,
    /// Longer than the limit.
    #[error("the event name is longer than {max} characters")]
    TooLong { max: usize },
    /// A name of the protocol's.
    #[error(
        "event '{}' can't be published: names beginning with pusher: or pusher_internal: are the protocol's own",
        Excerpt(.name)
    )]
    Reserved { name: String },
}

impl<'a> EventName<'a> {
    /// Checks the name of an event to publish.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn parse(name: Cow<'a, str>, limits: &PusherLimits) -> Result<Self, EventNameError> {
        let max = limits.event_name_characters_max;
        if name.is_empty() {
            return Err(EventNameError::Empty);
        }
        // Bytes first: they are known, characters are counted.
        if name.len() > max && name.chars().count() > max {
            return Err(EventNameError::TooLong { max });
        }
        if is_reserved(&name) {
            return Err(EventNameError::Reserved { name: name.into_owned() });
        }
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the name belongs to the protocol.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether clients may send it to each other.
#[must_use]
pub fn is_client_event(name: &str) -> bool {
    name.starts_with(CLIENT_PREFIX)
}
