//! A full check of a log that nobody has open: every checksum, changing nothing.

use crate::directory::{Directory, Found};
use crate::disk::{self, Disk};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES};
use crate::position::Position;
use crate::scan::Scanner;
use crate::survey::{Hole, Survey, survey};

/// Damaged places that are listed; more are only counted.
const DAMAGES_LISTED_MAX: usize = 1000;

/// What a full check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Every segment file that is there, oldest first.
    pub segments: Vec<SegmentCheck>,
    /// The first thousand damaged places.
    pub damages: Vec<Damage>,
    /// All of them, missing files included.
    pub damages_total: u64,
}

/// What a full check found in one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCheck {
    pub file: String,
    /// Data records whose checksum holds.
    pub records: u32,
    /// From the beginning of the file to the end of its last sound record or, when it is sealed
    /// and sound, of its footer.
    pub bytes: u64,
    /// Damaged places.
    pub damages: u64,
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

/// How far a full check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub segments_done: usize,
    pub segments: usize,
}

impl Verification {
    /// Whether everything is as it was written.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages_total == 0
    }

    /// Data records whose checksum holds.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.records)).sum()
    }

    /// Bytes behind the end of the log.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.torn_bytes).sum()
    }

    /// Bytes that an earlier salvage gave up.
    #[must_use]
    pub fn gap_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.gap_bytes).sum()
    }
}

/// Reads the whole log in `disk` and lists what is damaged. A torn tail is not damage. Holds the
/// heads of one segment and its longest record in memory. `watch` hears of every segment.
///
/// # Errors
/// `Io`, and what keeps any log from being read: `Foreign`, `Version`, `NoIdentity`.
pub fn verify<D: Disk>(
    disk: &D,
    watch: &mut dyn FnMut(Progress),
) -> Result<Verification, OpenError> {
    let directory = Directory::read(disk)?;
    let mut verification = Verification::default();
    let Some(log_id) = directory.identity()? else {
        return Ok(verification);
    };
    let segments = directory.files.len();
    let mut ends = Vec::new();
    for (found, segments_done) in directory.files.iter().zip(1..) {
        ends.push(check_segment(&directory, found, log_id, &mut verification)?);
        watch(Progress { segments_done, segments });
    }
    let durable = ends.iter().map(|end| end.durable).max().unwrap_or_default();
    let last_used = ends.iter().rev().find(|end| end.used).map_or(0, |end| end.at.segment);
    let mut expected = directory.first();
    for (index, end) in ends.into_iter().enumerate() {
        for missing in expected..end.at.segment {
            let hole = Hole { start: 0, end: 0, why: "the file is missing" };
            verification.damage(None, missing, hole);
        }
        expected = end.at.segment + 1;
        verification.judge_end(index, &end, durable, last_used);
    }
    Ok(verification)
}

impl Verification {
    /// Damage, in the segment at `index` if its file is there.
    fn damage(&mut self, index: Option<usize>, number: u32, hole: Hole) {
        self.damages_total += 1;
        if let Some(index) = index {
            self.segments[index].damages += 1;
        }
        if self.damages.len() < DAMAGES_LISTED_MAX {
            self.damages.push(Damage {
                file: format::file_name(number),
                offset: hole.start,
                bytes: u64::from(hole.end - hole.start),
                why: hole.why.to_owned(),
            });
        }
    }

    /// Records that end below what was durable, or before later segments, are missing; what else
    /// stands behind the last record is a torn tail.
    fn judge_end(&mut self, index: usize, end: &SegmentEnd, durable: Position, last_used: u32) {
        let Position { segment: number, offset } = end.at;
        let incomplete = !end.sealed && (end.at < durable || number < last_used);
        match end.torn {
            Some(hole) if incomplete || end.at < durable => {
                self.damage(Some(index), number, hole);
            }
            Some(hole) => self.segments[index].torn_bytes = u64::from(hole.end - hole.start),
            None if incomplete => {
                let why = "its records end too early";
                self.damage(Some(index), number, Hole { start: offset, end: offset, why });
            }
            None => {}
        }
    }
}

/// How a segment ends, once its records are counted and its holes listed.
struct SegmentEnd {
    at: Position,
    sealed: bool,
    torn: Option<Hole>,
    durable: Position,
    used: bool,
}

fn check_segment<D: Disk>(
    directory: &Directory<D>,
    found: &Found,
    log_id: u64,
    verification: &mut Verification,
) -> Result<SegmentEnd, OpenError> {
    let number = found.number;
    let file = directory.open(number)?;
    let io = || OpenError::io(format!("read {}", format::file_name(number)));
    let surveyed = Scanner::new(&file, log_id, number).and_then(survey);
    let Survey { index, holes, torn, offset, sealed, durable, gap_bytes } =
        surveyed.map_err(io())?;
    let used = index.records() > 0 || sealed || torn.is_some();
    let place = verification.segments.len();
    verification.segments.push(SegmentCheck {
        file: format::file_name(number),
        records: index.records(),
        bytes: offset.into(),
        gap_bytes,
        ..SegmentCheck::default()
    });
    if found.header.is_none() && used {
        let why = "its header is unreadable";
        verification.damage(Some(place), number, Hole { start: 0, end: HEADER_BYTES, why });
    }
    for hole in &holes {
        verification.damage(Some(place), number, *hole);
    }
    if sealed && holes.is_empty() {
        let (seal, expected) = index.seal(log_id, number, offset);
        let mut present = vec![0; expected.len()];
        let read = disk::read_full(&file, &mut present, offset.into()).map_err(io())?;
        if present[..read] == expected[..] {
            verification.segments[place].bytes = seal.file_bytes().into();
        } else {
            let (start, end) = (seal.entries_offset(), seal.file_bytes());
            let why = "its footer is damaged";
            verification.damage(Some(place), number, Hole { start, end, why });
        }
    }
    Ok(SegmentEnd { at: Position { segment: number, offset }, sealed, torn, durable, used })
}
