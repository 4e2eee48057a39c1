//! The charts of single queues: a small history for each, beside that of the whole. The module that
//! uses it defines the columns: the job server ([`crate::jobs`]), or observed systems.
//!
//! A queue's history is in a folder named by a digest of the queue's name, so that it survives a
//! restart and any name is a valid folder. At most `limits.chart_queues_max` queues have one: those
//! that had one before, then the first to appear. The history of a removed queue is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use weir_base::clock::Timestamp;
use weir_base::history::{HistorySettings, MetricsHistory};

use crate::metrics::{ConsoleLimit, ConsoleMetrics};

/// With [`MINUTES_KEPT`] a queue's files stay below 700 KiB.
const SECONDS_KEPT: Duration = Duration::from_secs(60 * 60);
const MINUTES_KEPT: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// The histories of all queues that have one.
#[derive(Debug)]
pub(crate) struct QueueHistories {
    directory: PathBuf,
    columns: &'static [&'static str],
    queues_max: usize,
    memory_rows_max: usize,
    metrics: ConsoleMetrics,
    /// Locked for lookups only, never during a write.
    by_name: Mutex<BTreeMap<String, Arc<MetricsHistory>>>,
    recorder: Mutex<Recorder>,
}

/// The completeness of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The sample has all queues: those not in it were removed.
    All,
    /// Some queues could not be read, so missing ones do not count as removed.
    Part,
}

/// The state of the writer.
#[derive(Debug, Default)]
struct Recorder {
    /// Whether the folders of an earlier process were checked.
    is_tidy: bool,
    /// Whether a queue got no history; counted once until there is space again.
    is_full: bool,
}

impl QueueHistories {
    /// Creates the histories; none is opened before the first sample. `server_settings` is the
    /// configuration of the history of all queues together.
    #[must_use]
    pub(crate) fn new(
        server_settings: &HistorySettings,
        columns: &'static [&'static str],
        queues_max: usize,
        metrics: ConsoleMetrics,
    ) -> Self {
        Self {
            directory: server_settings.directory.join("queues"),
            columns,
            queues_max,
            memory_rows_max: server_settings.memory_rows_max,
            metrics,
            by_name: Mutex::default(),
            recorder: Mutex::default(),
        }
    }

    /// Returns the history of a queue; None: it has none.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<MetricsHistory>> {
        lock(&self.by_name).get(name).map(Arc::clone)
    }

    #[cfg(test)]
    pub(crate) fn metrics(&self) -> &ConsoleMetrics {
        &self.metrics
    }

    /// Writes one row for each of `queues` that has a history. Blocks on the disk.
    pub(crate) fn record<Queue>(
        &self,
        at: Timestamp,
        (queues, extent): (&[Queue], Extent),
        name: impl Fn(&Queue) -> &str,
        mut row: impl FnMut(&Queue) -> Vec<f64>,
    ) {
        let mut recorder = lock(&self.recorder);
        let names: BTreeSet<&str> = queues.iter().map(&name).collect();
        if extent == Extent::All {
            self.remove_obsolete(&mut recorder, &names);
        }
        self.admit(&mut recorder, &names);
        for queue in queues {
            if let Some(history) = self.get(name(queue)) {
                history.append(at, &row(queue));
            }
        }
    }

    /// Creates histories for queues without one, up to the limit. Those that had one before a
    /// restart take precedence, so that the limit always excludes the same ones.
    fn admit(&self, recorder: &mut Recorder, names: &BTreeSet<&str>) {
        let remaining = self.queues_max.saturating_sub(lock(&self.by_name).len());
        if remaining == 0 && recorder.is_full {
            return;
        }
        let mut new: Vec<&str> = names.iter().copied().collect();
        new.retain(|name| self.get(name).is_none());
        if new.len() > remaining {
            new.sort_by_cached_key(|name| !self.folder(name).is_dir());
            new.truncate(remaining);
            if !std::mem::replace(&mut recorder.is_full, true) {
                self.metrics.limit_hit(ConsoleLimit::ChartQueuesMax);
            }
        }
        for name in new {
            let history = self.open(name);
            lock(&self.by_name).insert(name.to_owned(), history);
        }
    }

    fn open(&self, name: &str) -> Arc<MetricsHistory> {
        let settings = HistorySettings {
            directory: self.folder(name),
            seconds_kept: SECONDS_KEPT,
            minutes_kept: MINUTES_KEPT,
            memory_rows_max: self.memory_rows_max,
        };
        Arc::new(MetricsHistory::open(&settings, self.columns))
    }

    fn remove_obsolete(&self, recorder: &mut Recorder, names: &BTreeSet<&str>) {
        let obsolete: Vec<String> = {
            let mut by_name = lock(&self.by_name);
            by_name
                .extract_if(.., |name, _| !names.contains(name.as_str()))
                .map(|entry| entry.0)
                .collect()
        };
        for name in obsolete {
            recorder.is_full = false;
            remove(&self.folder(&name));
        }
        if !std::mem::replace(&mut recorder.is_tidy, true) {
            self.remove_unknown_folders(names);
        }
    }

    fn remove_unknown_folders(&self, names: &BTreeSet<&str>) {
        let known: BTreeSet<String> = names.iter().copied().map(folder_name).collect();
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries {
            if !entry.file_name().to_str().is_some_and(|found| known.contains(found)) {
                remove(&entry.path());
            }
        }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.directory.join(folder_name(name))
    }
}

/// Ignores poisoning: the state is consistent whenever a holder can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folder name of a queue's history: 128 bits of a digest, which are collision free.
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
