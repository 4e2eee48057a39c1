//! Verifies every checksum of a log that is not open, without changing it.

use std::collections::HashSet;

use crate::damage::{self, Acknowledged, Damage, LISTED_MAX};
use crate::directory::{Directory, SegmentFile};
use crate::disk::{self, Disk};
use crate::error::OpenError;
use crate::format::{self, HEADER_BYTES};
use crate::position::RecordPosition;
use crate::scan::{Scanner, Statements};
use crate::survey::{Hole, Survey, survey};

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Every segment file in the directory, oldest first.
    pub segments: Vec<SegmentCheck>,
    /// The first 1,000 damaged ranges.
    pub damages: Vec<Damage>,
    /// The number of damaged ranges, missing files included.
    pub damages_total: u64,
    /// Damage that was set aside and that no operator has acknowledged. Ranges of it that are not
    /// repaired are not counted in `damages_total`.
    pub set_aside: Vec<Damage>,
    /// Damage that was set aside, acknowledged or not.
    known: ReportedDamages,
}

/// The file and offset of each damaged range that was reported before.
type ReportedDamages = HashSet<(String, u32)>;

/// The result for one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentCheck {
    pub file: String,
    /// Data records whose checksum matches.
    pub records: u32,
    /// Bytes from the beginning of the file to the end of its last valid record or, if it is sealed
    /// and undamaged, of its footer.
    pub bytes: u64,
    /// The number of damaged ranges.
    pub damages: u64,
    /// Bytes after the end of the log, as a power cut leaves them. Opening the log cuts them off.
    pub torn_bytes: u64,
    /// Bytes that an earlier repair replaced with gap records.
    pub gap_bytes: u64,
}

/// The progress of [`verify`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    pub segments_done: usize,
    pub segments: usize,
}

impl Verification {
    /// Returns whether there is no damage, other than what an operator has acknowledged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages_total == 0 && self.set_aside.is_empty()
    }

    /// Returns the number of data records whose checksum matches.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.records)).sum()
    }

    /// Returns the number of bytes after the end of the log.
    #[must_use]
    pub fn torn_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.torn_bytes).sum()
    }

    /// Returns the number of bytes that an earlier repair replaced with gap records.
    #[must_use]
    pub fn gap_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.gap_bytes).sum()
    }
}

/// Reads the whole log in `disk` and lists the damage. A torn tail is not damage. Holds the heads
/// of one segment and its longest record in memory. Calls `watch` after every segment.
///
/// # Errors
/// `Io`, and the errors of an unreadable log: `Foreign`, `Version`, `NoIdentity`.
pub fn verify<D: Disk>(
    disk: &D,
    watch: &mut dyn FnMut(VerifyProgress),
) -> Result<Verification, OpenError> {
    let directory = Directory::read(disk)?;
    let mut verification = Verification::default();
    let Some(log_id) = directory.identity()? else {
        return Ok(verification);
    };
    let mut known = ReportedDamages::default();
    for which in [Acknowledged::No, Acknowledged::Yes] {
        damage::set_aside(disk, which, &mut |damage, _| {
            known.insert((damage.file.clone(), damage.offset));
            if which == Acknowledged::No && verification.set_aside.len() < LISTED_MAX {
                verification.set_aside.push(damage.clone());
            }
        })?;
    }
    verification.known = known;
    let segments = directory.files.len();
    let mut ends = Vec::new();
    for (found, segments_done) in directory.files.iter().zip(1..) {
        ends.push(check_segment(&directory, found, log_id, &mut verification)?);
        watch(VerifyProgress { segments_done, segments });
    }
    let durable = ends.iter().map(|end| end.statements.durable).max().unwrap_or_default();
    let last_used = ends.iter().rev().find(|end| end.used).map_or(0, |end| end.at.segment);
    let first = ends.iter().map(|end| end.statements.first()).max().unwrap_or_default();
    let mut expected = if first == 0 { directory.first() } else { first };
    for (index, end) in ends.into_iter().enumerate() {
        for missing in expected..end.at.segment {
            if end.at.segment > last_used.max(durable.segment) {
                break; // behind the end of the log
            }
            let hole = Hole { start: 0, end: 0, why: "the file is missing" };
            verification.damage(None, missing, hole);
        }
        expected = expected.max(end.at.segment + 1);
        verification.check_end(index, &end, durable, last_used);
    }
    Ok(verification)
}

impl Verification {
    /// Records damage, counted in the segment at `index` if its file exists.
    fn damage(&mut self, index: Option<usize>, number: u32, hole: Hole) {
        let known = (format::file_name(number), hole.start);
        if self.known.contains(&known) {
            return;
        }
        self.damages_total += 1;
        if let Some(index) = index {
            self.segments[index].damages += 1;
        }
        if self.damages.len() < LISTED_MAX {
            self.damages.push(Damage {
                file: format::file_name(number),
                offset: hole.start,
                bytes: u64::from(hole.end - hole.start),
                set_aside: 0,
                why: hole.why.to_owned(),
            });
        }
    }

    /// Classifies the end of a segment: if its records end before the durable position, or before
    /// later segments, records are missing; any other bytes after the last record are a torn tail.
    fn check_end(
        &mut self,
        index: usize,
        end: &SegmentEnd,
        durable: RecordPosition,
        last_used: u32,
    ) {
        let RecordPosition { segment: number, offset } = end.at;
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

/// The end of a segment, whose records are counted and whose holes are listed.
struct SegmentEnd {
    at: RecordPosition,
    sealed: bool,
    torn: Option<Hole>,
    statements: Statements,
    used: bool,
}

fn check_segment<D: Disk>(
    directory: &Directory<D>,
    found: &SegmentFile,
    log_id: u64,
    verification: &mut Verification,
) -> Result<SegmentEnd, OpenError> {
    let number = found.number;
    let file = directory.open(number)?;
    let io = || OpenError::io(format!("read {}", format::file_name(number)));
    let surveyed = Scanner::new(&file, log_id, number).and_then(|it| survey(it, None));
    let Survey { index, holes, torn, offset, sealed, statements, gap_bytes } =
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
    Ok(SegmentEnd {
        at: RecordPosition { segment: number, offset },
        sealed,
        torn,
        statements,
        used,
    })
}
