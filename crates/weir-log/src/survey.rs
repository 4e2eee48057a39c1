//! Reading a whole segment past damage: which records still hold, and what lies between them.

use std::io;

use crate::disk::DiskFile;
use crate::format::{HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use crate::index::Index;
use crate::position::Position;
use crate::scan::{Scanner, Step};

/// Checksums behind damage may read each byte of the file so many times: enough for any real
/// payload, and a bound for one made of bytes that all look like the beginning of a long record.
const CHECKSUM_PASSES_MAX: u64 = 8;
/// The same for records up to `SHORT_RECORD_BYTES`, which are tried for longer.
const SHORT_CHECKSUM_PASSES_MAX: u64 = 64;
const SHORT_RECORD_BYTES: u32 = 4096;

/// Bytes that belong to no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) why: &'static str,
}

/// All that holds in a segment.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) index: Index,
    /// Between valid records.
    pub(crate) holes: Vec<Hole>,
    /// Behind the last valid record, up to the last byte that is not zero.
    pub(crate) torn: Option<Hole>,
    /// The end of the last valid record; the start of the end record of a sealed segment.
    pub(crate) offset: u32,
    pub(crate) sealed: bool,
    pub(crate) durable: Position,
    /// Given up by an earlier salvage.
    pub(crate) gap_bytes: u64,
}

/// Reads every record of a segment whose header has been dealt with.
pub(crate) fn survey<F: DiskFile>(mut scanner: Scanner<'_, F>) -> io::Result<Survey> {
    let mut survey = Survey {
        index: Index::new(),
        holes: Vec::new(),
        torn: None,
        offset: HEADER_BYTES,
        sealed: false,
        durable: Position::default(),
        gap_bytes: 0,
    };
    let mut budget = Budget { spent: 0, size: scanner.size().into() };
    while !survey.sealed {
        let start = survey.offset;
        let Some(why) = survey.take(scanner.step(start)?) else {
            continue;
        };
        let Some(end) = next_valid(&mut scanner, start, &mut budget)? else {
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
    /// Notes a valid record and goes on behind it; else says why there is none.
    fn take(&mut self, (step, next): (Step<'_>, u32)) -> Option<&'static str> {
        match step {
            Step::Data { head, length } => self.index.push(self.offset, length, head),
            Step::Mark(mark) => self.durable = self.durable.max(mark),
            Step::Gap { length } => self.gap_bytes += u64::from(length + RECORD_HEADER_BYTES),
            Step::End { .. } => {
                self.sealed = true;
                return None;
            }
            Step::Nothing => return Some("zeros stand where a record should"),
            Step::Damaged(why) => return Some(why),
        }
        self.offset = next;
        None
    }
}

/// How much may still be read to check places that look like records.
struct Budget {
    spent: u64,
    size: u64,
}

impl Budget {
    fn allows(&mut self, record_bytes: u32) -> bool {
        let passes = if record_bytes <= SHORT_RECORD_BYTES {
            SHORT_CHECKSUM_PASSES_MAX
        } else {
            CHECKSUM_PASSES_MAX
        };
        let allowed = self.spent + u64::from(record_bytes) <= passes * self.size;
        self.spent += if allowed { record_bytes.into() } else { 0 };
        allowed
    }
}

/// Where the next valid record behind a damaged one begins. It leaves room for a gap record.
fn next_valid<F: DiskFile>(
    scanner: &mut Scanner<'_, F>,
    damaged: u32,
    budget: &mut Budget,
) -> io::Result<Option<u32>> {
    let mut at = damaged + RECORD_HEADER_BYTES;
    let left = |at: u32, scanner: &Scanner<'_, F>| scanner.size().saturating_sub(at);
    while left(at, scanner) >= RECORD_HEADER_BYTES {
        let size = scanner.size();
        let bytes = scanner.window(at)?;
        if bytes.len() < RECORD_HEADER_BYTES as usize {
            break;
        }
        let mut plausible = None;
        for (place, start) in (at..).zip(bytes.windows(RECORD_HEADER_BYTES as usize)) {
            let header = RecordHeader::decode(start);
            if let Some(header) = header.filter(|h| h.record_bytes() <= size - place) {
                plausible = Some((place, header.record_bytes()));
                break;
            }
            at = place + 1;
        }
        if let Some((place, record_bytes)) = plausible {
            let valid = budget.allows(record_bytes)
                && !matches!(scanner.step(place)?.0, Step::Damaged(_) | Step::Nothing);
            if valid {
                return Ok(Some(place));
            }
            at = place + 1;
        }
    }
    Ok(None)
}
