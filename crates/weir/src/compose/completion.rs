//! The end of a part, awaited while the part runs and once more at shutdown.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// The future outcome of a part, stored once it has ended.
pub(super) struct Completion<T> {
    running: Pin<Box<dyn Future<Output = T>>>,
    ended: Option<T>,
}

impl<T> Completion<T> {
    /// Wraps `running`, which resolves when the part has ended.
    pub(super) fn new(running: impl Future<Output = T> + 'static) -> Self {
        Self { running: Box::pin(running), ended: None }
    }

    /// Waits for the end. Cancel safe.
    pub(super) async fn wait(&mut self) -> &T {
        if self.ended.is_none() {
            let ended = (&mut self.running).await;
            self.ended = Some(ended);
        }
        self.ended.as_ref().expect("it has ended")
    }

    /// Waits for the end and returns the outcome.
    pub(super) async fn into_outcome(self) -> T {
        match self.ended {
            Some(ended) => ended,
            None => self.running.await,
        }
    }
}

impl<T> fmt::Debug for Completion<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "End(has ended: {})", self.ended.is_some())
    }
}
