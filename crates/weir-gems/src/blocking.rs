//! Work that may wait for a disk. It has one type, so that tokio's task for it is compiled once.

use std::any::Any;
use std::io;

use tokio::task::{JoinError, spawn_blocking};

type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// Runs `work` on a thread that may wait. An error: it has panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    let done = run(Box::new(move || Box::new(work()))).await?;
    Ok(*done.downcast().expect("the work's own result"))
}

/// The same, of what reads or writes files.
pub(crate) async fn blocking_io<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking(work).await.map_err(io::Error::other).flatten()
}

async fn run(work: Work) -> Result<Box<dyn Any + Send>, JoinError> {
    spawn_blocking(work).await
}
