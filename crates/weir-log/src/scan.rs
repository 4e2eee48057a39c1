//! Scans a segment record by record, without trusting any of its content.

use std::io;

use memchr::memmem;

use crate::disk::{self, DiskFile};
use crate::error::RecordError;
use crate::format::{
    self, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordKind, SEGMENT_BYTES_LIMIT, Seed,
};
use crate::index::{Index, IndexedRecord};
use crate::position::RecordPosition;
use crate::segment::Segment;

/// Bytes to read at a time; the window grows for a larger record.
const WINDOW_BYTES: u32 = 1024 * 1024;

/// Reads a segment file through a window.
pub(crate) struct Scanner<'a, F> {
    file: &'a F,
    number: u32,
    seed: Seed,
    size: u32,
    window_start: u32,
    window: Vec<u8>,
}

/// What was found at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScanStep<'a> {
    Data {
        head: &'a [u8],
        length: u32,
    },
    Mark(RecordPosition),
    End {
        records: u32,
        entries_bytes: u32,
    },
    Gap {
        length: u32,
    },
    /// The number of the oldest segment.
    First(u32),
    /// Zeros, or the end of the file.
    Nothing,
    Damaged(&'static str),
}

/// The result of scanning a segment.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// The data records up to `offset`.
    pub(crate) index: Index,
    /// The end of the valid records.
    pub(crate) offset: u32,
    pub(crate) ending: Ending,
    /// Whether an earlier repair wrote gap records.
    pub(crate) has_gaps: bool,
    pub(crate) statements: Statements,
}

/// The content of the marks and first records of a segment, including those after damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statements {
    /// The highest mark.
    pub(crate) durable: RecordPosition,
    /// The offset of each first record and the segment that it names as the oldest; only those that
    /// name a later segment than the records before.
    pub(crate) firsts: Vec<(u32, u32)>,
}

impl Statements {
    pub(crate) fn note(&mut self, offset: u32, step: &ScanStep<'_>) {
        match step {
            ScanStep::Mark(mark) => self.durable = self.durable.max(*mark),
            ScanStep::First(first) if self.first() < *first => self.firsts.push((offset, *first)),
            _ => {}
        }
    }

    /// Returns the last segment that was recorded as the oldest, or 0.
    pub(crate) fn first(&self) -> u32 {
        self.firsts.last().map_or(0, |(_, first)| *first)
    }
}

/// How a scan ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At an end record that matches the scanned records.
    Sealed,
    /// At zeros, up to the end of the file.
    Open,
    /// At bytes that are not a record. `garbage_bytes`: up to the last byte that is not zero.
    Damaged { why: &'static str, garbage_bytes: u32 },
}

