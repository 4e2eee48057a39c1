//! The charts of single queues: a small history for each, beside the whole server's.
//!
//! A queue's history lives in a folder named by a digest of the queue's name, so that it outlives a
//! restart and no name means anything to the file system. At most `limits.chart_queues_max` queues
//! have one: those that had one before, then whoever comes first. A queue that is gone takes its
//! history with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;
use weir_base::history::{History, Settings};
use weir_jobs::view;

use crate::figures::as_float;
use crate::metrics::{ConsoleMetrics, Limit};
use crate::totals::Totals;

/// The series of one queue.
pub(crate) const COLUMNS: [&str; 6] = [
    "pushed_per_second",
    "processed_per_second",
    "failed_per_second",
    "depth",
    "working",
    "latency_seconds",
];

/// With [`MINUTES_KEPT`] a queue's files stay below 700 KiB.
const SECONDS_KEPT: Duration = Duration::from_secs(60 * 60);
const MINUTES_KEPT: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The histories of all queues that have one.
#[derive(Debug)]
pub(crate) struct QueueHistories {
    directory: PathBuf,
    queues_max: usize,
    memory_rows_max: usize,
    metrics: ConsoleMetrics,
    /// Held for a look only, never over a write.
    by_name: Mutex<BTreeMap<String, Arc<History>>>,
    recorder: Mutex<Recorder>,
}

/// What only the writer needs.
#[derive(Debug, Default)]
struct Recorder {
    totals: BTreeMap<String, Totals>,
    /// Whether what a former process left behind was looked through.
    is_tidy: bool,
    /// Whether a queue got no history; counted once until there is room again.
    is_full: bool,
}

impl QueueHistories {
    /// Nothing is opened before the first reading. `whole` says how the server's history is kept.
    #[must_use]
    pub(crate) fn new(whole: &Settings, queues_max: usize, metrics: ConsoleMetrics) -> Self {
        Self {
            directory: whole.directory.join("queues"),
            queues_max,
            memory_rows_max: whole.memory_rows_max,
            metrics,
            by_name: Mutex::default(),
            recorder: Mutex::default(),
        }
    }

    /// The history of a queue; None: it has none.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<History>> {
        lock(&self.by_name).get(name).map(Arc::clone)
    }

    /// Writes one row for each queue that has a history. Waits for the disk.
    pub(crate) fn record(&self, at: Timestamp, queues: &[view::Queue]) {
        let mut recorder = lock(&self.recorder);
        self.forget_the_gone(&mut recorder, queues);
        self.admit(&mut recorder, queues);
        for queue in queues {
            if let Some(history) = self.of(&queue.name) {
                history.append(at, &recorder.row(at, queue));
            }
        }
    }

    /// Gives a history to queues without one, while there is room. Those that had one before a
    /// restart come first, so that the limit always falls on the same ones.
    fn admit(&self, recorder: &mut Recorder, queues: &[view::Queue]) {
        let room = self.queues_max.saturating_sub(lock(&self.by_name).len());
        if room == 0 && recorder.is_full {
            return;
        }
        let mut new: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        new.retain(|name| self.of(name).is_none());
        if new.len() > room {
            new.sort_by_cached_key(|name| !self.folder(name).is_dir());
            new.truncate(room);
            if !std::mem::replace(&mut recorder.is_full, true) {
                self.metrics.limit_hit(Limit::ChartQueuesMax);
            }
        }
        for name in new {
            let history = self.open(name);
            lock(&self.by_name).insert(name.to_owned(), history);
        }
    }

    fn open(&self, name: &str) -> Arc<History> {
        let settings = Settings {
            directory: self.folder(name),
            seconds_kept: SECONDS_KEPT,
            minutes_kept: MINUTES_KEPT,
            memory_rows_max: self.memory_rows_max,
        };
        Arc::new(History::open(&settings, &COLUMNS))
    }

    fn forget_the_gone(&self, recorder: &mut Recorder, queues: &[view::Queue]) {
        let names: BTreeSet<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let gone: Vec<String> = {
            let mut by_name = lock(&self.by_name);
            by_name
                .extract_if(.., |name, _| !names.contains(name.as_str()))
                .map(|it| it.0)
                .collect()
        };
        for name in gone {
            recorder.is_full = false;
            recorder.totals.remove(&name);
            remove(&self.folder(&name));
        }
        if !std::mem::replace(&mut recorder.is_tidy, true) {
            self.remove_what_no_queue_has(&names);
        }
    }

    fn remove_what_no_queue_has(&self, names: &BTreeSet<&str>) {
        let wanted: BTreeSet<String> = names.iter().copied().map(folder_name).collect();
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries {
            if !entry.file_name().to_str().is_some_and(|found| wanted.contains(found)) {
                remove(&entry.path());
            }
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.directory.join(folder_name(name))
    }
}

