//! Reads a whole segment past damage: finds the valid records and the holes between them.

use std::io;

use crate::disk::DiskFile;
use crate::format::{self, CHECKSUM_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use crate::index::Index;
use crate::position::RecordPosition;
use crate::scan::{ScanStep, Scanner, Statements};
use crate::stretch::Stretches;

/// A range of bytes that belongs to no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) why: &'static str,
}

/// The valid records of a segment.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    /// Between valid records.
    pub(crate) holes: Vec<Hole>,
    /// After the last valid record, up to the last byte that is not zero.
    pub(crate) torn: Option<Hole>,
    /// The end of the last valid record; for a sealed segment, the start of the end record.
    pub(crate) offset: u32,
    pub(crate) sealed: bool,
    pub(crate) statements: Statements,
    /// Size of the gap records that an earlier repair wrote.
    pub(crate) gap_bytes: u64,
}

/// Reads every record of a segment; its header was checked before. If `durable` is given, damage at
/// or after that position ends the log, and no records are searched for after it.
pub(crate) fn survey<F: DiskFile>(
    mut scanner: Scanner<'_, F>,
    durable: Option<RecordPosition>,
) -> io::Result<Survey> {
    let mut survey = Survey {
        index: Index::new(),
        holes: Vec::new(),
        torn: None,
        offset: HEADER_BYTES,
        sealed: false,
        statements: Statements::default(),
        gap_bytes: 0,
    };
    let mut search = Search::new(&scanner);
    while !survey.sealed {
        let start = survey.offset;
        let Some(why) = survey.take(scanner.step(start)?) else {
            continue;
        };
        let own = RecordPosition { segment: scanner.number(), offset: start };
        let next = match durable {
            Some(durable) if own >= durable => None,
            _ => search.next_valid(&mut scanner, start)?,
        };
        let Some(end) = next else {
            let last = scanner.last_byte(start)?;
            survey.torn = last.map(|last| Hole { start, end: last + 1, why });
            break;
        };
        survey.holes.push(Hole { start, end, why });
        survey.offset = end;
    }
    Ok(survey)
}

impl Survey {
    /// Adds a valid record and advances past it. Returns why there is no valid record otherwise.
    fn take(&mut self, (step, next): (ScanStep<'_>, u32)) -> Option<&'static str> {
        self.statements.note(self.offset, &step);
        match step {
            ScanStep::Data { head, length } => self.index.push(self.offset, length, head),
            ScanStep::Mark(_) | ScanStep::First(_) => {}
            ScanStep::Gap { length } => self.gap_bytes += u64::from(length + RECORD_HEADER_BYTES),
            ScanStep::End { .. } => {
                self.sealed = true;
                return None;
            }
            ScanStep::Nothing => return Some("zeros stand where a record should"),
            ScanStep::Damaged(why) => return Some(why),
        }
        self.offset = next;
        None
    }
}

/// Searches for records after damage. It tries every offset at which a record of any length may
/// begin, so it misses no record whose checksum matches, whatever the damage looks like.
struct Search<'a, F> {
    file: &'a F,
    /// Computed for the first offset that needs it, because most segments are undamaged.
    stretches: Option<Stretches<'a, F>>,
}

impl<'a, F: DiskFile> Search<'a, F> {
    fn new(scanner: &Scanner<'a, F>) -> Self {
        Search { file: scanner.file(), stretches: None }
    }

    /// Returns the offset of the next valid record after a damaged one, leaving space for a gap
    /// record.
    fn next_valid(
        &mut self,
        scanner: &mut Scanner<'_, F>,
        damaged: u32,
    ) -> io::Result<Option<u32>> {
        let mut at = damaged + RECORD_HEADER_BYTES;
        while let Some((place, header)) = next_plausible(scanner, at)? {
            let is_valid = self.is_checksum_valid(scanner, place, header)?
                && !matches!(scanner.step(place)?.0, ScanStep::Damaged(_) | ScanStep::Nothing);
            if is_valid {
                return Ok(Some(place));
            }
            at = place + 1;
        }
        Ok(None)
    }

    fn is_checksum_valid(
        &mut self,
        scanner: &Scanner<'_, F>,
        place: u32,
        header: RecordHeader,
    ) -> io::Result<bool> {
        let stretches = match &mut self.stretches {
            Some(stretches) => stretches,
            none => none.insert(Stretches::new(self.file, scanner.size())?),
        };
        let start = scanner.seed().start(place);
        let (from, to) = (place + CHECKSUM_BYTES, place + header.record_bytes());
        Ok(stretches.append(start, from, to)? == header.checksum)
    }
}

/// Returns the first offset from `at` on whose header is plausible and whose record does not exceed
/// the file.
fn next_plausible<F: DiskFile>(
    scanner: &mut Scanner<'_, F>,
    mut at: u32,
) -> io::Result<Option<(u32, RecordHeader)>> {
    let size = scanner.size();
    loop {
        let bytes = scanner.window(at)?;
        if bytes.len() < RECORD_HEADER_BYTES as usize {
            return Ok(None);
        }
        let Some(skipped) = format::first_kind(bytes) else {
            at += to_u32(bytes.len()) - (RECORD_HEADER_BYTES - 1);
            continue;
        };
        let header = RecordHeader::decode(&bytes[skipped..]);
        at += to_u32(skipped);
        match header.filter(|header| header.record_bytes() <= size - at) {
            Some(header) => return Ok(Some((at, header))),
            None => at += 1,
        }
    }
}

fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a window lies in one segment")
}
