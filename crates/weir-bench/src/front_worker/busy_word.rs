//! How a worker tells who shares connections among workers that it is busy: a word that all can see.
//!
//! `WEIR_BUSY_FD` is the descriptor of an array of 32-bit words, `WEIR_BUSY_INDEX` says which of them is this
//! worker's: 1 while it serves, 0 when it is done.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use super::inherited;

#[derive(Debug)]
pub(super) struct BusyWord(&'static AtomicU32);

impl BusyWord {
    pub(super) fn of(fd: i32, index: usize) -> Result<Self> {
        Ok(Self(inherited::word(fd, index).context("WEIR_BUSY_FD")?))
    }

    pub(super) fn set(&self) {
        self.0.store(1, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }
}
