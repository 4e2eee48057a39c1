//! Measurements from a running Weir.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Completion rates by number of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// The program that runs the threads: "Sidekiq".
    pub of: String,
    /// Present number of threads.
    pub threads_now: u32,
    /// Where their number is set: "the command lines of Sidekiq's processes".
    pub place: String,
    /// Goodput at each number of threads while jobs were waiting.
    pub levels: Vec<Goodput>,
}

/// Completion rate at a number of busy threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goodput {
    /// Busy threads over all processes.
    pub threads: u32,
    /// Jobs finished per second.
    pub jobs_per_second: f64,
    /// Standard deviation of `jobs_per_second` as a mean over its windows.
    #[serde(default)]
    pub deviation: f64,
}

/// The parts of an app's response time (95th percentiles).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestPath {
    /// The app.
    pub app: String,
    /// Time in the app by its own measurement (`X-Runtime`), or else in its worker.
    pub inside: Duration,
    /// Time in the request queue, waiting for an idle worker.
    pub waiting: Duration,
    /// Time as seen by the client.
    pub outside: Duration,
    /// Workers of the app.
    pub workers: u32,
    /// Requests that they can have in progress at once.
    #[serde(default)]
    pub slots: u32,
    /// The most requests in progress at once in the last minutes.
    #[serde(default)]
    pub busy_peak: u32,
    /// The same of the last day, once a whole day was measured.
    #[serde(default)]
    pub busy_peak_of_day: Option<u32>,
}