impl<'a, F: DiskFile> Scanner<'a, F> {
    pub(crate) fn new(file: &'a F, log_id: u64, number: u32) -> io::Result<Scanner<'a, F>> {
        let size = u32::try_from(file.size()?).unwrap_or(u32::MAX).min(SEGMENT_BYTES_LIMIT);
        Ok(Scanner {
            file,
            number,
            seed: Seed::new(log_id, number),
            size,
            window_start: 0,
            window: Vec::new(),
        })
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn file(&self) -> &'a F {
        self.file
    }

    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// Returns `length` bytes at `offset`, or fewer at the end of the file.
    pub(crate) fn bytes(&mut self, offset: u32, length: u32) -> io::Result<&[u8]> {
        let end = self.size.min(offset.saturating_add(length));
        let offset = offset.min(end);
        let window_end = self.window_start + to_u32(self.window.len());
        if offset < self.window_start || end > window_end {
            let wanted = (end - offset).max(WINDOW_BYTES.min(self.size - offset));
            self.window.clear();
            self.window.resize(wanted as usize, 0);
            self.window_start = offset;
            let read = disk::read_full(self.file, &mut self.window, offset.into())?;
            self.window.truncate(read);
        }
        let from = (offset - self.window_start) as usize;
        let to = self.window.len().min(from + (end - offset) as usize);
        Ok(self.window.get(from..to).unwrap_or_default())
    }

    /// Returns the bytes at `offset` that are in the window, or reads a new window.
    pub(crate) fn window(&mut self, offset: u32) -> io::Result<&[u8]> {
        let end = self.window_start + to_u32(self.window.len());
        let present = if offset >= self.window_start { end.saturating_sub(offset) } else { 0 };
        let enough = present >= RECORD_HEADER_BYTES;
        self.bytes(offset, if enough { present } else { WINDOW_BYTES })
    }

    /// Reads the record at `offset`. Also returns the offset of the next record; after damage,
    /// `offset` itself.
    pub(crate) fn step(&mut self, offset: u32) -> io::Result<(ScanStep<'_>, u32)> {
        let (seed, own) = (self.seed, RecordPosition { segment: self.number, offset });
        let start = self.bytes(offset, RECORD_HEADER_BYTES)?;
        if start.iter().all(|byte| *byte == 0) {
            return Ok((ScanStep::Nothing, offset));
        }
        let Some(header) = RecordHeader::decode(start) else {
            return Ok((ScanStep::Damaged("no record begins here"), offset));
        };
        let record_bytes = header.record_bytes();
        if record_bytes > self.size - offset {
            return Ok((ScanStep::Damaged("the record is longer than its segment"), offset));
        }
        let record = self.bytes(offset, record_bytes)?;
        if to_u32(record.len()) != record_bytes {
            return Ok((ScanStep::Damaged("the file ends inside the record"), offset));
        }
        if seed.checksum(offset, &record[4..]) != header.checksum {
            return Ok((ScanStep::Damaged("the record's checksum does not match"), offset));
        }
        let body = &record[RECORD_HEADER_BYTES as usize..];
        let (first, second) = format::pair(body).unwrap_or_default();
        let step = match header.kind {
            RecordKind::Data => {
                ScanStep::Data { head: &body[..header.head_length.into()], length: header.length }
            }
            RecordKind::Mark => match (RecordPosition { segment: first, offset: second }) {
                mark if mark > own => {
                    return Ok((ScanStep::Damaged("the mark names a place behind itself"), offset));
                }
                mark => ScanStep::Mark(mark),
            },
            RecordKind::End => ScanStep::End { records: first, entries_bytes: second },
            RecordKind::Gap => ScanStep::Gap { length: header.length },
            RecordKind::First if first > own.segment => {
                return Ok((ScanStep::Damaged("the oldest segment lies behind this one"), offset));
            }
            RecordKind::First => ScanStep::First(first),
        };
        Ok((step, offset + record_bytes))
    }

    /// Scans from the first record up to the end, damage or zeros.
    pub(crate) fn scan(mut self) -> io::Result<Scanned> {
        let mut index = Index::new();
        let mut statements = Statements::default();
        let mut has_gaps = false;
        let mut offset = HEADER_BYTES;
        let ending = loop {
            let (step, next) = self.step(offset)?;
            statements.note(offset, &step);
            match step {
                ScanStep::Data { head, length } => index.push(offset, length, head),
                ScanStep::Gap { .. } => has_gaps = true,
                ScanStep::Mark(_) | ScanStep::First(_) => {}
                ScanStep::End { records, entries_bytes } => {
                    if (records, entries_bytes) == (index.records(), index.entries_bytes()) {
                        break Ending::Sealed;
                    }
                    break self.damaged(offset, "the end record contradicts the records")?;
                }
                ScanStep::Nothing => {
                    match self.damaged(offset, "zeros stand where a record should")? {
                        Ending::Damaged { garbage_bytes: 0, .. } => break Ending::Open,
                        hole => break hole,
                    }
                }
                ScanStep::Damaged(why) => break self.damaged(offset, why)?,
            }
            offset = next;
        };
        if ending != Ending::Sealed {
            self.statements_behind(offset, &mut statements)?;
        }
        Ok(Scanned { index, offset, ending, has_gaps, statements })
    }

    fn damaged(&mut self, offset: u32, why: &'static str) -> io::Result<Ending> {
        let garbage_bytes = self.last_byte(offset)?.map_or(0, |last| last + 1 - offset);
        Ok(Ending::Damaged { why, garbage_bytes })
    }

    /// Returns the offset of the last byte at or after `offset` that is not zero.
    pub(crate) fn last_byte(&mut self, offset: u32) -> io::Result<Option<u32>> {
        let mut found = None;
        let mut at = offset;
        while at < self.size {
            let bytes = self.bytes(at, WINDOW_BYTES)?;
            if bytes.is_empty() {
                break;
            }
            if let Some(last) = last_nonzero(bytes) {
                found = Some(at + to_u32(last));
            }
            at += to_u32(bytes.len());
        }
        Ok(found)
    }

    /// Collects valid marks and first records after `offset`, where record boundaries are unknown.
    /// Tries every offset that looks like one; the checksum matches only at the offset where it was
    /// written.
    fn statements_behind(&mut self, offset: u32, into: &mut Statements) -> io::Result<()> {
        let mut search = StatementSearch::new();
        self.statements_found(offset, &mut search, into)
    }

    fn statements_found(
        &mut self,
        offset: u32,
        search: &mut StatementSearch,
        into: &mut Statements,
    ) -> io::Result<()> {
        let mut at = offset;
        while at + format::MARK_BYTES <= self.size {
            let bytes = self.window(at)?;
            let end = at + to_u32(bytes.len());
            let Some(found) = search.next(at, bytes) else {
                at = end.saturating_sub(9).max(at + 1);
                continue;
            };
            into.note(found, &self.step(found)?.0);
            at = found + 1;
        }
        Ok(())
    }
}

/// Finds the offsets that look like those of marks and first records. What was searched is not searched again for each
/// of them: first records are rare, so each search for one goes through the rest of the window.
struct StatementSearch {
    finders: [memmem::Finder<'static>; 2],
    /// The next offset of each signature at or after those that were returned. None: the window has no more.
    next: [Option<u32>; 2],
    /// The end of the window in which these were found.
    window_end: u32,
    #[cfg(test)]
    searched: usize,
}

impl StatementSearch {
    fn new() -> Self {
        let signatures = format::statement_signatures();
        Self {
            finders: signatures.each_ref().map(|it| memmem::Finder::new(it).into_owned()),
            next: [None; 2],
            window_end: 0,
            #[cfg(test)]
            searched: 0,
        }
    }

