//! Reading the records of a walk, on whatever thread has time for it.

use weir_log::{Disk, ReadError, Reader};

use super::journal::read_body;
use super::look::{Stop, stored_job};
use crate::model::{EntryKey, QueueName};
use crate::store::{Filter, ScanPage};

/// A walk's stops with what is needed to read them.
#[derive(Debug)]
pub(crate) struct Walk<D: Disk> {
    pub(crate) reader: Reader<D>,
    pub(crate) stops: Vec<(Stop, QueueName)>,
    pub(crate) filter: Filter,
    pub(crate) limit: usize,
    pub(crate) newest_first: bool,
    /// Whether there is more behind the last stop.
    pub(crate) more: bool,
}

impl<D: Disk> Walk<D> {
    /// Reads until the page is full or the stops are over. None: a record had moved meanwhile
    /// (compaction), so the walk has to be taken anew; on the thread that owns the log that
    /// can't happen.
    pub(crate) fn read(self) -> Option<ScanPage> {
        let mut page = ScanPage::default();
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
                Err(ReadError::Gone { .. }) => return None,
                Err(error) => {
                    tracing::error!(%error, "a job's record can't be read");
                    last = Some(key_behind(&stop, self.newest_first));
                }
            }
            if page.jobs.len() >= self.limit {
                break;
            }
        }
        let unread = page.scanned < count;
        page.next = last.filter(|_| unread || self.more);
        Some(page)
    }
}

/// Where to go on behind a job whose jid is not known: with the next moment.
fn key_behind(stop: &Stop, newest_first: bool) -> EntryKey {
    let order =
        if newest_first { stop.order.saturating_sub(1) } else { stop.order.saturating_add(1) };
    EntryKey { order, jid: Box::default() }
}
