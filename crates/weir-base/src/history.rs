//! Metrics over time: a fixed list of series, per second for hours and per minute for weeks.
//!
//! Each resolution is a ring file of fixed size ([`ring`]). Each row has its own checksum, so a row
//! torn by a crash is just a gap in a chart. One row is written per second; after each minute, its
//! seconds are aggregated into one row (minimum, mean, maximum) of the minutes' ring. Columns are
//! matched by name, so a release may add and remove series.
//!
//! A full disk or a read-only folder never stops the service: the newest rows stay in memory, the
//! file is retried, and [`MetricsHistory::condition`] reports it.
//!
//! Rows are not synced: a power failure may lose the last seconds of a chart.

mod band;
mod header;
mod ring;
mod ring_file;
mod row;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use band::{Band, Table};

use self::band::Buckets;
use self::ring::{Ring, RingShape};
use crate::clock::Timestamp;

/// The size and location of a history. Field names are the names under `[history]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Folder of the ring files; created when missing.
    pub directory: PathBuf,
    /// How long rows of seconds are kept.
    pub seconds_kept: Duration,
    /// How long rows of minutes are kept.
    pub minutes_kept: Duration,
    /// Limit of rows per ring in memory while the disk rejects writes; the oldest are dropped.
    pub memory_rows_max: usize,
}

impl Default for HistorySettings {
    fn default() -> Self {
        const HOUR: u64 = 60 * 60;
        Self {
            directory: PathBuf::from("data/history"),
            seconds_kept: Duration::from_secs(6 * HOUR),
            minutes_kept: Duration::from_secs(30 * 24 * HOUR),
            memory_rows_max: 900,
        }
    }
}

/// Whether rows reach the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryCondition {
    OnDisk,
    /// The newest rows are in memory only; the text gives the reason.
    InMemory(String),
}

/// A query over `[from, to)` with at most `points_max` points.
#[derive(Clone, Debug)]
pub struct HistoryQuery<'a> {
    pub series: &'a [&'a str],
    pub from: Timestamp,
    pub to: Timestamp,
    pub points_max: usize,
}

/// The history of one service. Shared by reference; an append and a query wait for each other no
/// longer than one read of the ring.
#[derive(Debug)]
pub struct MetricsHistory {
    columns: Vec<String>,
    seconds: Mutex<Ring>,
    minutes: Mutex<Ring>,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Limit of the columns of one history: it limits a row to 6 KiB.
const COLUMNS_MAX: usize = 256;

impl MetricsHistory {
    /// Opens or creates the rings in `settings.directory`. A disk error is not returned; it appears
    /// as the [`HistoryCondition`].
    ///
    /// # Panics
    /// With more than 256 columns or duplicate names: the list is fixed in the program.
    #[must_use]
    pub fn open(settings: &HistorySettings, columns: &[&str]) -> Self {
        assert!(columns.len() <= COLUMNS_MAX, "a history has at most {COLUMNS_MAX} columns");
        let unique: std::collections::BTreeSet<_> = columns.iter().collect();
        assert_eq!(unique.len(), columns.len(), "a history's columns have different names");
        let open = |name: &str, step: Duration, kept: Duration, values_per_column| {
            let shape = RingShape::new(columns, step, kept, values_per_column);
            Ring::open(&settings.directory, name, shape, settings.memory_rows_max)
        };
        let mut seconds = open("seconds.ring", SECOND, settings.seconds_kept, 1);
        seconds.find_newest();
        let minutes = open("minutes.ring", MINUTE, settings.minutes_kept, 3);
        Self {
            columns: columns.iter().map(ToString::to_string).collect(),
            seconds: Mutex::new(seconds),
            minutes: Mutex::new(minutes),
        }
    }

    /// Records one value per column for the second of `at`. NaN: unknown.
    ///
    /// # Panics
    /// If `values` does not have one value per column.
    pub fn append(&self, at: Timestamp, values: &[f64]) {
        assert_eq!(values.len(), self.columns.len(), "one value per column");
        let bands: Vec<Band> = values.iter().copied().map(Band::of).collect();
        let mut seconds = lock(&self.seconds);
        let before = seconds.newest().map(minute_of);
        if let Some(minute) = before.filter(|minute| *minute < minute_of(at)) {
            // First, because the new row may overwrite one of that minute.
            self.fold(&seconds, Timestamp::from_millis(minute * 60_000));
        }
        seconds.write(at, &bands);
    }

    /// Writes the row of the minute that starts at `start`.
    fn fold(&self, seconds: &Ring, start: Timestamp) {
        let every: Vec<usize> = (0..self.columns.len()).collect();
        let mut buckets = Buckets::new(start, start + MINUTE, 1, self.columns.len());
        seconds.read(start, start + MINUTE, &every, &mut |at, bands| buckets.add(at, bands));
        let bands: Vec<Band> =
            buckets.finish().columns.iter().map(|points| points[0].unwrap_or(Band::NONE)).collect();
        lock(&self.minutes).write(start, &bands);
    }

    /// Returns the series' bands over time, from seconds where those reach back far enough, else
    /// from minutes (and then from seconds for the current minute). An unknown series has no
    /// points.
    #[must_use]
    pub fn query(&self, query: &HistoryQuery<'_>) -> Table {
        let known: Vec<usize> = query.series.iter().map(|name| self.column(name)).collect();
        let mut buckets = Buckets::new(query.from, query.to, query.points_max, known.len());
        let mut from = query.from;
        if from < lock(&self.seconds).oldest(query.to) {
            lock(&self.minutes).read(from, query.to, &known, &mut |at, bands| {
                buckets.add(at, bands);
                from = at + MINUTE;
            });
        }
        lock(&self.seconds).read(from, query.to, &known, &mut |at, bands| buckets.add(at, bands));
        buckets.finish()
    }

    /// Returns the index of a column; one past the end for an unknown name.
    fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).unwrap_or(self.columns.len())
    }

    /// Returns the names of the series.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns whether rows reach the disk.
    #[must_use]
    pub fn condition(&self) -> HistoryCondition {
        let problem = lock(&self.seconds)
            .memory_only_reason()
            .or_else(|| lock(&self.minutes).memory_only_reason());
        problem.map_or(HistoryCondition::OnDisk, HistoryCondition::InMemory)
    }
}

const fn minute_of(at: Timestamp) -> u64 {
    at.as_millis() / 60_000
}

/// Ignores poisoning: a ring is consistent between any two of its operations.
fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
