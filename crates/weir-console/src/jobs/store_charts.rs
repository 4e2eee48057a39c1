//! The charts of the shards of the job store.

use std::sync::Arc;

use weir_base::clock::Timestamp;
use weir_base::history::{HistorySettings, MetricsHistory};
use weir_jobs::view::{StoreServerView, StoreShardView};

use crate::figures::as_float;
use crate::metrics::ConsoleMetrics;
use crate::queue_histories::{Extent, QueueHistories};

/// The operations whose durations have charts.
const OPERATIONS: [&str; 4] = ["push", "fetch", "ack", "fail"];

/// The series of one shard: the median and the 99th percentile of each operation, then the server.
const COLUMNS: [&str; 15] = [
    "push_p50",
    "push_p99",
    "fetch_p50",
    "fetch_p99",
    "ack_p50",
    "ack_p99",
    "fail_p50",
    "fail_p99",
    "operations_per_second",
    "reads_per_second",
    "writes_per_second",
    "scripts_per_second",
    "others_per_second",
    "memory_bytes",
    "cpu_seconds_per_job",
];

/// The histories of shards.
#[derive(Debug)]
pub(crate) struct StoreCharts(QueueHistories);

impl StoreCharts {
    /// Creates the histories; `server_settings` is the configuration of the server's history.
    #[must_use]
    pub(crate) fn new(
        server_settings: &HistorySettings,
        shards_max: usize,
        metrics: ConsoleMetrics,
    ) -> Self {
        let directory = server_settings.directory.join("store");
        let settings = HistorySettings { directory, ..server_settings.clone() };
        Self(QueueHistories::new(&settings, &COLUMNS, shards_max, metrics))
    }

    /// Returns the history of a shard; None: it has none.
    pub(crate) fn get(&self, shard: &str) -> Option<Arc<MetricsHistory>> {
        self.0.get(shard)
    }

    /// Writes one row for each shard that has a history. Blocks on the disk.
    pub(crate) fn record(&self, at: Timestamp, shards: &[StoreShardView]) {
        self.0.record(at, (shards, Extent::All), |shard| &shard.shard, |shard| row(shard).to_vec());
    }
}

/// Returns the values of [`COLUMNS`].
fn row(shard: &StoreShardView) -> [f64; COLUMNS.len()] {
    let mut row = [f64::NAN; COLUMNS.len()];
    let operation = |name: &str| shard.operations.iter().find(|it| it.operation == name);
    for (place, found) in OPERATIONS.iter().map(|name| operation(name)).enumerate() {
        let quantile = |of: Option<f64>| of.unwrap_or(f64::NAN);
        row[2 * place] = quantile(found.and_then(|it| it.seconds_p50));
        row[2 * place + 1] = quantile(found.and_then(|it| it.seconds_p99));
    }
    let all = 2 * OPERATIONS.len();
    row[all] = shard.operations.iter().map(|operation| operation.per_second).sum();
    if let Some(server) = &shard.server {
        row[all + 1..].copy_from_slice(&server_values(server));
    }
    row
}

fn server_values(server: &StoreServerView) -> [f64; 6] {
    [
        server.reads_per_second,
        server.writes_per_second,
        server.scripts_per_second,
        server.others_per_second,
        as_float(server.memory_bytes),
        server.cpu_seconds_per_job.unwrap_or(f64::NAN),
    ]
}

#[cfg(test)]
mod tests {
    use weir_base::history::HistoryQuery;
    use weir_jobs::view::StoreOperationView;

    use super::*;

    #[test]
    fn each_shard_has_its_own_series_and_gaps_where_nothing_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            HistorySettings { directory: folder.path().to_owned(), ..HistorySettings::default() };
        let charts = StoreCharts::new(&settings, 10, ConsoleMetrics::default());
        let ack = StoreOperationView {
            operation: "ack".to_owned(),
            per_second: 3.0,
            seconds_p50: Some(0.25),
            ..StoreOperationView::default()
        };
        let server = StoreServerView { memory_bytes: 7, ..StoreServerView::default() };
        let shard = |name: &str, server| StoreShardView {
            shard: name.to_owned(),
            operations: vec![ack.clone()],
            server,
            ..StoreShardView::default()
        };
        let at = Timestamp::from_millis(1_000_000_000);
        charts.record(at, &[shard("a:6379/0", Some(server)), shard("embedded", None)]);
        let read = |name: &str| {
            let series = ["ack_p50", "push_p50", "operations_per_second", "memory_bytes"];
            let to = at + std::time::Duration::from_secs(1);
            let query = HistoryQuery { series: &series, from: at, to, points_max: 1 };
            let table = charts.get(name).unwrap().query(&query);
            table.columns.iter().map(|points| points[0].map(|it| it.mean)).collect::<Vec<_>>()
        };
        assert_eq!(read("a:6379/0"), [Some(0.25), None, Some(3.0), Some(7.0)]);
        assert_eq!(read("embedded"), [Some(0.25), None, Some(3.0), None]);
        assert!(charts.get("b").is_none());
    }
}
