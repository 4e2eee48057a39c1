//! The way into the inbox: hooks that come at the same time are put on disk together.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::store::mirror::{Inbox as Taken, NewHook};
use crate::store::{GemStore, StoreError};

/// Hooks of one transaction.
const BATCH_MAX: usize = 500;

type Waiting = (NewHook, oneshot::Sender<Result<Taken, String>>);

#[derive(Debug, Default)]
pub(in crate::mirror) struct Inbox {
    /// std: held to add one or to take some.
    waiting: Mutex<Vec<Waiting>>,
    /// tokio: held while some are written, by one of those who wait.
    writing: tokio::sync::Mutex<()>,
    /// Tells all who work hooks off when some are on disk.
    arrived: watch::Sender<()>,
}

impl Inbox {
    /// Returns when the hook is on disk, or is not taken.
    pub(super) async fn take(
        &self,
        store: &GemStore,
        hook: NewHook,
        waiting_max: u64,
    ) -> Result<Taken, StoreError> {
        let (sender, mut receiver) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push((hook, sender));
        loop {
            let _writing = self.writing.lock().await;
            if let Ok(taken) = receiver.try_recv() {
                return taken.map_err(StoreError::Abandoned);
            }
            let batch = self.next_batch();
            if batch.is_empty() {
                // Who had it went away before it was written; its sender is told to come again.
                let gone = "the client that sent the webhook has disconnected".to_owned();
                return Err(StoreError::Abandoned(gone));
            }
            self.write(store, batch, waiting_max).await;
        }
    }

    /// Changes whenever hooks have come.
    pub(in crate::mirror) fn arrivals(&self) -> watch::Receiver<()> {
        self.arrived.subscribe()
    }

    fn next_batch(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }

    async fn write(&self, store: &GemStore, batch: Vec<Waiting>, waiting_max: u64) {
        let (hooks, senders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let taken = store.take_hooks(hooks, waiting_max).await.map_err(|error| error.to_string());
        self.arrived.send_replace(());
        for sender in senders {
            // One whose request has gone needs no answer.
            let _ = sender.send(taken.clone());
        }
    }
}
