//! How a worker tells who shares connections among workers what it does: a record that all can see.
//!
//! `WEIR_BUSY_FD` is the descriptor of an array of records, each of four 64-bit words; `WEIR_BUSY_INDEX` says which
//! of them is this worker's. Its first word is 0 while the worker is idle, and otherwise when its request began, in
//! milliseconds of `CLOCK_MONOTONIC`; its second counts the requests that it has answered.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};

use super::inherited;
use crate::clock::monotonic_ms;

const IDLE: u64 = 0;
/// 1 means that a connection is on its way to the worker.
const EARLIEST: u64 = 2;

#[derive(Debug)]
pub(super) struct BusyRecord {
    state: &'static AtomicU64,
    answered: &'static AtomicU64,
}

impl BusyRecord {
    pub(super) fn of(fd: i32, index: usize) -> Result<Self> {
        let [state, answered, ..] = inherited::record(fd, index).context("WEIR_BUSY_FD")?;
        // What a process left behind that had this record before.
        state.store(IDLE, Ordering::Release);
        Ok(Self { state, answered })
    }

    pub(super) fn begin(&self) {
        self.state.store(monotonic_ms().max(EARLIEST), Ordering::Release);
    }

    pub(super) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Not before everything that came meanwhile is served. Whoever has begun nothing leaves the word alone: it may
    /// say that a connection is on its way.
    pub(super) fn rest(&self) {
        if self.state.load(Ordering::Relaxed) >= EARLIEST {
            self.state.store(IDLE, Ordering::Release);
        }
    }
}
