//! Bodies of webhooks, which notify the application's server.

use serde::Serialize;
use weir_base::clock::Timestamp;

use super::json::{List, write};
use super::signature::Token;
use super::socket_id::SocketId;

/// The name of the header with the app's key.
pub const KEY_HEADER: &str = "X-Pusher-Key";
/// The name of the header with the body's signature.
pub const SIGNATURE_HEADER: &str = "X-Pusher-Signature";

/// An event that webhooks report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum WebhookEvent<'a> {
    /// A channel got its first subscriber.
    ChannelOccupied { channel: &'a str },
    /// A channel lost its last subscriber.
    ChannelVacated { channel: &'a str },
    /// A user's first connection joined a presence channel.
    MemberAdded { channel: &'a str, user_id: &'a str },
    /// A user's last connection left a presence channel.
    MemberRemoved { channel: &'a str, user_id: &'a str },
    /// A client sent an event to other subscribers.
    ClientEvent {
        channel: &'a str,
        event: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a str>,
        socket_id: SocketId,
        /// The sender's user, on presence channels.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<&'a str>,
    },
    /// A client subscribed to a cache channel without a cached event.
    CacheMiss { channel: &'a str },
    /// The number of subscribed connections changed.
    SubscriptionCount { channel: &'a str, subscription_count: usize },
}

impl WebhookEvent<'_> {
    /// Appends the event alone. It can be stored until a body is built from several.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(out, self);
    }

    /// Appends the event with the member `id`, by which receivers recognize a repetition.
    pub fn write_with_id(&self, id: &str, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Identified<'a> {
            #[serde(flatten)]
            event: &'a WebhookEvent<'a>,
            id: &'a str,
        }
        write(out, &Identified { event: self, id });
    }
}

/// A request's body and its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedBody {
    /// The body, as JSON.
    pub body: Vec<u8>,
    /// The value of [`SIGNATURE_HEADER`].
    pub signature: String,
}

impl SignedBody {
    /// Builds a body from events: [`WebhookEvent`]s, or raw JSON that [`WebhookEvent::write`]
    /// wrote. `now` must be the present time even if the events are older, because receivers reject
    /// old bodies.
    pub fn new<E: Serialize>(
        token: &Token<'_>,
        now: Timestamp,
        events: impl Iterator<Item = E> + Clone,
    ) -> Self {
        #[derive(Serialize)]
        struct Body<T> {
            time_ms: u64,
            events: T,
        }
        let mut body = Vec::new();
        write(&mut body, &Body { time_ms: now.as_millis(), events: List(events) });
        Self { signature: token.sign(&body), body }
    }
}