    /// Returns the first offset in `bytes`, which begin at offset `at` and end with the window.
    fn next(&mut self, at: u32, bytes: &[u8]) -> Option<u32> {
        let end = at + to_u32(bytes.len());
        let is_same = self.window_end == end;
        self.window_end = end;
        // A signature follows the first four bytes of a record.
        let ends = bytes.get(4..).unwrap_or_default();
        for (finder, next) in self.finders.iter().zip(&mut self.next) {
            if is_same && next.is_none_or(|next| next >= at) {
                continue;
            }
            let found = finder.find(ends);
            #[cfg(test)]
            {
                self.searched += found.unwrap_or(ends.len());
            }
            *next = found.map(|found| at + to_u32(found));
        }
        self.next.into_iter().flatten().min()
    }
}

/// Calls `visit` for each data record of a sealed segment whose footer is unreadable.
pub(crate) fn sealed_heads<F: DiskFile>(
    file: &F,
    segment: &Segment<F>,
    log_id: u64,
    visit: &mut dyn FnMut(IndexedRecord<'_>),
) -> Result<(), RecordError> {
    let io = |source| RecordError::Io { file: segment.name(), source };
    let scanned = Scanner::new(file, log_id, segment.number).and_then(Scanner::scan).map_err(io)?;
    if let Ending::Damaged { why, .. } = scanned.ending {
        return Err(RecordError::Damaged { file: segment.name(), offset: scanned.offset, why });
    }
    if segment.seal().is_none_or(|seal| seal.end_offset != scanned.offset) {
        let why = "the records end too early";
        return Err(RecordError::Damaged { file: segment.name(), offset: scanned.offset, why });
    }
    scanned.index.visit(segment.number, visit);
    Ok(())
}

/// Returns the index of the last byte that is not zero. Whole blocks of zeros are compared at once.
fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4_096] = [0; 4_096];
    let mut end = bytes.len();
    for block in bytes.rchunks(ZEROS.len()) {
        let start = end - block.len();
        if *block != ZEROS[..block.len()] {
            return block.iter().rposition(|byte| *byte != 0).map(|last| start + last);
        }
        end = start;
    }
    None
}

fn to_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a window lies in one segment")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::disk::{Allocation, Disk};
    use crate::format::SegmentHeader;
    use crate::simulated_disk::SimulatedDisk;

