//! Reading the records of a walk, on whatever thread has time for it.

use weir_log::{Disk, ReadError, Reader};

use super::journal::read_body;
use super::look::{Stop, stored_job};
use crate::model::{EntryKey, QueueName};
use crate::store::{Filter, ScanPage, StoredJob};

/// A walk's stops with what is needed to read them.
#[derive(Debug)]
pub(crate) struct Walk<D: Disk> {
    pub(crate) reader: Reader<D>,
    pub(crate) stops: Vec<(Stop, QueueName)>,
    pub(crate) filter: Filter,
    pub(crate) limit: usize,
    /// Whether there may be more behind the last stop.
    pub(crate) more: bool,
}

/// A page, and the stops whose records had moved when they were read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) page: ScanPage,
    pub(crate) moved: Vec<Stop>,
}

impl<D: Disk> Walk<D> {
    /// Reads until the page is full or the stops are over.
    pub(crate) fn read(self) -> Read {
        let mut page = ScanPage::default();
        let (mut moved, mut buffer, mut last) = (Vec::new(), Vec::new(), None);
        let count = self.stops.len();
        for (stop, queue) in self.stops {
            page.scanned += 1;
            match read_body(&self.reader, stop.position, &mut buffer) {
                Ok(body) => {
                    last = Some(EntryKey {
                        order: stop.order,
                        jid: Box::from(body.jid),
                    });
                    if self.filter.matches(body.jid, body.jobtype, body.json) {
                        page.jobs.push(stored_job(&stop, queue, &body));
                    }
                }
                Err(ReadError::Gone { .. }) => moved.push(stop),
                Err(error) => tracing::error!(%error, "a job's record can't be read"),
            }
            if page.jobs.len() >= self.limit {
                break;
            }
        }
        let unread = page.scanned < count;
        page.next = last.filter(|_| unread || self.more);
        Read { page, moved }
    }
}

/// Adds a job that had moved to the place in the page where its order puts it.
pub(crate) fn add_in_order(page: &mut ScanPage, job: StoredJob, newest_first: bool) {
    let place = page.jobs.partition_point(|other| {
        if newest_first {
            other.key.order > job.key.order
        } else {
            other.key.order < job.key.order
        }
    });
    page.jobs.insert(place, job);
}
