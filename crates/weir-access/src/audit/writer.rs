//! The thread that writes the audit log.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use weir_base::line_log::LineLog;

use super::entry::AuditEntry;
use crate::metrics::AuditMetrics;

/// Entries in memory while the log cannot be written; then the oldest are lost, except in the process's own log.
const UNWRITTEN_MAX: usize = 1_000;

/// An entry to write.
#[derive(Debug)]
pub(super) struct PendingEntry {
    pub(super) entry: AuditEntry,
    /// Told when the attempt has ended.
    pub(super) done: oneshot::Sender<()>,
}

/// Entries that could not be written, and why. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwritten(Arc<Mutex<UnwrittenEntries>>);

#[derive(Debug, Default)]
struct UnwrittenEntries {
    entries: VecDeque<AuditEntry>,
    problem: Option<String>,
}

impl Unwritten {
    /// Returns the entries, the oldest first, and the last error.
    pub(super) fn get(&self) -> (VecDeque<AuditEntry>, Option<String>) {
        let unwritten = self.lock();
        (unwritten.entries.clone(), unwritten.problem.clone())
    }

    fn lock(&self) -> MutexGuard<'_, UnwrittenEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's state.
#[derive(Debug)]
pub(super) struct Writer {
    log: LineLog,
    unwritten: Unwritten,
    metrics: AuditMetrics,
    id: u64,
}

impl Writer {
    pub(super) fn new(log: LineLog, unwritten: Unwritten, metrics: AuditMetrics) -> Self {
        Self { log, unwritten, metrics, id: 0 }
    }

    /// Writes entries until the log is dropped.
    pub(super) fn run(mut self, receiver: &Receiver<PendingEntry>) {
        for PendingEntry { mut entry, done } in receiver {
            self.id = entry.id.max(self.id + 1);
            entry.id = self.id;
            self.write(entry);
            // The request may have given up.
            let _ = done.send(());
        }
    }

    /// Writes what could not be written before, and then the entry. The order of the file is that of the changes.
    fn write(&mut self, entry: AuditEntry) {
        let mut waiting = self.unwritten.lock().entries.clone();
        waiting.push_back(entry);
        let mut error = None;
        while let Some(first) = waiting.front() {
            match self.append(first) {
                Ok(()) => drop(waiting.pop_front()),
                Err(failure) => {
                    error = Some(failure);
                    break;
                }
            }
        }
        while waiting.len() > UNWRITTEN_MAX {
            waiting.pop_front();
        }
        self.metrics.set_unwritten(waiting.len());
        if let Some(error) = &error {
            self.metrics.write_failed();
            let (path, unwritten) = (self.log.path().display(), waiting.len());
            tracing::error!(%path, %error, unwritten, "the audit log cannot be written; its entries are in memory");
        }
        let problem = error.map(|error| format!("{}: {error}", self.log.path().display()));
        *self.unwritten.lock() = UnwrittenEntries { entries: waiting, problem };
    }

    fn append(&self, entry: &AuditEntry) -> io::Result<()> {
        self.log.append(&serde_json::to_vec(entry)?)
    }
}
