//! Webhooks: signed events, posted to other people's servers.

mod failure;
mod receiver;

pub use failure::{DeliveryError, FailureReason};
pub use receiver::{Receiver, Transport, json_post};
