//! Follows the segments from the oldest to the end of the log, and collects the damage.

use std::collections::BTreeMap;

use crate::damage::DamagedRange;
use crate::directory::{Directory, SegmentFile};
use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{HEADER_BYTES, MARK_BYTES, Seal, TRAILER_BYTES, Trailer, VERSION};
use crate::index::{Index, visit_entries};
use crate::position::RecordPosition;
use crate::recovery::{RecoveredSegment, io, name, scan};
use crate::repair::Patch;
use crate::scan::{Ending, Scanned, Scanner};
use crate::survey::{Hole, survey};

/// Maximum number of missing files that count as damage, since each would be replaced by an empty
/// one.
const MISSING_MAX: u32 = 10_000;
const MISSING: &str = "the file is missing";

/// The segments that remain, the end of the log and its reason, and the required repairs.
pub(crate) struct RecoveryWalk {
    pub(crate) kept: Vec<RecoveredSegment>,
    /// The oldest segment. Files before it are remains of an interrupted removal.
    pub(crate) first: u32,
    pub(crate) end: RecordPosition,
    pub(crate) why: String,
    /// Damaged ranges of durable data.
    pub(crate) places: Vec<DamagedRange>,
    pub(crate) patches: Vec<Patch>,
}

/// Whether the log continues after a segment.
enum WalkNext {
    Segment,
    End,
}

/// The content of a segment that was read in full.
struct Content {
    index: Index,
    /// The end of its valid records, or the start of its end record.
    offset: u32,
    is_sealed: bool,
    /// Between valid records.
    holes: Vec<Hole>,
    /// Whether an earlier repair wrote gap records.
    has_gaps: bool,
    /// After the last valid record.
    torn: Option<Hole>,
    why: &'static str,
}

struct Walker<'a, D: Disk> {
    directory: &'a Directory<D>,
    log_id: u64,
    /// Everything before this position was synced.
    durable: RecordPosition,
    /// Segments that were read in full.
    scans: BTreeMap<u32, Scanned>,
    walk: RecoveryWalk,
}

/// Follows the segments from the oldest to the end of the log.
pub(crate) fn walk<D: Disk>(
    directory: &Directory<D>,
    log_id: u64,
    scans: BTreeMap<u32, Scanned>,
    durable: RecordPosition,
    first: u32,
) -> Result<RecoveryWalk, OpenError> {
    let walk = RecoveryWalk {
        kept: Vec::new(),
        first,
        end: RecordPosition { segment: first, offset: 0 },
        why: MISSING.to_owned(),
        places: Vec::new(),
        patches: Vec::new(),
    };
    let walker = Walker { directory, log_id, durable, scans, walk };
    walker.run()
}

