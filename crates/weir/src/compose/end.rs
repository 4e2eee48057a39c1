//! The end of a part: waited for while the part runs, and once more when all ends.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// How a part ends, once it has.
pub(super) struct End<T> {
    running: Pin<Box<dyn Future<Output = T>>>,
    ended: Option<T>,
}

impl<T> End<T> {
    /// `running` resolves when the part has ended.
    pub(super) fn of(running: impl Future<Output = T> + 'static) -> Self {
        Self { running: Box::pin(running), ended: None }
    }

    /// Waits for it. Giving up waiting loses nothing.
    pub(super) async fn wait(&mut self) -> &T {
        if self.ended.is_none() {
            let ended = (&mut self.running).await;
            self.ended = Some(ended);
        }
        self.ended.as_ref().expect("it has ended")
    }

    /// The same, for good.
    pub(super) async fn into_outcome(self) -> T {
        match self.ended {
            Some(ended) => ended,
            None => self.running.await,
        }
    }
}

impl<T> fmt::Debug for End<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "End(has ended: {})", self.ended.is_some())
    }
}
