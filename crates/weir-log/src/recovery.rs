//! Opening a log: find where it ends, refuse if promised records are missing, cut what is torn.
//!
//! Pages that were not synced vanish in any order in a power cut, so valid records may stand
//! behind a hole. What decides is the highest durable mark that any file holds: damage below it is
//! corruption, damage above it is a torn tail, and everything behind that is cut (durability is
//! always a prefix).
//!
//! Only segments at or above that mark are read in full; older ones are taken by their trailers.
//! Damage in those shows when a record is read, or in [`crate::verify`].

use crate::directory::{Directory, Found};
use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES, Seal};
use crate::log::Tail;
use crate::options::Options;
use crate::position::Position;
use crate::scan::{Ending, Scanned, Scanner};
use crate::settle;
use crate::shared::{Catalogue, Shared};
use std::collections::{BTreeMap, VecDeque};

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub segments: u32,
    /// Data records.
    pub records: u64,
    /// Bytes in use.
    pub bytes: u64,
    /// Segments that were read in full rather than taken by their footers.
    pub segments_scanned: u32,
    /// Footers that were written anew.
    pub footers_repaired: u32,
    /// The torn tail, if there was one.
    pub cut: Option<Cut>,
}

/// A torn tail that was cut: none of it was ever reported durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the log ends now.
    pub position: Position,
    /// Bytes that stood behind it, later segments included.
    pub bytes: u64,
    pub why: String,
}

/// A segment that stays.
pub(crate) enum Kept {
    /// Sealed; `repair` is what must be written at the end record's offset.
    Sealed { number: u32, seal: Seal, repair: Option<Vec<u8>> },
    /// The one to go on with. `garbage`: something must be cut off.
    Tail { number: u32, scanned: Scanned, garbage: bool },
}

/// Where the log ends and why.
pub(crate) struct Walk {
    pub(crate) kept: Vec<Kept>,
    pub(crate) end: Position,
    pub(crate) why: String,
}

/// A log before its owner has it: the next segment is not yet made.
pub(crate) struct Opened<D: Disk> {
    pub(crate) shared: Shared<D>,
    pub(crate) tail: Option<Tail<D::File>>,
    pub(crate) report: Report,
}

/// Opens the log.
pub(crate) fn open<D: Disk>(disk: D, options: Options) -> Result<Opened<D>, OpenError> {
    options.check()?;
    let directory = Directory::read(&disk)?;
    let Some(log_id) = directory.identity()? else {
        return fresh(disk, options, &directory);
    };
    let (scans, durable) = scan_recent(&directory, log_id)?;
    let mut report = Report { segments_scanned: as_u32(scans.len()), ..Report::default() };
    let scanned_numbers: Vec<u32> = scans.keys().copied().collect();
    let later_bytes = used_bytes(&scans);
    let walk = walk(&directory, log_id, scans, durable)?;
    refuse_loss(&walk, durable)?;
    report.cut = cut(&walk, &later_bytes);
    let (catalogue, tail) = settle::settle(&directory, &options, log_id, walk, &mut report)?;
    for number in scanned_numbers.iter().filter(|n| catalogue.find(**n).is_some()) {
        directory.open(*number)?.sync_data().map_err(io("sync", *number))?;
    }
    disk.sync_dir().map_err(OpenError::io("sync the log's directory"))?;
    let durable = end_of(&catalogue, tail.as_ref());
    let shared = Shared::new(disk, options, log_id, catalogue, durable);
    Ok(Opened { shared, tail, report })
}

/// Makes a log where nothing was ever written.
fn fresh<D: Disk>(
    disk: D,
    options: Options,
    directory: &Directory<D>,
) -> Result<Opened<D>, OpenError> {
    for found in &directory.files {
        directory.remove(found.number)?;
    }
    let log_id = disk.random();
    let catalogue = Catalogue::new(VecDeque::new(), 1);
    let shared = Shared::new(disk, options, log_id, catalogue, Position::default());
    Ok(Opened { shared, tail: None, report: Report::default() })
}

/// Reads segments from the newest down to the one that the highest mark lies in.
fn scan_recent<D: Disk>(
    directory: &Directory<D>,
    log_id: u64,
) -> Result<(BTreeMap<u32, Scanned>, Position), OpenError> {
    let mut scans = BTreeMap::new();
    let mut durable = Position::default();
    for found in directory.files.iter().rev() {
        let scanned = scan(directory, found, log_id)?;
        durable = durable.max(scanned.durable);
        scans.insert(found.number, scanned);
        if durable.segment >= found.number {
            break;
        }
    }
    Ok((scans, durable))
}

