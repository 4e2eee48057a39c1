//! A full check of a log that nobody has open: every checksum, changing nothing.

use crate::directory::{Directory, Found};
use crate::disk::{self, Disk};
use crate::error::OpenError;
use crate::format::{self};
use crate::position::Position;
use crate::scan::Scanner;
use crate::survey::{Hole, Survey, survey};

/// Damaged places that are listed; more are only counted.
const DAMAGES_LISTED_MAX: usize = 1000;

/// What a full check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    pub segments: u32,
    /// Data records whose checksum holds.
    pub records: u64,
    /// The first thousand damaged places.
    pub damages: Vec<Damage>,
    pub damages_total: u64,
    /// Bytes behind the end of the log, as a power cut leaves them: opening cuts them off.
    pub torn_bytes: u64,
    /// Bytes that an earlier salvage gave up.
    pub gap_bytes: u64,
}

/// A place where something else stands than was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u32,
    pub bytes: u64,
    pub why: String,
}

impl Verification {
    /// Whether everything is as it was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages_total == 0
    }

    fn damage(&mut self, number: u32, hole: Hole) {
        let file = format::file_name(number);
        let bytes = u64::from(hole.end - hole.start);
        self.damages_total += 1;
        if self.damages.len() < DAMAGES_LISTED_MAX {
            let why = hole.why.to_owned();
            self.damages.push(Damage { file, offset: hole.start, bytes, why });
        }
    }
}

/// Reads the whole log in `disk` and lists what is damaged. A torn tail is not damage.
///
/// # Errors
/// `Io`, and what keeps any log from being read: `Foreign`, `Version`, `NoIdentity`.
pub fn verify<D: Disk>(disk: &D) -> Result<Verification, OpenError> {
    let directory = Directory::read(disk)?;
    let mut verification = Verification::default();
    let Some(log_id) = directory.identity()? else {
        return Ok(verification);
    };
    let mut surveys = Vec::new();
    for found in &directory.files {
        surveys.push((found, summarise(&directory, found, log_id, &mut verification)?));
    }
    let durable = surveys.iter().map(|(_, end)| end.durable).max().unwrap_or_default();
    let mut expected = directory.first();
    let last_used = surveys.iter().rev().find(|(_, end)| end.used).map_or(0, |(f, _)| f.number);
    for (found, end) in surveys {
        for missing in expected..found.number {
            verification.damage(missing, Hole { start: 0, end: 0, why: "the file is missing" });
        }
        expected = found.number + 1;
        let at = Position { segment: found.number, offset: end.offset };
        let incomplete = !end.sealed && (at < durable || found.number < last_used);
        if let (true, _, hole) | (_, true, hole @ Some(_)) = (incomplete, at < durable, end.torn) {
            let why = "its records end too early";
            let hole = hole.unwrap_or(Hole { start: end.offset, end: end.offset, why });
            verification.damage(found.number, hole);
        } else if let Some(hole) = end.torn {
            verification.torn_bytes += u64::from(hole.end - hole.start);
        }
    }
    Ok(verification)
}

/// How a segment ends, once its records are counted and its holes listed.
struct SegmentEnd {
    offset: u32,
    sealed: bool,
    torn: Option<Hole>,
    durable: Position,
    used: bool,
}

fn summarise<D: Disk>(
    directory: &Directory<D>,
    found: &Found,
    log_id: u64,
    verification: &mut Verification,
) -> Result<SegmentEnd, OpenError> {
    let number = found.number;
    let file = directory.open(number)?;
    let io = || OpenError::io(format!("read {}", format::file_name(number)));
    let found_all = Scanner::new(&file, log_id, number).and_then(survey);
    let survey = found_all.map_err(io())?;
    let used = survey.index.records() > 0 || survey.sealed || survey.torn.is_some();
    verification.segments += 1;
    verification.records += u64::from(survey.index.records());
    verification.gap_bytes += survey.gap_bytes;
    if found.header.is_none() && used {
        let why = "its header is unreadable";
        verification.damage(number, Hole { start: 0, end: format::HEADER_BYTES, why });
    }
    for hole in &survey.holes {
        verification.damage(number, *hole);
    }
    let Survey { offset, sealed, torn, durable, holes, index, .. } = survey;
    if sealed && holes.is_empty() {
        let (seal, expected) = index.seal(log_id, number, offset);
        let mut present = vec![0; expected.len()];
        let read = disk::read_full(&file, &mut present, offset.into()).map_err(io())?;
        if present[..read] != expected[..] {
            let (start, end) = (seal.entries_offset(), seal.file_bytes());
            verification.damage(number, Hole { start, end, why: "its footer is damaged" });
        }
    }
    Ok(SegmentEnd { offset, sealed, torn, durable, used })
}
