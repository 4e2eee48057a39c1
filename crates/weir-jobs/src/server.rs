//! A running job server: one thread that owns the store and serves the connections.
//!
//! [`start`] opens the store on a thread of its own (`weir-jobs`) with a single-threaded runtime,
//! so a command is parsed and applied without crossing threads. Other threads use the [`Handle`].
//! Shutdown is implemented in one function, `owner::serve_until_told`.

mod accept;
mod batches;
mod cancel;
pub(crate) mod cron;
mod descriptors;
pub(crate) mod import;
mod leased_limits;
mod limits;
pub(crate) mod memory;
mod node_report;
mod owner;
mod parsing;
mod queue_full;
mod queue_limit;
mod rates;
mod recent_rates;
mod reload;
mod replies;
mod requests;
mod sampled_depths;
pub(crate) mod search;
mod service;
mod state_lines;
mod steps;
mod tasks;
mod views;
pub(crate) mod walk;
mod watch;
mod xray;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_traces::Tracer;

pub use owner::{JobServerOutcome, OwnerEnd};
pub(crate) use queue_full::QueueFull;
pub(crate) use queue_limit::{PushError, push_each, push_one};
pub(crate) use service::JobService;

use crate::engine::EngineOpenError;
use crate::handle::{self, Handle};
use crate::metrics::JobsMetrics;
use crate::settings::JobServerSettings;
use crate::store::{OpenStore, StoreOpenError};

/// The name of the thread that owns the store.
const THREAD: &str = "weir-jobs";

/// What [`start`] needs to run a job server.
#[derive(Debug)]
pub struct JobServerOptions {
    /// Bound, listening sockets. All speak the same protocol.
    pub listeners: Vec<TcpListener>,
    pub settings: JobServerSettings,
    /// The address of the console for browsers, which other nodes show. Empty: none.
    pub console: String,
    pub clock: Clock,
    pub metrics: JobsMetrics,
    pub tracer: Tracer,
    /// `None`: plain TCP.
    pub tls: Option<Arc<weir_net::Tls>>,
    pub stop: JobServerStop,
    /// Opens the store if `settings.store` is `External`.
    pub external: Option<Box<dyn OpenStore>>,
}

/// How to stop the server.
#[derive(Clone, Debug)]
pub struct JobServerStop {
    /// Stop accepting, finish the commands in progress, close the store.
    pub graceful: CancellationToken,
    /// Close the store now, even if clients are still connected.
    pub at_once: CancellationToken,
    /// Maximum time to finish commands, and again to close the store.
    pub deadline: Duration,
}

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store could not be opened.
    #[error("cannot open the job store in {}: {source}", directory.display())]
    Store { directory: PathBuf, source: EngineOpenError },
    /// The store of another crate can never serve.
    #[error("cannot open the job store: {0}")]
    External(#[from] StoreOpenError),
    /// The system could not create a thread, a runtime or a listener.
    #[error("cannot start the job server: {0}")]
    System(#[from] io::Error),
    /// The thread panicked before it reported a result.
    #[error("cannot start the job server: its thread panicked while opening the store")]
    Panicked,
}

/// A running job server.
#[derive(Debug)]
pub struct RunningJobServer {
    handle: Handle,
    outcome: oneshot::Receiver<JobServerOutcome>,
}

impl RunningJobServer {
    /// Returns a handle to the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the server has ended and its store is closed. Returns the outcome.
    pub async fn join(self) -> JobServerOutcome {
        self.outcome.await.unwrap_or(JobServerOutcome { ended: OwnerEnd::Panicked, closed: Ok(()) })
    }
}

/// Starts a server. Blocks until its store is open, which includes the recovery of a log, and its
/// listeners are served.
pub fn start(start: JobServerOptions) -> Result<RunningJobServer, StartError> {
    let (handle, requests) = handle::channel(&start.settings.limits, start.metrics.clone());
    let (opened, is_open) = std::sync::mpsc::sync_channel(1);
    let (end, outcome) = oneshot::channel();
    thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        if let Some(result) = owner::run(start, requests, &opened) {
            // The receiver may have been dropped.
            let _ = end.send(result);
        }
    })?;
    is_open.recv().map_err(|_| StartError::Panicked)??;
    Ok(RunningJobServer { handle, outcome })
}
