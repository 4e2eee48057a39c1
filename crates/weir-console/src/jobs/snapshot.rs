//! The job server at one moment, and what the console derives from earlier samples.

use std::sync::Arc;

use serde::Serialize;
use weir_jobs::view;

use crate::figures::as_float;

/// The series of the job server's history.
pub(super) const COLUMNS: [&str; 16] = [
    "pushed_per_second",
    "processed_per_second",
    "failed_per_second",
    "enqueued",
    "working",
    "scheduled",
    "retries",
    "dead",
    "queues",
    "workers",
    "connections",
    "fetches_waiting",
    "latency_seconds_max",
    "log_bytes",
    "sync_seconds_p50",
    "sync_seconds_p99",
];

/// The job server at one moment.
#[derive(Clone, Debug)]
pub(crate) struct JobsSnapshot {
    pub(crate) overview: view::JobServerOverview,
    pub(crate) queues: Arc<Vec<view::QueueView>>,
    pub(crate) workers: Arc<Vec<view::JobWorkerView>>,
    pub(crate) rates: JobRates,
    pub(crate) trend: JobsTrend,
}

/// Jobs per second over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct JobRates {
    pub(crate) pushed: f64,
    pub(crate) processed: f64,
    pub(crate) failed: f64,
}

/// Changes within the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobsTrend {
    /// The retry set's size ten minutes ago; None: unknown.
    pub(crate) retries_before: Option<f64>,
    /// Failed and finished jobs per second over the last minute.
    pub(crate) failed_per_second: f64,
    pub(crate) processed_per_second: f64,
    /// Limits that were reached within the last ten minutes, with counts.
    pub(crate) limits_hit: Vec<view::LimitHit>,
    /// Why the history is not on disk; None: it is.
    pub(crate) history_problem: Option<String>,
}

/// Returns the values of [`COLUMNS`].
pub(super) fn row(overview: &view::JobServerOverview, rates: JobRates) -> [f64; COLUMNS.len()] {
    [
        rates.pushed,
        rates.processed,
        rates.failed,
        as_float(overview.enqueued),
        as_float(overview.working),
        as_float(overview.scheduled),
        as_float(overview.retries),
        as_float(overview.dead),
        as_float(overview.queues),
        as_float(overview.workers),
        as_float(overview.connections),
        as_float(overview.fetches_waiting),
        overview.latency_seconds_max,
        as_float(overview.log.bytes),
        overview.log.sync_seconds_p50,
        overview.log.sync_seconds_p99,
    ]
}