impl<D: Disk> Walker<'_, D> {
    fn run(mut self) -> Result<RecoveryWalk, OpenError> {
        let (directory, first) = (self.directory, self.walk.first);
        for found in directory.files.iter().filter(|found| found.number >= first) {
            if let WalkNext::End = self.missing_before(found.number)? {
                break;
            }
            if let WalkNext::End = self.segment(found)? {
                break;
            }
        }
        Ok(self.walk)
    }

    /// Handles missing files before `number`: they count as damage if they held durable data.
    /// Otherwise the log ends there, since a power cut while a torn tail's files are deleted also
    /// leaves a gap.
    fn missing_before(&mut self, number: u32) -> Result<WalkNext, OpenError> {
        let (from, durable) = (self.walk.end.segment, self.durable);
        if from == number {
            return Ok(WalkNext::Segment);
        }
        if durable <= self.walk.end {
            self.walk.why = format!("{MISSING}, although {} is there", name(number));
            return Ok(WalkNext::End);
        }
        if number - from > MISSING_MAX {
            let why = format!("{} files are missing from here on", number - from);
            return Err(OpenError::Corrupt { file: name(from), offset: 0, why, durable });
        }
        for segment in from..number {
            self.damage(segment, Hole { start: 0, end: 0, why: MISSING });
            self.walk.patches.push(Patch::Empty { segment });
            let (seal, _) = Index::new().seal(self.log_id, segment, HEADER_BYTES);
            self.walk.kept.push(RecoveredSegment::Sealed { number: segment, seal, repair: None });
        }
        self.walk.end = RecordPosition { segment: number, offset: 0 };
        Ok(WalkNext::Segment)
    }

    fn segment(&mut self, found: &SegmentFile) -> Result<WalkNext, OpenError> {
        let number = found.number;
        let scanned = match (self.scans.remove(&number), found.seal(self.log_id)) {
            (Some(scanned), _) => scanned,
            (None, Some(seal)) if self.is_footer_valid(number, &seal)? => {
                self.keep_sealed(number, seal, None);
                return Ok(WalkNext::Segment);
            }
            (None, _) => scan(self.directory, number, self.log_id)?,
        };
        let content = self.content(number, scanned)?;
        // This segment was synced with its footer before the next one was begun.
        let is_complete = self.durable.segment > number;
        for hole in &content.holes {
            self.damage(number, *hole);
            let Hole { start, end, .. } = *hole;
            self.walk.patches.push(Patch::Gap { segment: number, start, end });
        }
        let is_used = is_complete || content.offset > HEADER_BYTES;
        if found.header.is_none() && is_used {
            // A header is durable before anything is written after it.
            let why = "its header is unreadable";
            self.damage(number, Hole { start: 0, end: HEADER_BYTES, why });
            self.walk.patches.push(Patch::Header { segment: number });
        }
        if content.is_sealed || is_complete {
            self.seal(found, content, is_complete)?;
            return Ok(WalkNext::Segment);
        }
        if found.header.is_none() && !is_used {
            self.walk.why = "its header is unreadable".to_owned();
            return Ok(WalkNext::End);
        }
        self.walk.end = RecordPosition { segment: number, offset: content.offset };
        self.walk.why = content.why.to_owned();
        self.walk.kept.push(RecoveredSegment::Tail {
            number,
            version: found.header.map_or(VERSION, |header| header.version),
            index: content.index,
            offset: content.offset,
            garbage: content.torn.is_some(),
        });
        Ok(WalkNext::End)
    }

    /// Returns the valid content of a segment. Reads past damage only if durable data follows it.
    fn content(&self, number: u32, scanned: Scanned) -> Result<Content, OpenError> {
        let Scanned { index, offset, ending, has_gaps, .. } = scanned;
        let why = match ending {
            Ending::Sealed => "",
            Ending::Open => "its records end too early",
            Ending::Damaged { why, .. } => why,
        };
        let Ending::Damaged { garbage_bytes, .. } = ending else {
            let is_sealed = ending == Ending::Sealed;
            let holes = Vec::new();
            return Ok(Content { index, offset, is_sealed, holes, has_gaps, torn: None, why });
        };
        if (RecordPosition { segment: number, offset }) >= self.durable {
            let torn = Some(Hole { start: offset, end: offset + garbage_bytes, why });
            let (is_sealed, holes) = (false, Vec::new());
            return Ok(Content { index, offset, is_sealed, holes, has_gaps, torn, why });
        }
        let file = self.directory.open(number)?;
        let surveyed = Scanner::new(&file, self.log_id, number)
            .and_then(|scanner| survey(scanner, Some(self.durable)))
            .map_err(io("read", number))?;
        Ok(Content {
            index: surveyed.index,
            offset: surveyed.offset,
            is_sealed: surveyed.sealed,
            holes: surveyed.holes,
            has_gaps: surveyed.gap_bytes > 0,
            why: surveyed.torn.map_or("its records end too early", |torn| torn.why),
            torn: surveyed.torn,
        })
    }

    /// Keeps a complete segment, with a footer that matches its records.
    fn seal(
        &mut self,
        found: &SegmentFile,
        content: Content,
        is_complete: bool,
    ) -> Result<(), OpenError> {
        let number = found.number;
        let Content { index, offset, is_sealed, holes, has_gaps, torn, why } = content;
        if !is_sealed {
            // Its end was durable, but other bytes are there now.
            let end = torn.map_or(offset, |torn| torn.end);
            self.damage(number, Hole { start: offset, end, why });
        }
        let (seal, bytes) = index.seal(self.log_id, number, offset);
        let file = self.directory.open(number)?;
        let mut present = vec![0; bytes.len()];
        let read = disk::read_full(&file, &mut present, offset.into());
        let read = read.map_err(io("read", number))?;
        let exact = file.size().map_err(io("read", number))? == u64::from(seal.file_bytes());
        let is_sound = exact && present[..read] == bytes[..];
        // An interrupted repair leaves gaps that the footer does not list.
        let is_of_repair = has_gaps || !holes.is_empty();
        if !is_sound && is_sealed && is_complete && !is_of_repair {
            let (start, end) = (offset + MARK_BYTES, seal.file_bytes());
            self.damage(number, Hole { start, end, why: "its footer is damaged" });
        }
        self.keep_sealed(number, seal, (!is_sound).then_some(bytes));
        Ok(())
    }

    fn keep_sealed(&mut self, number: u32, seal: Seal, repair: Option<Vec<u8>>) {
        self.walk.kept.push(RecoveredSegment::Sealed { number, seal, repair });
        self.walk.end = RecordPosition { segment: number + 1, offset: 0 };
    }

    fn damage(&mut self, segment: u32, hole: Hole) {
        let Hole { start, end, why } = hole;
        self.walk.places.push(DamagedRange { segment, start, end, why: why.to_owned() });
    }

    /// Returns whether the footer that the trailer describes is valid.
    fn is_footer_valid(&self, number: u32, seal: &Seal) -> Result<bool, OpenError> {
        let file = self.directory.open(number)?;
        let mut bytes = vec![0; (seal.entries_bytes + TRAILER_BYTES) as usize];
        let read = disk::read_full(&file, &mut bytes, seal.entries_offset().into());
        bytes.truncate(read.map_err(io("read", number))?);
        let Some((entries, trailer)) = bytes.split_at_checked(seal.entries_bytes as usize) else {
            return Ok(false);
        };
        let trailer = Trailer::decode(trailer, seal.file_bytes().into());
        let is_whole = trailer.is_some_and(|it| it.entries_checksum == crc32c::crc32c(entries));
        Ok(is_whole && visit_entries(entries, number, &mut |_| ()).is_ok())
    }
}
