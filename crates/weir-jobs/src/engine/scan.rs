//! Reading the records of a walk, on whatever thread has time for it.

use weir_log::{Disk, RecordError, RecordReader};

use super::journal::read_body;
use super::look::{WalkStop, stored_job};
use crate::model::{EntryKey, QueueName};
use crate::store::{Filter, ScanPage};

/// A walk's stops with what is needed to read them.
#[derive(Debug)]
pub(crate) struct ScanWalk<D: Disk> {
    pub(crate) reader: RecordReader<D>,
    pub(crate) stops: Vec<(WalkStop, QueueName)>,
    pub(crate) filter: Filter,
    /// Where the walk begins.
    pub(crate) after: Option<EntryKey>,
    pub(crate) limit: usize,
    /// Whether there is more behind the last stop.
    pub(crate) more: bool,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct ScanOutcome {
    pub(crate) page: ScanPage,
    /// Jobs whose records can't be read: no part of the page, and the owner's to drop.
    pub(crate) unreadable: Vec<(WalkStop, RecordError)>,
}

impl<D: Disk> ScanWalk<D> {
    /// Reads until the page is full or the stops are over. None: a record had moved meanwhile
    /// (compaction), so the walk has to be taken anew; on the thread that owns the log that
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
                    // Dropped by its owner, it is not in the way of who begins there again.
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

/// A key before the first job of a place.
fn beginning(first: &WalkStop) -> Option<EntryKey> {
    Some(EntryKey { order: first.order, jid: Box::default() })
}
