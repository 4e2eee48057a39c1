//! The job server at one moment, and what the console derives from earlier samples.

use std::sync::Arc;

use serde::Serialize;
use weir_jobs::view;

use crate::fetchers::Fetchers;
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

impl JobsSnapshot {
    /// Returns the queue that has the highest latency, and its latency in seconds.
    pub(crate) fn highest_latency(&self) -> (Option<&str>, f64) {
        highest_latency(&self.overview, &self.queues, &self.workers)
    }
}

/// Returns the highest latency of the queues that workers fetch, and that queue: jobs that no worker fetches have a
/// finding of their own, and would hide all others. If no queue with jobs is fetched, that of all queues.
pub(super) fn highest_latency<'q>(
    overview: &view::JobServerOverview,
    queues: &'q [view::QueueView],
    workers: &[view::JobWorkerView],
) -> (Option<&'q str>, f64) {
    let fetchers = Fetchers::new(workers);
    let has_jobs = |queue: &&view::QueueView| queue.depth > 0 && !queue.paused;
    let fetched = |queue: &&view::QueueView| !fetchers.is_certainly_unfetched(&queue.name);
    let served = queues.iter().filter(has_jobs).filter(fetched);
    let highest = served.max_by(|one, other| one.latency_seconds.total_cmp(&other.latency_seconds));
    highest.map_or((None, overview.latency_seconds_max), |queue| {
        (Some(queue.name.as_str()), queue.latency_seconds)
    })
}

/// Jobs per second over the last ten seconds.
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
pub(super) fn row(
    overview: &view::JobServerOverview,
    rates: JobRates,
    latency_seconds: f64,
) -> [f64; COLUMNS.len()] {
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
        latency_seconds,
        as_float(overview.log.bytes),
        overview.log.sync_seconds_p50,
        overview.log.sync_seconds_p99,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_workers_does_not_hide_the_latency_of_the_others() {
        let queue = |name: &str, latency_seconds| view::QueueView {
            name: name.to_owned(),
            depth: 1,
            latency_seconds,
            ..view::QueueView::default()
        };
        let overview = view::JobServerOverview { latency_seconds_max: 480.0, ..Default::default() };
        let worker = |queues: &[&str]| view::JobWorkerView {
            queues: queues.iter().map(ToString::to_string).collect(),
            queues_total: queues.len() as u64,
            ..view::JobWorkerView::default()
        };
        let queues = [queue("default", 480.0), queue("feed", 55.0), queue("mail", 3.0)];
        let highest = |worker| highest_latency(&overview, &queues, &[worker]);
        assert_eq!(highest(worker(&["feed", "mail"])), (Some("feed"), 55.0));
        assert_eq!(highest(worker(&["default", "feed"])), (Some("default"), 480.0));
        assert_eq!(highest(worker(&["other"])), (None, 480.0));
    }
}
