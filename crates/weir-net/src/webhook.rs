//! Webhooks: signed events, posted to other people's servers.
//!
//! A part has an [`Outbox`] for each receiver, in memory or in a table, which signs requests and
//! decides what is sent again. [`WebhookDelivery`] sends what is in it, one request at a time, over a
//! [`Transport`], and counts in [`DeliveryMetrics`].

mod delivery;
mod failure;
mod metrics;
mod receiver;

pub use delivery::{Outbox, WebhookDelivery};
pub use failure::{DeliveryError, FailureReason};
pub use metrics::DeliveryMetrics;
pub use receiver::{Receiver, Transport, json_post};
