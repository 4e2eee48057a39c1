//! A running job server: one thread that owns the store and serves the connections.
//!
//! [`start`] opens the store on a thread of its own (`weir-jobs`), with a single-threaded runtime:
//! a command is parsed, decided and applied without a hand-off. Everybody else gets in through the
//! [`Handle`]. The end is one function, `owner::serve_until_told`.

mod accept;
mod answers;
mod descriptors;
pub(crate) mod import;
pub(crate) mod memory;
mod owner;
mod rates;
mod reload;
pub(crate) mod search;
mod service;
mod views;
pub(crate) mod walk;
mod watch;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;

pub use import::line as export_line;
pub use owner::{JobServerOutcome, OwnerEnd};
pub(crate) use service::JobService;

use crate::engine::EngineOpenError;
use crate::handle::{self, Handle};
use crate::metrics::JobsMetrics;
use crate::settings::JobServerSettings;

/// Name of the thread that owns the store.
const THREAD: &str = "weir-jobs";

/// What a job server is made of.
#[derive(Debug)]
pub struct JobServerOptions {
    /// Bound and listening. All speak the same protocol.
    pub listeners: Vec<TcpListener>,
    pub settings: JobServerSettings,
    pub clock: Clock,
    pub metrics: JobsMetrics,
    /// None: plain TCP.
    pub tls: Option<Arc<weir_net::Tls>>,
    pub stop: JobServerStop,
}

/// How the server is to end.
#[derive(Clone, Debug)]
pub struct JobServerStop {
    /// Stop accepting, finish what runs, close the store.
    pub graceful: CancellationToken,
    /// Close the store now, even if clients are still connected.
    pub at_once: CancellationToken,
    /// The longest that finishing may take, and then again closing the store.
    pub deadline: Duration,
}

/// Why no server was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store can't be opened.
    #[error("cannot open the job store in {}: {source}", directory.display())]
    Store { directory: PathBuf, source: EngineOpenError },
    /// The system refused a thread, a runtime or a listener.
    #[error("cannot start the job server: {0}")]
    System(#[from] io::Error),
    /// The thread ended before it said anything.
    #[error("cannot start the job server: its thread panicked while opening the store")]
    Panicked,
}

/// A server that runs.
#[derive(Debug)]
pub struct RunningJobServer {
    handle: Handle,
    outcome: oneshot::Receiver<JobServerOutcome>,
}

impl RunningJobServer {
    /// The way in.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Resolves once the server has ended and its store is closed.
    pub async fn join(self) -> JobServerOutcome {
        self.outcome.await.unwrap_or(JobServerOutcome { ended: OwnerEnd::Panicked, closed: Ok(()) })
    }
}

/// Starts a server. Returns once its store is open (so it blocks while a log is recovered) and its
/// listeners are served.
pub fn start(start: JobServerOptions) -> Result<RunningJobServer, StartError> {
    let (handle, requests) = handle::channel(&start.settings.limits, start.metrics.clone());
    let (opened, is_open) = std::sync::mpsc::sync_channel(1);
    let (end, outcome) = oneshot::channel();
    thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        if let Some(result) = owner::run(start, requests, &opened) {
            // Nobody may be interested any more.
            let _ = end.send(result);
        }
    })?;
    is_open.recv().map_err(|_| StartError::Panicked)??;
    Ok(RunningJobServer { handle, outcome })
}
