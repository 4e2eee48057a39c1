//! The task that sends gems' webhooks, with the settings that are in force.

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

/// What sends them.
#[derive(Clone, Debug)]
struct Sending {
    store: Arc<GemStore>,
    clock: Clock,
    metrics: WebhookMetrics,
    /// All of it, not one sender.
    ending: ShutdownToken,
}

impl Webhooks {
    /// Nothing is sent until it starts.
    pub(super) fn new(
        store: GemStore,
        settings: WebhookSettings,
        clock: Clock,
        metrics: WebhookMetrics,
    ) -> Self {
        let sending =
            Sending { store: Arc::new(store), clock, metrics, ending: ShutdownToken::new() };
        Self { sending, settings: watch::Sender::new(settings) }
    }

    pub(super) fn start(&self) {
        let sending = self.sending.clone();
        self.sending.ending.spawn(sending.run(self.settings.subscribe()));
    }

    /// The sender ends, and another one goes on with these settings. It does so for the same ones,
    /// too: secrets and certificates show no difference.
    pub(super) fn reload(&self, settings: WebhookSettings) {
        self.settings.send_replace(settings);
    }

    /// Waits for attempts that are on their way, at most for `time_left`.
    pub(super) async fn finish(self, time_left: Duration) {
        if let Drained::DeadlinePassed { .. } = self.sending.ending.drain(time_left).await {
            tracing::warn!(
                "interrupted a gems webhook, because the shutdown deadline has passed; it is sent again after the restart"
            );
        }
    }
}

impl Sending {
    async fn run(self, mut settings: watch::Receiver<WebhookSettings>) {
        while !self.ending.is_requested() {
            let in_force = settings.borrow_and_update().clone();
            let until = ShutdownToken::new();
            let sender = self.sender(in_force, until.clone());
            let mut running = std::pin::pin!(sender.run());
            tokio::select! {
                () = &mut running => {}
                () = changed(&mut settings) => {
                    until.request();
                    running.await;
                }
                () = self.ending.requested() => {
                    until.request();
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

/// Resolves with new settings; never, if nobody is left who could set any.
async fn changed(settings: &mut watch::Receiver<WebhookSettings>) {
    if settings.changed().await.is_err() {
        std::future::pending().await
    }
}
