//! Reads the records of a scan, on any thread.

use weir_log::{Disk, RecordError, RecordReader};

use super::journal::read_body;
use super::look::{WalkStop, stored_job};
use crate::model::{EntryKey, QueueName};
use crate::store::{Filter, ScanPage};

/// The stops of a scan, with the data needed to read them.
#[derive(Debug)]
pub(crate) struct ScanWalk<D: Disk> {
    pub(crate) reader: RecordReader<D>,
    pub(crate) stops: Vec<(WalkStop, QueueName)>,
    pub(crate) filter: Filter,
    /// The key after which the scan begins.
    pub(crate) after: Option<EntryKey>,
    pub(crate) limit: usize,
    /// Whether more jobs follow the last stop.
    pub(crate) more: bool,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct ScanOutcome {
    pub(crate) page: ScanPage,
    /// Jobs whose records can't be read. They are not in the page; the owner drops them.
    pub(crate) unreadable: Vec<(WalkStop, RecordError)>,
}

impl<D: Disk> ScanWalk<D> {
    /// Reads until the page is full or no stop is left. Returns `None` if a record was moved in the
    /// meantime (compaction), so the scan must be repeated. On the thread that owns the log that
    /// can't happen.
    pub(crate) fn read(self) -> Option<ScanOutcome> {
        let mut found = ScanOutcome::default();
        let page = &mut found.page;
        let (mut buffer, mut last) = (Vec::new(), None);
        let count = self.stops.len();
        for (stop, queue) in self.stops {
            page.scanned += 1;
            match read_body(&self.reader, stop.position, &mut buffer) {
                Ok(body) => {
                    last = Some(EntryKey { order: stop.order, jid: Box::from(body.jid) });
                    if self.filter.matches(body.jid, body.jobtype, body.json) {
                        page.jobs.push(stored_job(&stop, queue, &body));
                    }
                }
                Err(RecordError::Gone { .. }) => return None,
                Err(error) => {
                    // The owner drops this job, so it does not affect a scan that continues from
                    // `last`.
                    last = last.or_else(|| self.after.clone()).or_else(|| beginning(&stop));
                    found.unreadable.push((stop, error));
                }
            }
            if page.jobs.len() >= self.limit {
                break;
            }
        }
        let unread = page.scanned < count;
        page.next = last.filter(|_| unread || self.more);
        Some(found)
    }
}

/// Returns a key before the first job of the scan.
fn beginning(first: &WalkStop) -> Option<EntryKey> {
    Some(EntryKey { order: first.order, jid: Box::default() })
}
