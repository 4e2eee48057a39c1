//! Events queued for one endpoint.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::app_hooks::{AppHooks, WebhookEndpoint};
use super::receipt::Receipt;

/// A batch's endpoint, and the app that signs it. Both are as of the newest event, so that a new
/// secret or header takes effect at once.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) app: Arc<AppHooks>,
    pub(super) endpoint: Arc<WebhookEndpoint>,
}

/// One event.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    /// Shared by the endpoints that receive the event.
    pub(super) json: Arc<RawValue>,
    pub(super) since: Instant,
    pub(super) receipt: Option<Receipt>,
}

/// The events of one request.
#[derive(Debug)]
pub(super) struct EventBatch {
    pub(super) destination: Destination,
    pub(super) events: Vec<QueuedEvent>,
}
