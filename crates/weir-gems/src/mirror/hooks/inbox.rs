//! Adds webhooks to the inbox. Webhooks that arrive at the same time are saved in one transaction.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{oneshot, watch};

use crate::store::mirror::{Inbox as Taken, NewHook};
use crate::store::{GemStore, StoreError};

/// Maximum number of webhooks in one transaction.
const BATCH_MAX: usize = 500;

type Waiting = (NewHook, oneshot::Sender<Result<Taken, String>>);

#[derive(Debug, Default)]
pub(in crate::mirror) struct Inbox {
    /// A std mutex: it is locked only to add one webhook or to take some.
    waiting: Mutex<Vec<Waiting>>,
    /// A tokio mutex, held by the task that is writing.
    writing: tokio::sync::Mutex<()>,
    /// Notifies the tasks that process webhooks when some were saved.
    arrived: watch::Sender<()>,
}

impl Inbox {
    /// Returns when the webhook is on disk or was rejected.
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
                // The task that was to write it was cancelled. The error makes the sender retry.
                let gone = "the client that sent the webhook has disconnected".to_owned();
                return Err(StoreError::Abandoned(gone));
            }
            self.write(store, batch, waiting_max).await;
        }
    }

    /// Returns a receiver that changes whenever webhooks were saved.
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
            // The request may have been cancelled; it then needs no response.
            let _ = sender.send(taken.clone());
        }
    }
}