/// Nothing here is half done when a holder panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of a queue's history: 128 bits of a digest, so no two names meet.
fn folder_name(name: &str) -> String {
    Sha256::digest(name).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "a queue's old charts stay on the disk");
    }
}

impl Recorder {
    /// The values of [`COLUMNS`].
    fn row(&mut self, at: Timestamp, queue: &view::Queue) -> [f64; COLUMNS.len()] {
        let now =
            Totals { at, pushed: queue.pushed, processed: queue.processed, failed: queue.failed };
        let before = self.totals.insert(queue.name.clone(), now);
        let rates = before.map_or([None; 3], |before| now.rates_since(&before));
        let [pushed, processed, failed] = rates.map(|rate| rate.unwrap_or(f64::NAN));
        let (depth, working) = (as_float(queue.depth), as_float(queue.working));
        [pushed, processed, failed, depth, working, queue.latency_seconds]
    }
}

#[cfg(test)]
mod tests {
    use weir_base::history::Query;

    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis((1_000_000 + second) * 1_000)
    }

    fn queue(name: &str, pushed: u64) -> view::Queue {
        view::Queue { name: name.into(), pushed, depth: pushed, ..view::Queue::default() }
    }

    fn open(directory: &Path, queues_max: usize) -> QueueHistories {
        let whole = Settings { directory: directory.to_owned(), ..Settings::default() };
        QueueHistories::new(&whole, queues_max, ConsoleMetrics::default())
    }

    /// Pushed per second and depth in the seconds `from..to`.
    fn means(histories: &QueueHistories, name: &str, from: u64, to: u64) -> Vec<Option<f64>> {
        let series = ["pushed_per_second", "depth"];
        let query = Query { series: &series, from: at(from), to: at(to), points_max: 1 };
        let table = histories.of(name).expect("a history").query(&query);
        table.columns.iter().map(|points| points[0].map(|band| band.mean)).collect()
    }

    #[test]
    fn a_queue_has_rates_of_its_own_and_keeps_them_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let histories = open(folder.path(), 10);
        histories.record(at(0), &[queue("a", 100), queue("../b", 7)]);
        histories.record(at(10), &[queue("a", 150), queue("../b", 7)]);
        assert_eq!(means(&histories, "a", 10, 11), [Some(5.0), Some(150.0)]);
        assert_eq!(means(&histories, "../b", 10, 11), [Some(0.0), Some(7.0)]);
        assert!(histories.of("c").is_none());
        drop(histories);

        let histories = open(folder.path(), 10);
        histories.record(at(20), &[queue("a", 3)]);
        assert_eq!(means(&histories, "a", 10, 11), [Some(5.0), Some(150.0)]);
        assert_eq!(means(&histories, "a", 20, 21), [None, Some(3.0)], "no rate from one reading");
    }

    #[test]
    fn a_queue_that_is_gone_takes_its_history_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let folders = || std::fs::read_dir(folder.path().join("queues")).unwrap().count();
        let histories = open(folder.path(), 10);
        histories.record(at(0), &[queue("a", 1), queue("b", 1), queue("c", 1)]);
        histories.record(at(1), &[queue("b", 1), queue("c", 1)]);
        assert!(histories.of("a").is_none());
        assert_eq!(folders(), 2);
        drop(histories);
        open(folder.path(), 10).record(at(2), &[queue("c", 1)]);
        assert_eq!(folders(), 1, "what a former process left is gone too");
    }

    #[test]
    fn the_limit_falls_on_the_newcomers() {
        let folder = tempfile::tempdir().unwrap();
        let histories = open(folder.path(), 2);
        let all = [queue("a", 1), queue("m", 1), queue("z", 1)];
        histories.record(at(0), &all[1..]);
        histories.record(at(1), &all);
        histories.record(at(2), &all);
        assert!(histories.of("a").is_none() && histories.of("z").is_some());
        assert_eq!(means(&histories, "z", 2, 3), [Some(0.0), Some(1.0)]);
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        histories.metrics.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("limit_hits_total{limit=\"chart_queues_max\"} 1"), "{text}");
        drop(histories);

        let histories = open(folder.path(), 2);
        histories.record(at(3), &all);
        assert!(histories.of("a").is_none() && histories.of("m").is_some());
        histories.record(at(4), &all[..2]);
        assert!(histories.of("a").is_some(), "a place is free");
    }
}
