//! Names of events.

use std::borrow::Cow;

use super::excerpt::Excerpt;
use super::limits::PusherLimits;

/// The prefix of events that clients send to each other.
pub const CLIENT_PREFIX: &str = "client-";
/// The prefixes of events between the server and the client library.
const RESERVED_PREFIXES: [&str; 2] = ["pusher:", "pusher_internal:"];

/// The name of an event to publish: not empty, within the limit, and not reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName<'a>(Cow<'a, str>);

/// Why a name was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventNameError {
    /// The name is empty.
    #[error("the event name is empty")]
    Empty,
    /// The name is longer than the limit.
    #[error("the event name is longer than {max} characters")]
    TooLong { max: usize },
    /// The name is reserved for the protocol.
    #[error(
        "event '{}' can't be published: names beginning with pusher: or pusher_internal: are the protocol's own",
        Excerpt(.name)
    )]
    Reserved { name: String },
}

impl<'a> EventName<'a> {
    /// Validates the name of an event to publish.
    ///
    /// # Errors
    /// Returns what is wrong with the name.
    pub fn parse(name: Cow<'a, str>, limits: &PusherLimits) -> Result<Self, EventNameError> {
        let max = limits.event_name_characters_max;
        if name.is_empty() {
            return Err(EventNameError::Empty);
        }
        // The number of bytes is known, so compare it first; characters must be counted.
        if name.len() > max && name.chars().count() > max {
            return Err(EventNameError::TooLong { max });
        }
        if is_reserved(&name) {
            return Err(EventNameError::Reserved { name: name.into_owned() });
        }
        Ok(Self(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether the name is reserved for the protocol.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether clients may send the event to each other.
#[must_use]
pub fn is_client_event(name: &str) -> bool {
    name.starts_with(CLIENT_PREFIX)
}
