//! Webhooks: notify other servers of pushes and yanks.
//!
//! The store saves each event in the transaction of its change ([`crate::store::webhooks`]).
//! [`WebhookSender`] sends the saved events in order, independently for each endpoint.
//!
//! Guarantees: an event is delivered at least once, or dropped and counted by reason. An endpoint
//! receives an event only after the previous one was delivered or dropped. Events that are unsent
//! when a process ends, even by a crash, are sent by the next process. A slow or unreachable
//! endpoint delays only its own events.

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
