//! Events on their way to one endpoint.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::app_hooks::{AppHooks, WebhookEndpoint};

/// Where a batch goes and what signs it: as of the newest event, so that a new secret or header is
/// in use at once.
#[derive(Clone, Debug)]
pub(super) struct Destination {
    pub(super) app: Arc<AppHooks>,
    pub(super) endpoint: Arc<WebhookEndpoint>,
}

/// One event.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    /// Shared by the endpoints that get it.
    pub(super) json: Arc<RawValue>,
    pub(super) since: Instant,
}

/// Events for one request.
#[derive(Debug)]
pub(super) struct EventBatch {
    pub(super) destination: Destination,
    pub(super) events: Vec<QueuedEvent>,
}
