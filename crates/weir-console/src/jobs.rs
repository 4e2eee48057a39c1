//! What the console shows of the job server: one reading of it, and what changed lately.

mod queue_charts;
mod sampling;
mod tally;

use std::sync::Arc;

use serde::Serialize;
use weir_base::history::{self, MetricsHistory};
use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::settings::JobServerLimits;
use weir_jobs::view;

use self::queue_charts::QueueCharts;
pub(crate) use self::sampling::Sampling;
use crate::figures::as_float;
use crate::metrics::ConsoleMetrics;
use crate::verdict::Trend;

/// The series of the job server's history.
const COLUMNS: [&str; 16] = [
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

/// The job server, as far as the console needs it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub(crate) handle: Handle,
    /// Its own limits: some verdicts name them.
    pub(crate) limits: Arc<JobServerLimits>,
    /// Where clients reach it (`tcp://127.0.0.1:7419`), for the empty page's advice.
    pub(crate) url: Arc<str>,
    /// Behind its charts.
    pub(crate) history: Arc<MetricsHistory>,
    /// Behind those of single queues.
    pub(crate) queue_charts: Arc<QueueCharts>,
}

/// How its history is kept.
#[derive(Clone, Debug)]
pub struct Histories<'a> {
    pub settings: history::HistorySettings,
    /// Queues with charts of their own.
    pub queues_max: usize,
    pub metrics: &'a ConsoleMetrics,
}

/// The job server at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) overview: view::JobServerOverview,
    pub(crate) queues: Arc<Vec<view::QueueView>>,
    pub(crate) workers: Arc<Vec<view::JobWorkerView>>,
    pub(crate) rates: Rates,
    pub(crate) trend: Trend,
}

/// Jobs per second over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) pushed: f64,
    pub(crate) processed: f64,
    pub(crate) failed: f64,
}

impl Jobs {
    /// `url`: where clients reach it.
    #[must_use]
    pub fn new(
        handle: Handle,
        limits: JobServerLimits,
        url: &str,
        histories: Histories<'_>,
    ) -> Self {
        let Histories { settings, queues_max, metrics } = histories;
        let queue_charts = QueueCharts::new(&settings, queues_max, metrics.clone());
        Self {
            handle,
            limits: Arc::new(limits),
            url: url.into(),
            history: Arc::new(MetricsHistory::open(&settings, &COLUMNS)),
            queue_charts: Arc::new(queue_charts),
        }
    }

    /// A reading of now, with what needs time from an earlier one.
    pub(crate) async fn read(&self, earlier: Option<&Reading>) -> Result<Reading, HandleError> {
        let (rates, trend) =
            earlier.map(|earlier| (earlier.rates, earlier.trend.clone())).unwrap_or_default();
        Ok(Reading {
            overview: self.handle.overview().await?,
            queues: Arc::new(self.handle.queues().await?),
            workers: Arc::new(self.handle.workers().await?),
            rates,
            trend,
        })
    }
}

/// The values of [`COLUMNS`].
fn row(overview: &view::JobServerOverview, rates: Rates) -> [f64; COLUMNS.len()] {
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
