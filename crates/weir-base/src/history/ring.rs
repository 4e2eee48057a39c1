//! A file of fixed size with one row per step. A step's row is at a fixed slot, which it shares
//! with the steps one ring length earlier and later.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::band::Band;
use super::ring_file::{READ_BYTES, RingFile};
use super::row;
use crate::clock::Timestamp;

/// The layout of a ring: its series, step and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RingShape {
    pub(super) columns: Vec<String>,
    pub(super) step_seconds: u64,
    pub(super) slots: u64,
    /// 1: the value; 3: minimum, mean, maximum.
    pub(super) values_per_column: usize,
}

impl RingShape {
    pub(super) fn new(
        columns: &[&str],
        step: Duration,
        kept: Duration,
        values_per_column: usize,
    ) -> Self {
        let step_seconds = step.as_secs().max(1);
        Self {
            columns: columns.iter().map(ToString::to_string).collect(),
            step_seconds,
            slots: kept.as_secs().div_ceil(step_seconds).max(1),
            values_per_column,
        }
    }

    pub(super) fn row_bytes(&self) -> usize {
        row::bytes(self.columns.len() * self.values_per_column)
    }

    /// Returns the first second of the step that contains `second`.
    const fn step_start(&self, second: u64) -> u64 {
        second - second % self.step_seconds
    }

    pub(super) const fn slot(&self, second: u64) -> u64 {
        second / self.step_seconds % self.slots
    }
}

/// An open ring file, with a memory buffer for rows that could not be written.
#[derive(Debug)]
pub(super) struct Ring {
    shape: RingShape,
    path: PathBuf,
    file: Option<RingFile>,
    /// Rows (second, encoded) that are not in the file, oldest first; at most `memory_rows_max`.
    pending: VecDeque<(u64, Vec<u8>)>,
    memory_rows_max: usize,
    newest_second: Option<u64>,
    problem: Option<String>,
    /// Rows until a file that could not be opened is retried.
    rows_until_retry: u32,
}

/// Rows between attempts to open the file: one minute at one row per second.
const RETRY_ROWS: u32 = 60;
/// Buffered rows that one write adds once the disk has space again.
const CATCH_UP_ROWS: usize = 60;

impl Ring {
    pub(super) fn open(
        directory: &Path,
        name: &str,
        shape: RingShape,
        memory_rows_max: usize,
    ) -> Self {
        let mut ring = Self {
            shape,
            path: directory.join(name),
            file: None,
            pending: VecDeque::new(),
            memory_rows_max: memory_rows_max.max(1),
            newest_second: None,
            problem: None,
            rows_until_retry: 0,
        };
        ring.try_open();
        ring
    }

    fn try_open(&mut self) {
        self.rows_until_retry = RETRY_ROWS;
        match RingFile::open(&self.path, &self.shape) {
            Ok(file) => (self.file, self.problem) = (Some(file), None),
            Err(error) => self.report(&error),
        }
    }

    fn report(&mut self, error: &io::Error) {
        if self.problem.is_none() {
            tracing::warn!(path = %self.path.display(), %error,
                "history can't be written; the newest rows are kept in memory");
        }
        self.problem = Some(format!("{}: {error}", self.path.display()));
    }

    /// Returns why rows are in memory only; None: they are in the file.
    pub(super) fn memory_only_reason(&self) -> Option<String> {
        self.problem.clone()
    }

    /// Returns the start of the newest row.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        self.newest_second.map(from_seconds)
    }

    /// Returns the earliest time that the ring still covers at `now`.
    pub(super) fn oldest(&self, now: Timestamp) -> Timestamp {
        let kept = self.shape.slots.saturating_mul(self.shape.step_seconds);
        from_seconds((now.as_millis() / 1_000).saturating_sub(kept))
    }

    /// Writes the row of the step that contains `at`.
    pub(super) fn write(&mut self, at: Timestamp, bands: &[Band]) {
        let second = self.shape.step_start(at.as_millis() / 1_000);
        let mut encoded = Vec::with_capacity(self.shape.row_bytes());
        row::encode(second, bands, self.shape.values_per_column, &mut encoded);
        self.newest_second = Some(second);
        if self.pending.len() >= self.memory_rows_max {
            self.pending.pop_front();
        }
        self.pending.push_back((second, encoded));
        if self.file.is_none() {
            self.rows_until_retry = self.rows_until_retry.saturating_sub(1);
            if self.rows_until_retry == 0 {
                self.try_open();
            }
        }
        self.write_pending();
    }

    fn write_pending(&mut self) {
        let Some(file) = &self.file else { return };
        for _ in 0..CATCH_UP_ROWS {
            let Some((second, encoded)) = self.pending.front() else {
                break;
            };
            if let Err(error) = file.write(&self.shape, *second, encoded) {
                self.report(&error);
                return;
            }
            self.pending.pop_front();
        }
        if self.pending.is_empty() && self.problem.take().is_some() {
            tracing::info!(path = %self.path.display(), "history is written to disk again");
        }
    }

    /// Passes every row whose step begins in `[from, to)` to `each`, oldest first, with the bands
    /// of `columns`.
    pub(super) fn read(
        &self,
        from: Timestamp,
        to: Timestamp,
        columns: &[usize],
        each: &mut dyn FnMut(Timestamp, &[Band]),
    ) {
        let step = self.shape.step_seconds;
        let to = to.as_micros().div_ceil(1_000_000);
        let earliest = to.saturating_sub(self.shape.slots.saturating_mul(step));
        let from = from.as_micros().div_ceil(1_000_000).max(earliest);
        let mut bands = Vec::with_capacity(columns.len());
        let mut emit = |second: u64, row: &[u8]| {
            bands.clear();
            let values = self.shape.values_per_column;
            bands.extend(columns.iter().map(|column| row::band(row, *column, values)));
            each(from_seconds(second), &bands);
        };
        let mut pending = self.pending.iter().filter(|(at, _)| *at >= from && *at < to).peekable();
        self.read_file(from.next_multiple_of(step), to, &mut |second, row| {
            while let Some((at, row)) = pending.next_if(|(at, _)| *at <= second) {
                emit(*at, row);
            }
            emit(second, row);
        });
        pending.for_each(|(at, row)| emit(*at, row));
    }

    /// Passes the valid rows of the file from step `from` up to `to` to `each`, in order.
    fn read_file(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) {
        let Some(file) = &self.file else { return };
        let row_bytes = self.shape.row_bytes();
        let rows_max = (READ_BYTES / row_bytes).max(1) as u64;
        let mut buffer = Vec::new();
        let mut next = from;
        while next < to {
            let slot = self.shape.slot(next);
            let wanted = (to - next).div_ceil(self.shape.step_seconds);
            let rows = wanted.min(self.shape.slots - slot).min(rows_max);
            buffer.resize(usize::try_from(rows).unwrap_or(0) * row_bytes, 0);
            let bytes = file.read(&self.shape, slot, &mut buffer);
            for row in buffer[..bytes].chunks_exact(row_bytes) {
                if row::second(row) == Some(next) {
                    each(next, row);
                }
                next += self.shape.step_seconds;
            }
            // Rows past the end of the file were never written.
            next += (rows - (bytes / row_bytes) as u64) * self.shape.step_seconds;
        }
    }

    /// Finds the newest row of an earlier process by reading the whole file.
    pub(super) fn find_newest(&mut self) {
        let mut newest = None;
        if let Some(file) = &self.file {
            file.every_row(&self.shape, &mut |second, _| newest = newest.max(Some(second)));
        }
        self.newest_second = newest;
    }
}

const fn from_seconds(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1_000))
}
