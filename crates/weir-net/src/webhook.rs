//! Delivers webhooks: signed events for applications' servers.
//!
//! Each receiver has an [`Outbox`], in memory or in a table, which signs requests and decides about
//! retries. [`WebhookDelivery`] sends its events over a [`Transport`], one request at a time, and
//! counts them in [`DeliveryMetrics`].

mod delivery;
mod failure;
mod metrics;
mod receiver;

pub use delivery::{Outbox, WebhookDelivery};
pub use failure::{DeliveryError, FailureReason};
pub use metrics::DeliveryMetrics;
pub use receiver::{Receiver, Transport, json_post};
