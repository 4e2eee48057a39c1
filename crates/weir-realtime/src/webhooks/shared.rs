//! State that all endpoints share.

use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;

use super::metrics::WebhookMetrics;
use super::settings::WebhookSettings;

#[derive(Debug)]
pub(super) struct WebhookContext {
    pub(super) settings: WebhookSettings,
    pub(super) clock: Clock,
    pub(super) metrics: WebhookMetrics,
    /// Limits the requests in progress.
    pub(super) semaphore: Arc<Semaphore>,
    /// The endpoints' own token. It is requested when queued events get their last attempt, and
    /// owns the endpoints' tasks.
    pub(super) endpoint_shutdown: ShutdownToken,
}
