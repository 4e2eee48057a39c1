//! The task that stores download counts.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_base::shutdown::ShutdownToken;
use weir_gems::settings::GemsSettings;

use weir_gems::Gems;

/// Counts downloads.
#[derive(Debug)]
pub(super) struct Downloads {
    index: Arc<Gems>,
    settings: Arc<ArcSwap<GemsSettings>>,
    shutdown: ShutdownToken,
}

impl Downloads {
    /// Creates the counter. Counts stay in memory until it is started.
    pub(super) fn new(index: Arc<Gems>, settings: Arc<ArcSwap<GemsSettings>>) -> Self {
        Self { index, settings, shutdown: ShutdownToken::new() }
    }

    pub(super) fn start(&self) {
        let (index, settings) = (Arc::clone(&self.index), Arc::clone(&self.settings));
        let shutdown = self.shutdown.clone();
        self.shutdown.spawn(async move {
            while !shutdown.is_requested() {
                tokio::select! {
                    () = tokio::time::sleep(settings.load().downloads_interval) => {}
                    () = shutdown.requested() => {}
                }
                store_downloads(&index).await;
            }
        });
    }

    /// Stores the counts so far, within `time_left`.
    pub(super) async fn finish(self, time_left: Duration) {
        let storing = async {
            self.shutdown.drain(time_left).await;
            store_downloads(&self.index).await;
        };
        if tokio::time::timeout(time_left, storing).await.is_err() {
            tracing::warn!(
                "downloads of the last seconds were not counted: the shutdown deadline has passed"
            );
        }
    }
}

async fn store_downloads(index: &Gems) {
    if let Err(error) = index.write_downloads().await {
        tracing::warn!(%error, "downloads were not kept; they are the next time");
    }
}
