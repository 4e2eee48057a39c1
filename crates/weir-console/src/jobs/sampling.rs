//! Takes the sampler's snapshots of the job server, computes rates and trends, and records
//! everything.

use std::sync::Arc;
use std::time::Duration;

use weir_base::clock::{Clock, Timestamp};
use weir_base::history::{HistoryCondition, HistoryQuery, MetricsHistory};
use weir_jobs::handle::HandleError;
use weir_jobs::view;

use super::JobsSource;
use super::snapshot::{JobsSnapshot, JobsTrend, highest_latency, row};
use super::tally::{self, JobsTally};

/// Without open streams, queues and workers are read once per this number of snapshots: two rows
/// per point of a queue's chart, so that a busy machine leaves no gap, and cheap with ten thousand
/// queues.
const READINGS_PER_DETAIL: u64 = 5;

/// The state between two snapshots.
#[derive(Debug)]
pub(crate) struct Sampling {
    jobs: JobsSource,
    clock: Clock,
    interval: Duration,
    tally: JobsTally,
    readings: u64,
    queues: Arc<Vec<view::QueueView>>,
    workers: Arc<Vec<view::JobWorkerView>>,
}

impl Sampling {
    /// Creates the state; a snapshot is taken once per `interval`.
    pub(crate) fn new(jobs: JobsSource, clock: Clock, interval: Duration) -> Self {
        Self {
            jobs,
            clock,
            interval,
            tally: JobsTally::default(),
            readings: 0,
            queues: Arc::default(),
            workers: Arc::default(),
        }
    }

    pub(crate) fn jobs(&self) -> &JobsSource {
        &self.jobs
    }

    /// Takes the next snapshot. `is_watched`: a live stream is open.
    pub(crate) async fn read(&mut self, is_watched: bool) -> Result<JobsSnapshot, HandleError> {
        let overview = self.jobs.handle.overview().await?;
        let in_detail = is_watched || self.readings.is_multiple_of(READINGS_PER_DETAIL);
        if in_detail {
            self.queues = Arc::new(self.jobs.handle.queues().await?);
            self.workers = Arc::new(self.jobs.handle.workers().await?);
        }
        self.readings += 1;
        let at = self.clock.now();
        self.tally.add(at, &overview);
        let retries_before = self.record(at, &overview, in_detail).await;
        let recent = self.tally.rates(tally::MINUTE);
        let trend = JobsTrend {
            retries_before,
            failed_per_second: recent.failed,
            processed_per_second: recent.processed,
            limits_hit: self.tally.limits_hit(),
            history_problem: match self.jobs.history.condition() {
                HistoryCondition::OnDisk => None,
                HistoryCondition::InMemory(problem) => Some(problem),
            },
        };
        Ok(JobsSnapshot {
            overview,
            queues: Arc::clone(&self.queues),
            workers: Arc::clone(&self.workers),
            rates: self.tally.rates(tally::MOMENT),
            trend,
        })
    }

    /// Writes one row for the server and one for each shard of its store, with `in_detail` one for
    /// each queue, and returns the number of retries ten
    /// minutes ago. Runs on a thread that may block on the disk.
    async fn record(
        &self,
        at: Timestamp,
        overview: &view::JobServerOverview,
        in_detail: bool,
    ) -> Option<f64> {
        let (_, latency) = highest_latency(overview, &self.queues, &self.workers);
        let row = row(overview, self.tally.rates(self.interval), latency);
        let history = Arc::clone(&self.jobs.history);
        let queue_charts = Arc::clone(&self.jobs.queue_charts);
        let store_charts = Arc::clone(&self.jobs.store_charts);
        let stores = overview.stores.clone();
        let queues = in_detail.then(|| Arc::clone(&self.queues));
        let recorded = tokio::task::spawn_blocking(move || {
            history.append(at, &row);
            store_charts.record(at, &stores);
            if let Some(queues) = queues {
                queue_charts.record(at, &queues);
            }
            retries_before(&history, at)
        });
        recorded.await.unwrap_or_default()
    }
}

/// Returns the retry set's mean size in the minute that began ten minutes ago.
fn retries_before(history: &MetricsHistory, now: Timestamp) -> Option<f64> {
    let from = now - Duration::from_secs(600);
    let to = now - Duration::from_secs(540);
    let query = HistoryQuery { series: &["retries"], from, to, points_max: 1 };
    let table = history.query(&query);
    table.columns.first()?.first()?.map(|band| band.mean)
}
