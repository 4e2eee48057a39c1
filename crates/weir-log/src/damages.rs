//! Damage of an open log: recorded where it is found, set aside by the sync thread, acknowledged by
//! an operator.

use std::io;
use std::sync::Arc;

use crate::damage::{Damage, DamageSummary, DamagedRange};
use crate::disk::{self, Disk, DiskFile};
use crate::format::{RECORD_HEADER_BYTES, RecordHeader};
use crate::index::visit_entries;
use crate::position::RecordPosition;
use crate::segment::Segment;
use crate::shared::{SegmentLogShared, lock};

/// Bytes to set aside of a record whose length is unknown.
const RECORD_BYTES_GUESSED: u32 = 4096;

/// The damage of an open log. Cheap to clone.
#[derive(Debug)]
pub struct Damages<D: Disk> {
    shared: Arc<SegmentLogShared<D>>,
}

impl<D: Disk> Clone for Damages<D> {
    fn clone(&self) -> Self {
        Damages { shared: Arc::clone(&self.shared) }
    }
}

impl<D: Disk> Damages<D> {
    pub(crate) fn new(shared: Arc<SegmentLogShared<D>>) -> Damages<D> {
        Damages { shared }
    }

    /// Returns a summary without waiting for the disk.
    #[must_use]
    pub fn summary(&self) -> DamageSummary {
        self.shared.damage.summary()
    }

    /// Returns the first 1,000 ranges that no operator has acknowledged.
    #[must_use]
    pub fn list(&self) -> Vec<Damage> {
        self.shared.damage.damages()
    }

    /// Records that the record at `position` could not be read. The next sync sets its bytes aside
    /// before it makes anything durable that is appended from now on.
    pub fn note(&self, position: RecordPosition, why: &str) {
        let RecordPosition { segment, offset } = position;
        let why = why.to_owned();
        self.shared.damage.note(DamagedRange { segment, start: offset, end: offset, why });
    }

    /// Marks all damage as acknowledged by an operator. Returns the number of damaged ranges. Waits
    /// for the disk.
    ///
    /// # Errors
    /// The file could not be written or renamed. The damage stays listed.
    pub fn acknowledge(&self) -> io::Result<u64> {
        let _one_at_a_time = lock(&self.shared.syncing);
        self.shared.set_aside_pending()?;
        self.shared.damage.acknowledge()
    }
}

impl<D: Disk> SegmentLogShared<D> {
    /// Sets aside the recorded damage. If the disk returns an error, the next call retries.
    pub(crate) fn set_aside_pending(&self) -> io::Result<()> {
        while let Some(mut place) = self.damage.first_pending() {
            let segment = lock(&self.catalogue).find_or_removed(place.segment);
            let file = segment.as_ref().map(|segment| self.file(segment)).transpose()?;
            if let (Some(segment), Some(file)) = (&segment, &file) {
                let bytes = record_bytes(&**file, segment, place.start);
                place.end = place.start + bytes.min(segment.written().saturating_sub(place.start));
            }
            self.damage.set_aside_pending(&place, file.as_deref())?;
        }
        Ok(())
    }
}

/// Returns the size of the damaged record at `offset` as given by the footer, or else by the record
/// itself.
fn record_bytes<F: DiskFile>(file: &F, segment: &Segment<F>, offset: u32) -> u32 {
    let mut found = None;
    if let Some(seal) = segment.seal() {
        let mut entries = vec![0; seal.entries_bytes as usize];
        let read = disk::read_full(file, &mut entries, seal.entries_offset().into());
        if read.is_ok_and(|read| read == entries.len()) {
            let _ = visit_entries(&entries, segment.number, &mut |head| {
                if head.position.offset == offset {
                    found = Some(head.record_bytes);
                }
            });
        }
    }
    found.unwrap_or_else(|| {
        let mut header = [0; RECORD_HEADER_BYTES as usize];
        let read = disk::read_full(file, &mut header, offset.into()).unwrap_or_default();
        let header = RecordHeader::decode(&header[..read]);
        header.map_or(RECORD_BYTES_GUESSED, |it| it.record_bytes().min(RECORD_BYTES_GUESSED))
    })
}