fn scan<D: Disk>(
    directory: &Directory<D>,
    found: &Found,
    log_id: u64,
) -> Result<Scanned, OpenError> {
    let file = directory.open(found.number)?;
    let scanner = Scanner::new(&file, log_id, found.number);
    let scanned = match found.header {
        Some(_) => scanner.and_then(Scanner::scan),
        None => scanner.and_then(Scanner::headless),
    };
    scanned.map_err(io("read", found.number))
}

/// Bytes that each scanned segment holds behind its header.
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

/// Follows the segments from the oldest to where the log ends.
fn walk<D: Disk>(
    directory: &Directory<D>,
    log_id: u64,
    mut scans: BTreeMap<u32, Scanned>,
    durable: Position,
) -> Result<Walk, OpenError> {
    let mut kept = Vec::new();
    let mut end = Position { segment: directory.first(), offset: 0 };
    for found in &directory.files {
        let number = found.number;
        if number != end.segment {
            let why = format!("the file is missing, although {} is there", name(number));
            return Ok(Walk { kept, end, why });
        }
        let scanned = match (scans.remove(&number), found.sealed_as(log_id)) {
            (Some(scanned), _) => scanned,
            (None, Some(seal)) => {
                kept.push(Kept::Sealed { number, seal, repair: None });
                end = Position { segment: number + 1, offset: 0 };
                continue;
            }
            (None, None) => scan(directory, found, log_id)?,
        };
        let (offset, trusted) = (scanned.offset, durable.segment > number);
        let why = match scanned.ending {
            Ending::Sealed => {
                kept.push(sealed(directory, number, log_id, scanned)?);
                end = Position { segment: number + 1, offset: 0 };
                continue;
            }
            Ending::Open => "its records end too early".to_owned(),
            Ending::Damaged { why, .. } => why.to_owned(),
        };
        let end = Position { segment: number, offset };
        if offset >= HEADER_BYTES && !trusted {
            let garbage = scanned.ending != Ending::Open;
            kept.push(Kept::Tail { number, scanned, garbage });
        }
        return Ok(Walk { kept, end, why });
    }
    Ok(Walk { kept, end, why: "the file is missing".to_owned() })
}

/// A scanned segment that is complete: is its footer, too?
fn sealed<D: Disk>(
    directory: &Directory<D>,
    number: u32,
    log_id: u64,
    scanned: Scanned,
) -> Result<Kept, OpenError> {
    let (seal, bytes) = scanned.index.seal(log_id, number, scanned.offset);
    let file = directory.open(number)?;
    let mut present = vec![0; bytes.len()];
    let read = disk::read_full(&file, &mut present, seal.end_offset.into());
    let read = read.map_err(io("read", number))?;
    let exact = file.size().map_err(io("read", number))? == u64::from(seal.file_bytes());
    let sound = exact && present[..read] == bytes[..];
    Ok(Kept::Sealed { number, seal, repair: (!sound).then_some(bytes) })
}

/// Stops if the log ends below what was reported durable.
fn refuse_loss(walk: &Walk, durable: Position) -> Result<(), OpenError> {
    let end = walk.end;
    // A log that ends with a sealed segment ends behind that segment's footer.
    if durable <= end {
        return Ok(());
    }
    Err(OpenError::Corrupt {
        file: name(end.segment),
        offset: end.offset,
        why: walk.why.clone(),
        durable,
    })
}

/// What is lost behind the end, if anything was written there.
fn cut(walk: &Walk, used: &BTreeMap<u32, u64>) -> Option<Cut> {
    let end = walk.end;
    let behind: u64 = used.range(end.segment..).map(|(_, bytes)| bytes).sum();
    let bytes = behind - u64::from(end.offset.saturating_sub(HEADER_BYTES));
    let why = format!("{} is torn at offset {}: {}", name(end.segment), end.offset, walk.why);
    (bytes > 0).then_some(Cut { position: end, bytes, why })
}

fn end_of<F>(catalogue: &Catalogue<F>, tail: Option<&Tail<F>>) -> Position {
    match tail {
        Some(tail) => Position { segment: tail.segment.number, offset: tail.offset },
        None => Position { segment: catalogue.next_number, offset: 0 },
    }
}

pub(crate) fn name(number: u32) -> String {
    format::file_name(number)
}

pub(crate) fn io(what: &str, number: u32) -> impl FnOnce(std::io::Error) -> OpenError {
    OpenError::io(format!("{what} {}", name(number)))
}

fn as_u32(count: usize) -> u32 {
    u32::try_from(count).expect("segments are numbered by u32")
}