    #[test]
    fn the_last_byte_that_is_not_zero_is_found_across_blocks() {
        assert_eq!(last_nonzero(&[]), None);
        assert_eq!(last_nonzero(&[0; 10_000]), None);
        for at in [0, 1, 1_807, 1_808, 1_809, 5_903, 5_904, 9_999] {
            let mut bytes = [0; 10_000];
            (bytes[0], bytes[at]) = (1, 1);
            assert_eq!(last_nonzero(&bytes), Some(at));
        }
    }

    #[test]
    fn mark_after_itself_is_damage() {
        let disk = SimulatedDisk::new(1);
        for (offset, believed) in [(HEADER_BYTES, true), (HEADER_BYTES + 1, false)] {
            let mut bytes = SegmentHeader::encode(7, 3);
            let durable = RecordPosition { segment: 3, offset };
            format::encode_mark(&mut bytes, Seed::new(7, 3), HEADER_BYTES, durable);
            disk.put_file("segment", bytes);
            let file = disk.open("segment").expect("there");
            let scanned = Scanner::new(&file, 7, 3).and_then(Scanner::scan).expect("readable");
            assert_eq!(scanned.ending == Ending::Open, believed);
            assert_eq!(scanned.statements.durable == durable, believed);
        }
    }

    /// A file in memory that counts the bytes read of it.
    #[derive(Debug)]
    struct Counted {
        bytes: Vec<u8>,
        read: AtomicUsize,
    }

    impl DiskFile for Counted {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let read = (&self.bytes[usize::try_from(offset).expect("small")..]).read(into)?;
            self.read.fetch_add(read, Ordering::Relaxed);
            Ok(read)
        }
        fn size(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }
        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("a scan writes nothing")
        }
        fn allocate(&self, _: u64) -> io::Result<Allocation> {
            unreachable!("a scan writes nothing")
        }
        fn truncate(&self, _: u64) -> io::Result<()> {
            unreachable!("a scan writes nothing")
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!("a scan writes nothing")
        }
    }

    /// Returns a segment of marks, one every `distance` bytes, of which only these can be read, and the highest mark.
    fn damaged_with_marks(size: usize, distance: usize) -> (Counted, RecordPosition) {
        let seed = Seed::new(7, 3);
        let mut bytes = SegmentHeader::encode(7, 3);
        bytes.resize(size, b'x');
        let mut highest = RecordPosition::default();
        for at in (1000..size - 100).step_by(distance) {
            let offset = to_u32(at);
            let mut mark = Vec::new();
            highest = RecordPosition { segment: 3, offset };
            format::encode_mark(&mut mark, seed, offset, highest);
            bytes[at..at + mark.len()].copy_from_slice(&mark);
        }
        (Counted { bytes, read: AtomicUsize::new(0) }, highest)
    }

    /// Every sync leaves a mark, so a segment may hold hundreds of thousands of them.
    #[test]
    fn damaged_segment_is_read_a_bounded_number_of_times() {
        let size = 4 * WINDOW_BYTES as usize;
        let (file, highest) = damaged_with_marks(size, 50_000);
        let scanned = Scanner::new(&file, 7, 3).and_then(Scanner::scan).expect("readable");
        assert_eq!(scanned.statements.durable, highest);
        let read = file.read.load(Ordering::Relaxed);
        assert!(read <= 3 * size, "{read} bytes of {size} were read");
    }

    #[test]
    fn damaged_segment_with_many_marks_is_searched_a_bounded_number_of_times() {
        let size = 4 * WINDOW_BYTES as usize;
        let (file, highest) = damaged_with_marks(size, 80);
        let (mut search, mut statements) = (StatementSearch::new(), Statements::default());
        let mut scanner = Scanner::new(&file, 7, 3).expect("readable");
        scanner.statements_found(HEADER_BYTES, &mut search, &mut statements).expect("readable");
        assert_eq!(statements.durable, highest);
        assert!(search.searched <= 4 * size, "{} bytes of {size} were searched", search.searched);
    }
}
