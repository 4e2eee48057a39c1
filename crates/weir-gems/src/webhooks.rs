//! Webhooks: servers elsewhere are told of pushes and yanks.
//!
//! A store keeps each event in the transaction of its change ([`crate::store::webhooks`]);
//! [`WebhookSender`] sends what is there, in order, to each endpoint by itself.
//!
//! Promises: an event arrives at least once, or is dropped and counted by reason; of an endpoint the
//! next event is sent when the one before has arrived or was given up; what was not sent when a
//! process ends, in whatever way, the next one sends; an endpoint that is slow or dead costs its own
//! place in the order, never another's.

mod metrics;
mod outbox;
pub(crate) mod release_json;
mod request;
mod sender;
mod settings;

pub use self::metrics::WebhookMetrics;
pub use self::sender::{WebhookParts, WebhookSender};
pub use self::settings::{
    WEBHOOK_ENDPOINTS_MAX, WebhookEndpoint, WebhookLimits, WebhookSettings, WebhookSettingsError,
};
