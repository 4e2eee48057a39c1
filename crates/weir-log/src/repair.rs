//! Repairs a damaged log in place: every valid record keeps its position, and gap records cover the
//! bytes in between. The overwritten bytes were set aside before.

use crate::damage::{DamageLog, DamagedRange};
use crate::directory::Directory;
use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES, Seed, SegmentHeader};
use crate::index::Index;
use crate::options::SegmentLogOptions;
use crate::recovery::{self, Depth, io};

/// A write that makes a segment readable without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Patch {
    Header {
        segment: u32,
    },
    Gap {
        segment: u32,
        start: u32,
        end: u32,
    },
    /// A sealed segment without records, which replaces a missing file.
    Empty {
        segment: u32,
    },
}

/// Sets aside the damaged ranges, then writes `patches`. An interrupted repair can be repeated.
pub(crate) fn repair<D: Disk>(
    directory: &Directory<D>,
    damage: &DamageLog<D>,
    log_id: u64,
    places: &[DamagedRange],
    patches: &[Patch],
) -> Result<(), OpenError> {
    for place in places {
        let is_there = directory.files.iter().any(|found| found.number == place.segment);
        let source = is_there.then(|| directory.open(place.segment)).transpose()?;
        damage.set_aside(place, source.as_ref()).map_err(io("set aside from", place.segment))?;
    }
    for patch in patches {
        write(directory, log_id, patch)?;
    }
    Ok(())
}

fn write<D: Disk>(directory: &Directory<D>, log_id: u64, patch: &Patch) -> Result<(), OpenError> {
    let (segment, offset, bytes) = match *patch {
        Patch::Header { segment } => (segment, 0, SegmentHeader::encode(log_id, segment)),
        Patch::Gap { segment, start, end } => {
            let mut gap = Vec::with_capacity((end - start) as usize);
            format::encode_gap(&mut gap, Seed::new(log_id, segment), start, end - start);
            (segment, start, gap)
        }
        Patch::Empty { segment } => {
            let mut bytes = SegmentHeader::encode(log_id, segment);
            bytes.extend_from_slice(&Index::new().seal(log_id, segment, HEADER_BYTES).1);
            (segment, 0, bytes)
        }
    };
    let file = match patch {
        Patch::Empty { segment } => directory.create(*segment)?,
        _ => directory.open(segment)?,
    };
    disk::write_full(&file, &bytes, offset.into())
        .and_then(|()| file.sync_data())
        .map_err(io("repair", segment))
}

/// The result of [`salvage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Data records in the log after the repair.
    pub records: u64,
    /// Damaged ranges, missing files included.
    pub damages: u64,
}

/// Reads every record of the log in `disk`, which must not be open, and repairs damage in older
/// segments too, which opening would only find later. Also preserves records after the end of the
/// log that opening would cut as a torn tail.
///
/// # Errors
/// Those of [`crate::SegmentLog::open`].
pub fn salvage<D: Disk>(disk: &D, options: SegmentLogOptions) -> Result<Salvage, OpenError> {
    let opened = recovery::open(disk.clone(), options, Depth::Everything)?;
    Ok(Salvage { records: opened.report.records, damages: opened.report.damages })
}
