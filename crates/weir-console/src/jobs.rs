//! The job server as the console reads it, with the histories behind its charts.

mod queue_charts;
mod sampling;
mod snapshot;
mod store_charts;
mod tally;

use std::sync::Arc;

use weir_base::history::{self, MetricsHistory};
use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::settings::JobServerLimits;

use self::queue_charts::QueueCharts;
pub(crate) use self::sampling::Sampling;
use self::snapshot::COLUMNS;
pub(crate) use self::snapshot::{JobsSnapshot, JobsTrend};
use self::store_charts::StoreCharts;
use crate::metrics::ConsoleMetrics;

/// The source of the job server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobsSource {
    pub(crate) handle: Handle,
    /// Its limits, for findings.
    pub(crate) limits: Arc<JobServerLimits>,
    /// The address for clients (`tcp://127.0.0.1:7419`), for the hint on the empty page.
    pub(crate) url: Arc<str>,
    /// The history behind its charts.
    pub(crate) history: Arc<MetricsHistory>,
    /// The histories behind the charts of single queues.
    pub(crate) queue_charts: Arc<QueueCharts>,
    /// The histories behind the charts of the shards of the store.
    pub(crate) store_charts: Arc<StoreCharts>,
}

/// How the histories are kept.
#[derive(Clone, Debug)]
pub struct Histories<'a> {
    pub settings: history::HistorySettings,
    /// Limit of queues with their own charts.
    pub queues_max: usize,
    pub metrics: &'a ConsoleMetrics,
}

impl JobsSource {
    /// Creates the source; `url` is the address for clients.
    #[must_use]
    pub fn new(
        handle: Handle,
        limits: JobServerLimits,
        url: &str,
        histories: Histories<'_>,
    ) -> Self {
        let Histories { settings, queues_max, metrics } = histories;
        let queue_charts = QueueCharts::new(&settings, queues_max, metrics.clone());
        let store_charts = StoreCharts::new(&settings, queues_max, metrics.clone());
        Self {
            handle,
            limits: Arc::new(limits),
            url: url.into(),
            history: Arc::new(MetricsHistory::open(&settings, &COLUMNS)),
            queue_charts: Arc::new(queue_charts),
            store_charts: Arc::new(store_charts),
        }
    }

    /// Returns a current snapshot, with the rates and trends of an earlier one.
    pub(crate) async fn read(
        &self,
        earlier: Option<&JobsSnapshot>,
    ) -> Result<JobsSnapshot, HandleError> {
        let (rates, trend) =
            earlier.map(|earlier| (earlier.rates, earlier.trend.clone())).unwrap_or_default();
        Ok(JobsSnapshot {
            overview: self.handle.overview().await?,
            queues: Arc::new(self.handle.queues().await?),
            workers: Arc::new(self.handle.workers().await?),
            rates,
            trend,
        })
    }
}
