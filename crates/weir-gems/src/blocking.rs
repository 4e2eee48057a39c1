//! Runs blocking work on tokio's blocking threads. The work is boxed to a single type, so that
//! tokio's task for it is compiled once.

use std::any::Any;
use std::io;

use tokio::task::{JoinError, spawn_blocking};

type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Runs `work` on a thread that may block and returns its result. Returns an error if `work`
/// panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let done = run(Box::new(move || Box::new(work()))).await?;
    Ok(*done.downcast().expect("the work's own result"))
}

/// Like [`blocking`], for work that reads or writes files. A panic becomes an [`io::Error`].
pub(crate) async fn blocking_io<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking(work).await.map_err(io::Error::other).flatten()
}

async fn run(work: Work) -> Result<Box<dyn Any + Send>, JoinError> {
    spawn_blocking(work).await
}
