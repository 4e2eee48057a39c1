//! Entries of the journal, which are log lines as well.

use std::io;
use std::path::Path;

use weir_base::clock::Clock;

use crate::journal::{EntryKind, Journal, JournalEntry};
use crate::metrics::AutopilotMetrics;
use crate::settings::AutopilotLimits;

/// The journal, the log and their metrics.
#[derive(Debug)]
pub(super) struct Log {
    journal: Journal,
    clock: Clock,
    metrics: AutopilotMetrics,
    is_changed: bool,
}

impl Log {
    pub(super) fn open(
        directory: &Path,
        limits: &AutopilotLimits,
        clock: Clock,
        metrics: AutopilotMetrics,
    ) -> io::Result<Self> {
        let journal =
            Journal::open(directory, limits.journal_bytes_max, limits.journal_entries_max)?;
        Ok(Self { journal, clock, metrics, is_changed: true })
    }

    /// Writes an entry. Returns its number; `None`: it could not be written.
    pub(super) fn write(&mut self, entry: JournalEntry) -> Option<u64> {
        let entry = JournalEntry { at: self.clock.now().as_secs_f64(), ..entry };
        let (kind, outcome) = (entry.kind, entry.outcome);
        let (mode, text) = (entry.mode, entry.text.clone());
        match kind {
            EntryKind::Failure => tracing::warn!(%mode, "autopilot: {text}"),
            _ => tracing::info!(%mode, "autopilot: {text}"),
        }
        self.metrics.count(kind, outcome);
        self.is_changed = true;
        match self.journal.append(entry) {
            Ok(id) => Some(id),
            Err(error) => {
                tracing::error!(%error, "autopilot: the journal cannot be written");
                self.metrics.journal_error();
                None
            }
        }
    }

    /// Returns the newest entries, if some are new since the last call.
    pub(super) fn changed(&mut self) -> Option<Vec<JournalEntry>> {
        let is_changed = std::mem::take(&mut self.is_changed);
        is_changed.then(|| self.journal.entries().iter().cloned().collect())
    }
}
