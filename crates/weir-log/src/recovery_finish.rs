//! The second half of opening a log: makes the files agree with the end that was determined.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::directory::Directory;
use crate::disk::{self, Allocation, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::Seal;
use crate::log::SegmentTail;
use crate::options::SegmentLogOptions;
use crate::recovery::{RecoveredSegment, RecoveryReport, io};
use crate::segment::Segment;
use crate::shared::{Catalogue, NextSegment};
use crate::walk::RecoveryWalk;

/// The segments, and the one to append to.
pub(crate) type SettledSegments<F> = (Catalogue<F>, Option<SegmentTail<F>>);

/// Removes files after the end, repairs footers, and builds the catalogue.
pub(crate) fn finish_recovery<D: Disk>(
    directory: &Directory<D>,
    options: &SegmentLogOptions,
    log_id: u64,
    walk: RecoveryWalk,
    report: &mut RecoveryReport,
) -> Result<SettledSegments<D::File>, OpenError> {
    let mut next_number = walk.end.segment;
    if let Some(RecoveredSegment::Tail { number, .. }) = walk.kept.last() {
        next_number = number + 1;
    }
    for found in directory.files.iter().rev().filter(|found| found.number >= next_number) {
        directory.remove(found.number)?;
    }
    for found in directory.files.iter().filter(|found| found.number < walk.first) {
        directory.remove(found.number)?;
        directory.sync()?; // one after the other: so the files on disk never have a gap
    }
    let mut segments = VecDeque::new();
    let mut tail = None;
    for kept in walk.kept {
        report.segments += 1;
        let segment = match kept {
            RecoveredSegment::Sealed { number, seal, repair } => {
                report.records += u64::from(seal.records);
                report.bytes += u64::from(seal.file_bytes());
                if let Some(bytes) = repair {
                    repair_footer(directory, number, &seal, &bytes)?;
                    report.footers_repaired += 1;
                }
                let bytes = seal.file_bytes();
                let segment = Arc::new(Segment::new(number, log_id, bytes, bytes, None));
                segment.set_seal(seal);
                segment
            }
            RecoveredSegment::Tail { number, version, index, offset, garbage } => {
                report.records += u64::from(index.records());
                report.bytes += u64::from(offset);
                let file = directory.open(number)?;
                let capacity = reserve(&file, number, options, offset, garbage)?;
                let segment = Arc::new(Segment::new(number, log_id, capacity, offset, Some(file)));
                tail = Some(SegmentTail { segment: Arc::clone(&segment), version, offset, index });
                segment
            }
        };
        segments.push_back(segment);
    }
    Ok((Catalogue::new(segments, next_number), tail))
}

fn repair_footer<D: Disk>(
    directory: &Directory<D>,
    number: u32,
    seal: &Seal,
    bytes: &[u8],
) -> Result<(), OpenError> {
    let file = directory.open(number)?;
    disk::write_full(&file, bytes, seal.end_offset.into())
        .and_then(|()| file.truncate(seal.file_bytes().into()))
        .and_then(|()| file.sync_data())
        .map_err(io("repair", number))
}

/// Cuts the torn part off the tail and allocates its space again. Returns its capacity: if the disk
/// is full, the size that it already has.
fn reserve<F: DiskFile>(
    file: &F,
    number: u32,
    options: &SegmentLogOptions,
    offset: u32,
    garbage: bool,
) -> Result<u32, OpenError> {
    if garbage {
        file.truncate(offset.into()).map_err(io("cut", number))?;
    }
    let capacity = options.segment_bytes.max(offset);
    match file.allocate(capacity.into()) {
        Ok(Allocation::Reserved | Allocation::Unsupported) => Ok(capacity),
        Err(error) if disk::is_full(&error) => {
            let size = file.size().map_err(io("read", number))?;
            Ok(u32::try_from(size).unwrap_or(capacity).clamp(offset, capacity))
        }
        Err(error) => Err(io("allocate", number)(error)),
    }
}

impl<F> Catalogue<F> {
    /// Creates a catalogue of the segments found. The next segment is not yet allocated.
    pub(crate) fn new(segments: VecDeque<Arc<Segment<F>>>, next_number: u32) -> Catalogue<F> {
        Catalogue { segments, next: NextSegment::Pending, next_number, removed: VecDeque::new() }
    }
}
