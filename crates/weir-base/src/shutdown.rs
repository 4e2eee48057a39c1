//! Graceful shutdown of a service: all tasks are notified and waited for, up to a deadline.
//!
//! The order is: [`ShutdownToken::request`] (no new work is accepted), then
//! [`ShutdownToken::drain`] (work in progress is finished, until the deadline at the latest).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Signals the shutdown and tracks the tasks to wait for. Cheap to clone; clones share its state.
#[derive(Clone, Debug, Default)]
pub struct ShutdownToken {
    token: CancellationToken,
    tracker: TaskTracker,
}

/// The outcome of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every task ended by itself.
    Clean,
    /// The deadline passed first; this many tasks were still running.
    DeadlinePassed { tasks_left: usize },
}

impl ShutdownToken {
    /// Creates a token without a request and without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests the shutdown. Further calls have no effect.
    pub fn request(&self) {
        self.token.cancel();
    }

    /// Returns whether the shutdown was requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Resolves once the shutdown is requested. For the second arm of a `select!` that waits for
    /// work.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// Runs `task` on the current runtime; [`ShutdownToken::drain`] waits for it.
    ///
    /// The task is boxed: the runtime's code for a task is then compiled once per output type and
    /// not once per task.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task: Pin<Box<dyn Future<Output = F::Output> + Send>> = Box::pin(task);
        self.tracker.spawn(task)
    }

    /// Runs `task` on the current `LocalSet`; [`ShutdownToken::drain`] waits for it.
    pub fn spawn_local<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let task: Pin<Box<dyn Future<Output = F::Output>>> = Box::pin(task);
        self.tracker.spawn_local(task)
    }

    /// Returns the number of running tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tracker.len()
    }

    /// Requests the shutdown and waits until every task has ended, for at most `deadline`.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.request();
        self.tracker.close();
        match tokio::time::timeout(deadline, self.tracker.wait()).await {
            Ok(()) => Drained::Clean,
            Err(_) => Drained::DeadlinePassed { tasks_left: self.tracker.len() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn drain_waits_for_tasks() {
        run(async {
            let shutdown = ShutdownToken::new();
            let twin = shutdown.clone();
            let task = shutdown.spawn(async move {
                twin.requested().await;
                "finished"
            });
            assert!(!shutdown.is_requested());
            assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
            assert_eq!(task.await.expect("the task"), "finished");
        });
    }

    #[test]
    fn drain_ends_at_its_deadline_and_counts_remaining_tasks() {
        run(async {
            let shutdown = ShutdownToken::new();
            shutdown.spawn(std::future::pending::<()>());
            shutdown.spawn(std::future::pending::<()>());
            let drained = shutdown.drain(Duration::from_millis(1)).await;
            assert_eq!(drained, Drained::DeadlinePassed { tasks_left: 2 });
        });
    }

    #[test]
    fn drain_waits_for_local_tasks() {
        run(tokio::task::LocalSet::new().run_until(async {
            let shutdown = ShutdownToken::new();
            let seen = std::rc::Rc::new(std::cell::Cell::new(false));
            let (twin, mark) = (shutdown.clone(), seen.clone());
            shutdown.spawn_local(async move {
                twin.requested().await;
                mark.set(true);
            });
            assert_eq!(shutdown.drain(Duration::from_secs(60)).await, Drained::Clean);
            assert!(seen.get());
        }));
    }
}
