//! What a running Weir has measured, and what waits in it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What was worked off with different numbers of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Whose threads: "Sidekiq".
    pub of: String,
    /// So many run now.
    pub threads_now: u32,
    /// Where their number is set: "the command lines of Sidekiq's processes".
    pub place: String,
    /// What each number of them worked off while jobs waited.
    pub levels: Vec<Goodput>,
}

/// What was worked off with so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Threads of all processes.
    pub threads: u32,
    /// Jobs finished.
    pub jobs_per_second: f64,
    /// By how much that may differ by chance (one standard deviation of the mean), as its windows tell.
    #[serde(default)]
    pub deviation: f64,
}

/// Where the time of an app's requests goes (95th percentiles).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPath {
    /// The app.
    pub app: String,
    /// As the app measures itself (`X-Runtime`); where it does not, as its worker takes.
    pub inside: Duration,
    /// Waiting for a worker that is free.
    pub waiting: Duration,
    /// As the client sees it.
    pub outside: Duration,
    /// Workers of the app.
    pub workers: u32,
}

/// A queue of Weir's own job store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnQueue {
    /// Its name.
    pub name: String,
    /// Jobs that wait.
    pub length: u64,
    /// How long the oldest has waited.
    pub latency: Duration,
    /// Somebody wants it so.
    pub is_paused: bool,
    /// Workers that asked for its jobs lately.
    pub fetchers: u32,
    /// Jobs that came per second.
    pub arrivals_per_second: f64,
    /// Jobs that were worked off per second.
    pub served_per_second: f64,
}
