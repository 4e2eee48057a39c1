//! The audit log: who changed what, when, from where, and how it ended. One JSON object a line in two files of limited
//! size in `data_dir/audit`.
//!
//! - `entry`: an entry, and the query of a list.
//! - `writer`: the thread that writes. Nothing but the response to a change waits for it, and that for a limited time: a
//!   disk that is full or hangs blocks no operator. Entries that could not be written are kept in memory, listed, counted,
//!   and written when it is possible.
//!
//! Promise: once the response to a change was sent, its entry survives the end of the process and of the machine, unless the
//! metric of failures or the log says otherwise. No entry has a secret or the contents of a job.

mod entry;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use axum::http::{Response, StatusCode};
use tokio::sync::oneshot::{self, Receiver};
use weir_base::clock::Clock;
use weir_base::line_log::LineLog;

pub use self::entry::{AuditEntry, AuditPage, AuditQuery, ChangeOutcome};
use self::writer::{PendingEntry, Unwritten, Writer};
use crate::caller::Caller;
use crate::change::Change;
use crate::metrics::AuditMetrics;

/// Entries that wait for the thread that writes. More would need more changes at once than the API accepts connections.
const ENTRIES_WAITING_MAX: usize = 1_000;

/// The response to a change waits this long for its entry. A slow disk takes a tenth of that.
const WRITE_WAIT: Duration = Duration::from_secs(2);

/// Entries of one page.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

/// The audit log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AuditLog(Arc<Inner>);

/// A change whose request is being served.
#[derive(Debug)]
pub struct PendingChange {
    log: AuditLog,
    caller: Caller,
    change: Change,
    is_ended: bool,
}

/// An extension of responses to requests that changed nothing: a page that asks for a confirmation.
#[derive(Clone, Copy, Debug)]
pub struct NotAChange;

#[derive(Debug)]
struct Inner {
    clock: Clock,
    log: LineLog,
    sender: SyncSender<PendingEntry>,
    unwritten: Unwritten,
    metrics: AuditMetrics,
}

impl AuditLog {
    /// Opens the log in a folder, which is made when it is needed, and starts the thread that writes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(
        directory: &Path,
        bytes_max: u64,
        clock: Clock,
        metrics: AuditMetrics,
    ) -> io::Result<Self> {
        let log = LineLog::new(directory, "audit", bytes_max);
        let (sender, receiver) = sync_channel(ENTRIES_WAITING_MAX);
        let unwritten = Unwritten::default();
        let writer = Writer::new(log.clone(), unwritten.clone(), metrics.clone());
        std::thread::Builder::new()
            .name("weir-audit".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok(Self(Arc::new(Inner { clock, log, sender, unwritten, metrics })))
    }

    /// Begins a change. Its entry is written when it ends, also if its request is aborted.
    #[must_use]
    pub fn begin(&self, caller: Caller, change: Change) -> PendingChange {
        PendingChange { log: self.clone(), caller, change, is_ended: false }
    }

    /// Passes an entry to the thread that writes. The receiver is told when it has tried.
    fn send(&self, caller: &Caller, change: &Change, status: Option<StatusCode>) -> Receiver<()> {
        let entry = AuditEntry::new(self.0.clock.now(), caller, change, status);
        self.0.metrics.entry(entry.outcome);
        tracing::info!(
            user = entry.user,
            role = %entry.role,
            via = entry.via.name(),
            address = entry.address,
            action = entry.action,
            target = entry.target,
            outcome = entry.outcome.name(),
            status = entry.status,
            "audit"
        );
        let (done, written) = oneshot::channel();
        match self.0.sender.try_send(PendingEntry { entry, done }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.0.metrics.write_failed();
                tracing::error!("the audit log lacks an entry: too many wait for the disk");
            }
        }
        written
    }

    /// Returns a page of entries, the newest first. Blocks on the disk.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn read(&self, query: &AuditQuery) -> io::Result<AuditPage> {
        let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
        let (unwritten, problem) = self.0.unwritten.get();
        let mut page = AuditPage { unwritten: unwritten.len(), problem, ..AuditPage::default() };
        let [earlier, present] = self.0.log.read()?;
        let written = lines(&present).chain(lines(&earlier));
        let all = unwritten.into_iter().rev().chain(written);
        // One more than the page has says that there are more.
        let mut found = all.filter(|entry| query.matches(entry)).take(limit + 1);
        page.entries = found.by_ref().take(limit).collect();
        page.next = found.next().and_then(|_| page.entries.last()).map(|last| last.id);
        Ok(page)
    }
}

impl PendingChange {
    /// Ends the change with its response. Returns when the entry is on the disk, or after [`WRITE_WAIT`].
    // The future does not hold the response, whose body may be of one thread only.
    pub fn end<B>(mut self, response: &Response<B>) -> impl Future<Output = ()> + Send + use<B> {
        self.is_ended = true;
        let is_change = response.extensions().get::<NotAChange>().is_none();
        let is_recorded = is_change && self.change.is_recorded;
        let status = Some(response.status());
        let written = is_recorded.then(|| self.log.send(&self.caller, &self.change, status));
        async move {
            if let Some(written) = written {
                // Otherwise the disk is slow: the entry follows, or the log says why not.
                let _ = tokio::time::timeout(WRITE_WAIT, written).await;
            }
        }
    }
}

/// The client has closed the connection, or the time limit has ended the request: what it asked for may have been done.
impl Drop for PendingChange {
    fn drop(&mut self) {
        if !self.is_ended && self.change.is_recorded {
            drop(self.log.send(&self.caller, &self.change, None));
        }
    }
}

/// Returns the entries of a file, the newest first. A line that a crash has cut off is skipped.
fn lines(text: &[u8]) -> impl Iterator<Item = AuditEntry> {
    text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests;
