//! Where a log that is not open begins and ends, without changing it. For backups.

use std::io;

use crate::directory::{Directory, SegmentFile};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES};
use crate::position::RecordPosition;
use crate::scan::{Ending, ScanStep, Scanner};
use crate::segment::SegmentInfo;

/// The segments of a log that is not open, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogExtent {
    /// See [`SegmentLog::id`](crate::SegmentLog::id).
    pub log_id: u64,
    /// The segments that hold records, oldest first. Only the last one may be unsealed.
    pub segments: Vec<SegmentInfo>,
    /// The end of the last record.
    pub end: RecordPosition,
}

/// Returns the extent of the log in `disk`, or `None` if nothing was ever appended. Reads the
/// headers and trailers, and the segment that is not sealed. Bytes after the end of that segment
/// are a torn tail and do not count.
///
/// # Errors
/// `Io`, the errors of an unreadable log, and `Corrupt` if a segment other than the last one has no
/// valid trailer: opening the log repairs it.
pub fn extent<D: Disk>(disk: &D) -> Result<Option<LogExtent>, OpenError> {
    let directory = Directory::read(disk)?;
    let Some(log_id) = directory.identity()? else { return Ok(None) };
    let mut extent = LogExtent { log_id, segments: Vec::new(), end: RecordPosition::default() };
    let mut open: Option<(u32, &'static str)> = None;
    for found in &directory.files {
        let (info, why) = inspect(&directory, found, log_id)?;
        if info.bytes <= HEADER_BYTES {
            continue; // allocated in advance
        }
        if let Some((number, why)) = open {
            return Err(OpenError::Corrupt {
                file: format::file_name(number),
                offset: extent.end.offset,
                why: why.to_owned(),
                durable: RecordPosition { segment: info.number, offset: HEADER_BYTES },
            });
        }
        open = (!info.sealed).then_some((info.number, why));
        extent.end = RecordPosition { segment: info.number, offset: info.bytes };
        extent.segments.push(info);
    }
    Ok((!extent.segments.is_empty()).then_some(extent))
}

/// Returns a segment's size, and why it ends there if it is not sealed.
fn inspect<D: Disk>(
    directory: &Directory<D>,
    found: &SegmentFile,
    log_id: u64,
) -> Result<(SegmentInfo, &'static str), OpenError> {
    let number = found.number;
    if let Some(seal) = found.seal(log_id) {
        let (bytes, records) = (seal.file_bytes(), seal.records);
        return Ok((SegmentInfo { number, bytes, records, sealed: true }, ""));
    }
    let file = directory.open(number)?;
    let scanned = Scanner::new(&file, log_id, number)
        .and_then(Scanner::scan)
        .map_err(OpenError::io(format!("read {}", format::file_name(number))))?;
    let why = match scanned.ending {
        Ending::Damaged { why, .. } => why,
        Ending::Open => "its records end too early",
        Ending::Sealed => "its footer is incomplete",
    };
    let (bytes, records) = (scanned.offset, scanned.index.records());
    Ok((SegmentInfo { number, bytes, records, sealed: false }, why))
}

/// Returns the oldest segment that the log needed when its end was `position`, as its records name
/// it: what came before was removed by then. `None`: it is not recorded (format 1).
///
/// # Errors
/// The segment of `position` can't be read.
pub fn oldest_segment_at<D: Disk>(
    disk: &D,
    log_id: u64,
    position: RecordPosition,
) -> io::Result<Option<u32>> {
    let file = disk.open(&format::file_name(position.segment))?;
    let mut scanner = Scanner::new(&file, log_id, position.segment)?;
    let (mut offset, mut oldest) = (HEADER_BYTES, None);
    while offset < position.offset {
        let (step, next) = scanner.step(offset)?;
        if let ScanStep::First(first) = step {
            oldest = oldest.max(Some(first));
        }
        if next <= offset {
            break; // the end, or damage
        }
        offset = next;
    }
    Ok(oldest)
}

/// Returns the first position from which on the log needs no segment before the first of `segments`,
/// which ascend without gaps and end with the log's last one. `None`: there is none, or it is not
/// recorded (format 1). Reads the beginning of some segments, and at most one as a whole.
///
/// # Errors
/// A segment can't be read.
pub fn complete_from<D: Disk>(
    disk: &D,
    log_id: u64,
    segments: &[u32],
) -> io::Result<Option<RecordPosition>> {
    let Some(lowest) = segments.first() else { return Ok(None) };
    // The oldest segment is recorded at the beginning of each segment, and only grows.
    let (mut from, mut to) = (0, segments.len());
    while from < to {
        let middle = (from + to) / 2;
        let begin = RecordPosition { segment: segments[middle], offset: HEADER_BYTES + 1 };
        match oldest_segment_at(disk, log_id, begin)?.unwrap_or(0) < *lowest {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    if let Some(segment) = from.checked_sub(1).map(|before| segments[before])
        && let Some(offset) = offset_of_removal(disk, log_id, segment, *lowest)?
    {
        return Ok(Some(RecordPosition { segment, offset }));
    }
    let begin = |segment: &u32| RecordPosition { segment: *segment, offset: HEADER_BYTES };
    Ok(segments.get(from).map(begin))
}

/// Returns the offset behind the first record of a segment that names `oldest` or a later one as
/// the oldest.
fn offset_of_removal<D: Disk>(
    disk: &D,
    log_id: u64,
    segment: u32,
    oldest: u32,
) -> io::Result<Option<u32>> {
    let file = disk.open(&format::file_name(segment))?;
    let mut scanner = Scanner::new(&file, log_id, segment)?;
    let mut offset = HEADER_BYTES;
    loop {
        let (step, next) = scanner.step(offset)?;
        if matches!(step, ScanStep::First(first) if first >= oldest) {
            return Ok(Some(next));
        }
        if next <= offset {
            return Ok(None);
        }
        offset = next;
    }
}

/// Returns the name of a segment's file.
#[must_use]
pub fn segment_file_name(number: u32) -> String {
    format::file_name(number)
}

/// Returns the number in the name of a segment's file, or `None` if it is not one.
#[must_use]
pub fn segment_number(name: &str) -> Option<u32> {
    format::file_number(name)
}
