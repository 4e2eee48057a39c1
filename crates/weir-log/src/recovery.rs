//! Opens a log: finds its end, repairs damage to durable data, cuts a torn tail.
//!
//! In a power cut, pages that were not synced are lost in any order, so valid records may follow a
//! hole. The highest durable mark in any file decides: damage below it is repaired and reported
//! ([`crate::damage`]); damage above it is a torn tail, and everything after it is cut, because
//! durability always covers a prefix. The newest first record tells which segments are missing at
//! the front.
//!
//! Only segments at or above that mark are read in full; of older ones only the footers are read.
//! Damage to their records is noticed when one is read, or by [`crate::verify`].

use crate::damage::DamageLog;
use crate::directory::{Directory, SegmentFile};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES, Seal};
use crate::index::Index;
use crate::log::SegmentTail;
use crate::options::SegmentLogOptions;
use crate::position::RecordPosition;
use crate::recovery_finish;
use crate::repair;
use crate::scan::{Ending, Scanned, Scanner};
use crate::shared::{Catalogue, SegmentLogShared};
use crate::survey::survey;
use crate::walk::{RecoveryWalk, walk};
use std::collections::{BTreeMap, VecDeque};

/// What opening a log found and repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    pub segments: u32,
    /// Data records.
    pub records: u64,
    /// Bytes in use, over all segments.
    pub bytes: u64,
    /// Segments that were read in full, not only their footers.
    pub segments_scanned: u32,
    /// Footers that were rewritten.
    pub footers_repaired: u32,
    /// Damaged ranges that were repaired by this call, missing files included.
    pub damages: u64,
    /// The torn tail, if there was one.
    pub cut: Option<Cut>,
}

/// A torn tail that was cut. None of it was ever reported durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The new end of the log.
    pub position: RecordPosition,
    /// Bytes that were cut, later segments included.
    pub bytes: u64,
    pub why: String,
}

/// A segment that remains in the log.
pub(crate) enum RecoveredSegment {
    /// A sealed segment. `repair`: bytes to write at the end record's offset.
    Sealed { number: u32, seal: Seal, repair: Option<Vec<u8>> },
    /// The segment to append to. `garbage`: bytes after `offset` must be cut off.
    Tail { number: u32, version: u32, index: Index, offset: u32, garbage: bool },
}

/// How much of the log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Segments from the highest mark on.
    Recent,
    /// Every record. Valid records after the log's end are preserved.
    Everything,
}

/// An opened log whose next segment is not yet allocated.
pub(crate) struct Opened<D: Disk> {
    pub(crate) shared: SegmentLogShared<D>,
    pub(crate) tail: Option<SegmentTail<D::File>>,
    pub(crate) report: RecoveryReport,
}

/// Opens the log.
pub(crate) fn open<D: Disk>(
    disk: D,
    options: SegmentLogOptions,
    depth: Depth,
) -> Result<Opened<D>, OpenError> {
    options.check()?;
    let directory = Directory::read(&disk)?;
    let Some(log_id) = directory.identity()? else {
        return fresh(disk, options, &directory);
    };
    let damage = DamageLog::open(&disk, log_id, options.set_aside_bytes_max)?;
    let (scans, durable) = scan_segments(&directory, log_id, depth)?;
    let mut report =
        RecoveryReport { segments_scanned: to_u32(scans.len()), ..RecoveryReport::default() };
    let scanned_numbers: Vec<u32> = scans.keys().copied().collect();
    let later_bytes = used_bytes(&scans);
    let first = oldest(&scans, durable).unwrap_or(directory.first());
    let walk = walk(&directory, log_id, scans, durable, first)?;
    report.cut = cut(&walk, &later_bytes);
    report.damages = walk.places.len() as u64;
    repair::repair(&directory, &damage, log_id, &walk.places, &walk.patches)?;
    let (catalogue, tail) =
        recovery_finish::finish_recovery(&directory, &options, log_id, walk, &mut report)?;
    for number in scanned_numbers.iter().filter(|n| catalogue.find(**n).is_some()) {
        directory.open(*number)?.sync_data().map_err(io("sync", *number))?;
    }
    directory.sync()?;
    let durable = end_of(&catalogue, tail.as_ref());
    let shared = SegmentLogShared::new(disk, options, log_id, catalogue, durable, damage);
    Ok(Opened { shared, tail, report })
}

/// Creates a log in a directory where none was written.
fn fresh<D: Disk>(
    disk: D,
    options: SegmentLogOptions,
    directory: &Directory<D>,
) -> Result<Opened<D>, OpenError> {
    for found in &directory.files {
        directory.remove(found.number)?;
    }
    let log_id = disk.random();
    let damage = DamageLog::open(&disk, log_id, options.set_aside_bytes_max)?;
    let catalogue = Catalogue::new(VecDeque::new(), 1);
    let shared =
        SegmentLogShared::new(disk, options, log_id, catalogue, RecordPosition::default(), damage);
    Ok(Opened { shared, tail: None, report: RecoveryReport::default() })
}

