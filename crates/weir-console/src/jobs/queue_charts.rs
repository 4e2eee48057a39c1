//! The charts of the job server's single queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::clock::Timestamp;
use weir_base::history::{HistorySettings, MetricsHistory};
use weir_jobs::view;

use crate::figures::as_float;
use crate::metrics::ConsoleMetrics;
use crate::queue_histories::{Extent, QueueHistories};
use crate::totals::JobTotals;

/// The series of one queue.
const COLUMNS: [&str; 6] = [
    "pushed_per_second",
    "processed_per_second",
    "failed_per_second",
    "depth",
    "working",
    "latency_seconds",
];

/// The histories of queues, with the totals from which rates are computed.
#[derive(Debug)]
pub(crate) struct QueueCharts {
    histories: QueueHistories,
    totals: Mutex<BTreeMap<String, JobTotals>>,
}

impl QueueCharts {
    /// Creates the histories; `server_settings` is the configuration of the server's history.
    #[must_use]
    pub(crate) fn new(
        server_settings: &HistorySettings,
        queues_max: usize,
        metrics: ConsoleMetrics,
    ) -> Self {
        let histories = QueueHistories::new(server_settings, &COLUMNS, queues_max, metrics);
        Self { histories, totals: Mutex::default() }
    }

    /// Returns the history of a queue; None: it has none.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<MetricsHistory>> {
        self.histories.get(name)
    }

    /// Writes one row for each queue that has a history. Blocks on the disk.
    pub(crate) fn record(&self, at: Timestamp, queues: &[view::QueueView]) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        self.histories.record(
            at,
            (queues, Extent::All),
            |queue| &queue.name,
            |queue| {
                let now = JobTotals {
                    at,
                    pushed: queue.pushed,
                    processed: queue.processed,
                    failed: queue.failed,
                };
                row(queue, now, totals.insert(queue.name.clone(), now)).to_vec()
            },
        );
        totals.retain(|name, _| self.histories.get(name).is_some());
    }
}

/// Returns the values of [`COLUMNS`].
fn row(queue: &view::QueueView, now: JobTotals, before: Option<JobTotals>) -> [f64; COLUMNS.len()] {
    let rates = before.map_or([None; 3], |before| now.rates_since(&before));
    let [pushed, processed, failed] = rates.map(|rate| rate.unwrap_or(f64::NAN));
    let (depth, working) = (as_float(queue.depth), as_float(queue.working));
    [pushed, processed, failed, depth, working, queue.latency_seconds]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weir_base::history::HistoryQuery;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + second) * 1_000)
    }

    fn queue(name: &str, pushed: u64) -> view::QueueView {
        view::QueueView { name: name.into(), pushed, depth: pushed, ..view::QueueView::default() }
    }

    fn open(directory: &Path, queues_max: usize) -> QueueCharts {
        let server_settings =
            HistorySettings { directory: directory.to_owned(), ..HistorySettings::default() };
        QueueCharts::new(&server_settings, queues_max, ConsoleMetrics::default())
    }

    /// Pushed per second and depth in the seconds `from..to`.
    fn means(histories: &QueueCharts, name: &str, from: u64, to: u64) -> Vec<Option<f64>> {
        let series = ["pushed_per_second", "depth"];
        let query = HistoryQuery { series: &series, from: at(from), to: at(to), points_max: 1 };
        let table = histories.get(name).expect("a history").query(&query);
        table.columns.iter().map(|points| points[0].map(|band| band.mean)).collect()
    }

    #[test]
    fn a_queues_rates_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let histories = open(folder.path(), 10);
        histories.record(at(0), &[queue("a", 100), queue("../b", 7)]);
        histories.record(at(10), &[queue("a", 150), queue("../b", 7)]);
        assert_eq!(means(&histories, "a", 10, 11), [Some(5.0), Some(150.0)]);
        assert_eq!(means(&histories, "../b", 10, 11), [Some(0.0), Some(7.0)]);
        assert!(histories.get("c").is_none());
        drop(histories);

        let histories = open(folder.path(), 10);
        histories.record(at(20), &[queue("a", 3)]);
        assert_eq!(means(&histories, "a", 10, 11), [Some(5.0), Some(150.0)]);
        assert_eq!(means(&histories, "a", 20, 21), [None, Some(3.0)], "no rate from one reading");
    }

    #[test]
    fn the_history_of_a_removed_queue_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let folders = || std::fs::read_dir(folder.path().join("queues")).unwrap().count();
        let histories = open(folder.path(), 10);
        histories.record(at(0), &[queue("a", 1), queue("b", 1), queue("c", 1)]);
        histories.record(at(1), &[queue("b", 1), queue("c", 1)]);
        assert!(histories.get("a").is_none());
        assert_eq!(folders(), 2);
        drop(histories);
        open(folder.path(), 10).record(at(2), &[queue("c", 1)]);
        assert_eq!(folders(), 1, "what a former process left is gone too");
    }

    #[test]
    fn queues_beyond_the_limit_get_no_history() {
        let folder = tempfile::tempdir().unwrap();
        let histories = open(folder.path(), 2);
        let all = [queue("a", 1), queue("m", 1), queue("z", 1)];
        histories.record(at(0), &all[1..]);
        histories.record(at(1), &all);
        histories.record(at(2), &all);
        assert!(histories.get("a").is_none() && histories.get("z").is_some());
        assert_eq!(means(&histories, "z", 2, 3), [Some(0.0), Some(1.0)]);
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        histories.histories.metrics().register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("limit_hits_total{limit=\"chart_queues_max\"} 1"), "{text}");
        drop(histories);

        let histories = open(folder.path(), 2);
        histories.record(at(3), &all);
        assert!(histories.get("a").is_none() && histories.get("m").is_some());
        histories.record(at(4), &all[..2]);
        assert!(histories.get("a").is_some(), "a place is free");
    }
}
