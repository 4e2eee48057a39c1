//! The task that sends the webhooks of gems with the current settings.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_base::clock::Clock;
use weir_base::shutdown::{Drained, ShutdownToken};
use weir_gems::store::GemStore;
use weir_gems::webhooks::{WebhookMetrics, WebhookParts, WebhookSender, WebhookSettings};

/// Webhooks of gems.
#[derive(Debug)]
pub(super) struct Webhooks {
    sending: Sending,
    settings: watch::Sender<WebhookSettings>,
}

/// What the sending task needs.
#[derive(Clone, Debug)]
struct Sending {
    store: Arc<GemStore>,
    clock: Clock,
    metrics: WebhookMetrics,
    /// The token of the whole task, not of one sender.
    shutdown: ShutdownToken,
}

impl Webhooks {
    /// Creates the state; nothing is sent before the start.
    pub(super) fn new(
        store: GemStore,
        settings: WebhookSettings,
        clock: Clock,
        metrics: WebhookMetrics,
    ) -> Self {
        let sending =
            Sending { store: Arc::new(store), clock, metrics, shutdown: ShutdownToken::new() };
        Self { sending, settings: watch::Sender::new(settings) }
    }

    pub(super) fn start(&self) {
        let sending = self.sending.clone();
        self.sending.shutdown.spawn(sending.run(self.settings.subscribe()));
    }

    /// Replaces the sender by one with these settings. It does so for equal settings too, because
    /// changed secrets and certificates do not show in a comparison.
    pub(super) fn reload(&self, settings: WebhookSettings) {
        self.settings.send_replace(settings);
    }

    /// Waits for attempts in progress, for at most `time_left`.
    pub(super) async fn finish(self, time_left: Duration) {
        if let Drained::DeadlinePassed { .. } = self.sending.shutdown.drain(time_left).await {
            tracing::warn!(
                "interrupted a gems webhook, because the shutdown deadline has passed; it is sent again after the restart"
            );
        }
    }
}

impl Sending {
    async fn run(self, mut settings: watch::Receiver<WebhookSettings>) {
        while !self.shutdown.is_requested() {
            let current = settings.borrow_and_update().clone();
            let sender_shutdown = ShutdownToken::new();
            let sender = self.sender(current, sender_shutdown.clone());
            let mut running = std::pin::pin!(sender.run());
            tokio::select! {
                () = &mut running => {}
                () = changed(&mut settings) => {
                    sender_shutdown.request();
                    running.await;
                }
                () = self.shutdown.requested() => {
                    sender_shutdown.request();
                    running.await;
                }
            }
        }
    }

    fn sender(&self, settings: WebhookSettings, shutdown: ShutdownToken) -> WebhookSender {
        let parts = WebhookParts {
            store: Arc::clone(&self.store),
            settings,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            shutdown,
        };
        WebhookSender::new(parts).expect("what was read from weir.toml was checked")
    }
}

/// Resolves with new settings; never once all senders of settings are dropped.
async fn changed(settings: &mut watch::Receiver<WebhookSettings>) {
    if settings.changed().await.is_err() {
        std::future::pending().await
    }
}