/// Scans the segments from the newest down to the one that holds the highest mark, or all. Also
/// returns the highest durable position.
fn scan_segments<D: Disk>(
    directory: &Directory<D>,
    log_id: u64,
    depth: Depth,
) -> Result<(BTreeMap<u32, Scanned>, RecordPosition), OpenError> {
    let mut scans = BTreeMap::new();
    let mut durable = RecordPosition::default();
    let mut last_valid = RecordPosition::default();
    for found in directory.files.iter().rev() {
        let scanned = scan(directory, found.number, log_id)?;
        durable = durable.max(scanned.statements.durable);
        if depth == Depth::Everything && last_valid == RecordPosition::default() {
            last_valid = end_of_records(directory, found, log_id, &scanned)?;
        }
        scans.insert(found.number, scanned);
        if depth == Depth::Recent && durable.segment >= found.number {
            break;
        }
    }
    Ok((scans, durable.max(last_valid)))
}

/// Returns the number of the oldest segment as recorded in the log, or `None` if it is not recorded
/// (before version 2). Records in a torn tail do not count: no segment was removed because of them.
fn oldest(scans: &BTreeMap<u32, Scanned>, durable: RecordPosition) -> Option<u32> {
    let mut first = 0;
    for (number, scanned) in scans {
        let own = |offset: u32| RecordPosition { segment: *number, offset };
        let counts = |at: u32| at < scanned.offset || own(at) < durable;
        let named = scanned.statements.firsts.iter().filter(|(at, _)| counts(*at));
        first = named.map(|(_, named)| *named).fold(first, u32::max);
        let is_last = scanned.ending != Ending::Sealed || !scans.contains_key(&(number + 1));
        if is_last && own(scanned.offset) >= durable {
            break;
        }
    }
    (first > 0).then_some(first)
}

/// Returns where the last valid record of a segment ends, even after damage. Returns the lowest
/// position if the segment has no record.
fn end_of_records<D: Disk>(
    directory: &Directory<D>,
    found: &SegmentFile,
    log_id: u64,
    scanned: &Scanned,
) -> Result<RecordPosition, OpenError> {
    let offset = match scanned.ending {
        Ending::Sealed | Ending::Open => scanned.offset,
        Ending::Damaged { .. } => {
            let file = directory.open(found.number)?;
            let scanner = Scanner::new(&file, log_id, found.number);
            scanner.and_then(|it| survey(it, None)).map_err(io("read", found.number))?.offset
        }
    };
    let is_used = offset > HEADER_BYTES;
    Ok(if is_used {
        RecordPosition { segment: found.number, offset }
    } else {
        RecordPosition::default()
    })
}

pub(crate) fn scan<D: Disk>(
    directory: &Directory<D>,
    number: u32,
    log_id: u64,
) -> Result<Scanned, OpenError> {
    let file = directory.open(number)?;
    Scanner::new(&file, log_id, number).and_then(Scanner::scan).map_err(io("read", number))
}

/// Returns the number of bytes in each scanned segment after its header.
fn used_bytes(scans: &BTreeMap<u32, Scanned>) -> BTreeMap<u32, u64> {
    let used = |scanned: &Scanned| {
        let garbage = match scanned.ending {
            Ending::Damaged { garbage_bytes, .. } => garbage_bytes,
            Ending::Open | Ending::Sealed => 0,
        };
        u64::from(scanned.offset.saturating_sub(HEADER_BYTES)) + u64::from(garbage)
    };
    scans.iter().map(|(number, scanned)| (*number, used(scanned))).collect()
}

/// Returns the torn tail after the log's end, if anything was written there.
fn cut(walk: &RecoveryWalk, used: &BTreeMap<u32, u64>) -> Option<Cut> {
    let end = walk.end;
    let behind: u64 = used.range(end.segment..).map(|(_, bytes)| bytes).sum();
    let bytes = behind.saturating_sub(end.offset.saturating_sub(HEADER_BYTES).into());
    let why = format!("{} is torn at offset {}: {}", name(end.segment), end.offset, walk.why);
    (bytes > 0).then_some(Cut { position: end, bytes, why })
}

fn end_of<F>(catalogue: &Catalogue<F>, tail: Option<&SegmentTail<F>>) -> RecordPosition {
    match tail {
        Some(tail) => RecordPosition { segment: tail.segment.number, offset: tail.offset },
        None => RecordPosition { segment: catalogue.next_number, offset: 0 },
    }
}

pub(crate) fn name(number: u32) -> String {
    format::file_name(number)
}

pub(crate) fn io(what: &str, number: u32) -> impl FnOnce(std::io::Error) -> OpenError {
    OpenError::io(format!("{what} {}", name(number)))
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("segments are numbered by u32")
}
