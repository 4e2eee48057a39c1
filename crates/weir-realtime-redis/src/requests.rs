//! Channels to compare with the log.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use weir_realtime::shared_log::ChannelKey;

/// Channels that are to be compared, each once. Bounded by the number of channels that the node holds.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// A lock of std: held for a lookup, never across an await.
    channels: Mutex<HashSet<ChannelKey>>,
    added: Notify,
}

impl Requests {
    pub(crate) fn add(&self, key: ChannelKey) {
        if self.lock().insert(key) {
            self.added.notify_one();
        }
    }

    /// Waits until there is a channel.
    pub(crate) async fn added(&self) {
        while self.lock().is_empty() {
            self.added.notified().await;
        }
    }

    /// Takes at most `max` channels.
    pub(crate) fn take(&self, max: usize) -> Vec<ChannelKey> {
        let mut channels = self.lock();
        let taken: Vec<ChannelKey> = channels.iter().take(max).cloned().collect();
        for key in &taken {
            channels.remove(key);
        }
        taken
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<ChannelKey>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
