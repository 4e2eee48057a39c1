//! What a running Weir has measured.

use std::time::Duration;

use serde::Serialize;

/// What was worked off with so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goodput {
    /// Threads of all processes.
    pub threads: u32,
    /// Jobs finished, those that cost more counted as more.
    pub jobs_per_second: f64,
}

/// Where the time of an app's requests goes (95th percentiles).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestPath {
    /// The app.
    pub app: String,
    /// As the app measures itself.
    pub inside: Duration,
    /// Waiting for a worker that is free.
    pub waiting: Duration,
    /// As the client sees it.
    pub outside: Duration,
    /// Workers of the app.
    pub workers: u32,
}
