//! The record by which a worker reports its state to those that distribute connections among workers.
//!
//! `WEIR_BUSY_FD` is the descriptor of an array of records, each of four 64-bit words; `WEIR_BUSY_INDEX` is the index
//! of this worker's record. Its first word is 0 while the worker is idle, and otherwise when its request began, in
//! milliseconds of `CLOCK_MONOTONIC`; its second counts the served requests.

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
    requests: &'static AtomicU64,
}

impl BusyRecord {
    pub(super) fn map(fd: i32, index: usize) -> Result<Self> {
        let [state, requests, ..] = inherited::map_record(fd, index).context("WEIR_BUSY_FD")?;
        // A previous process may have left another state.
        state.store(IDLE, Ordering::Release);
        Ok(Self { state, requests })
    }

    pub(super) fn mark_busy(&self) {
        self.state.store(monotonic_ms().max(EARLIEST), Ordering::Release);
    }

    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the worker as idle. Call it only after all waiting connections are served. Without a request the word is
    /// left unchanged, because it may announce a connection.
    pub(super) fn mark_idle(&self) {
        if self.state.load(Ordering::Relaxed) >= EARLIEST {
            self.state.store(IDLE, Ordering::Release);
        }
    }
}
