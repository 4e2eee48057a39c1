//! What all endpoints have in common.

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
    /// In front of every attempt.
    pub(super) semaphore: Arc<Semaphore>,
    /// The endpoints' own: requested when what is queued gets its last attempt. It has their tasks.
    pub(super) ending: ShutdownToken,
}
