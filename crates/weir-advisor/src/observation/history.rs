//! What was before the samples: jobs by day, runs by class, and what earlier samples have shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Jobs that ended on a day, as Sidekiq counts them (`stat:processed:2026-11-30`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DayCounts {
    /// The day in UTC: `2026-11-30`.
    pub date: String,
    /// How much of the day had passed.
    pub passed: Duration,
    /// Jobs that ended, including failed ones.
    pub processed: u64,
    /// Jobs that failed.
    pub failed: u64,
}

/// Runs of a class in a period, as Sidekiq 7 and later count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// Including those that failed.
    pub processed: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Total time of those that did not fail.
    pub took: Duration,
}

/// Runs by class.
pub type ClassRuns = BTreeMap<String, RunCounts>;

/// Runs by class in the last minutes, and in a period before that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassHistory {
    /// Length of each period.
    pub period: Duration,
    /// How long before the sample the earlier period ended.
    pub earlier_ended_before: Duration,
    /// Runs of the last minutes.
    pub recent: ClassRuns,
    /// Runs of the earlier period.
    pub earlier: ClassRuns,
}

/// What an earlier sample of the same observer has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PastSample {
    /// How long ago it was taken.
    pub before: Duration,
    /// The highest latency of all queues.
    pub latency: Duration,
    /// Jobs finished per second, including failed ones. `None` if that was not counted.
    pub processed_per_second: Option<f64>,
    /// Share of those that failed, from 0 to 1.
    pub failed_share: Option<f64>,
    /// The highest round trip to Redis that a process has measured.
    pub round_trip: Option<Duration>,
}

impl DayCounts {
    /// Returns the share of jobs that failed, or `None` if none ended.
    #[must_use]
    pub fn failed_share(&self) -> Option<f64> {
        (self.processed > 0).then(|| (self.failed as f64 / self.processed as f64).min(1.0))
    }
}

impl RunCounts {
    /// Returns the mean duration of a run that did not fail, or `None` if all failed.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let succeeded = self.processed.saturating_sub(self.failed);
        (succeeded > 0).then(|| self.took.div_f64(succeeded as f64))
    }
}
