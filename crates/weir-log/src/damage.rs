//! The list of damage. Damaged bytes are set aside in `damaged.log` before they are overwritten,
//! and listed until an operator has acknowledged them.
//!
//! The file is a segment with the number 0 (see `format.rs`). A record's head holds the range
//! (segment u32, offset u32, bytes u32, why), its body the bytes that were found there; a longer
//! range has further records with an empty `why`. Acknowledging renames the file to
//! `damaged.acknowledged.log`, which replaces the previous one, so both together take at most twice
//! `set_aside_bytes_max`.
//!
//! A range that either file contains is not reported again.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Mutex;

use crate::correct;
use crate::directory::Directory;
use crate::disk::{self, Disk, DiskFile};
use crate::error::OpenError;
use crate::format::{
    self, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordKind, Seed, SegmentHeader,
};
use crate::scan::Scanner;
use crate::shared::lock;
use crate::survey::survey;

/// The file of damage that no operator has acknowledged.
pub(crate) const FILE: &str = "damaged.log";
/// The file of the damage that was acknowledged last.
pub(crate) const FILE_ACKNOWLEDGED: &str = "damaged.acknowledged.log";
/// The segment number for the checksums of these files; no segment of a log has it.
const NUMBER: u32 = 0;
/// Maximum number of damaged bytes in one record.
const CHUNK_BYTES: u32 = 1024 * 1024;
/// Maximum number of damaged ranges that are listed; further ones are only counted.
pub(crate) const LISTED_MAX: usize = 1000;
/// Maximum number of ranges that wait for the sync thread to set them aside; further ones are only
/// counted.
const WAITING_MAX: usize = 1000;
/// Space for heads beyond `set_aside_bytes_max`, so that damage is listed even if its bytes don't
/// fit.
const HEADS_BYTES_MAX: u32 = 1024 * 1024;
const HEAD_BYTES_MIN: usize = 12;

/// A range of a segment whose bytes differ from what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    pub file: String,
    pub offset: u32,
    pub bytes: u64,
    /// How many of `bytes` were set aside.
    pub set_aside: u64,
    pub why: String,
}

/// The bytes that were found in a damaged range.
#[derive(Clone, Copy, Debug)]
pub struct SetAside<'a> {
    seed: Seed,
    offset: u32,
    pub bytes: &'a [u8],
}

/// A record whose wrong bit was corrected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectedRecord {
    bytes: Vec<u8>,
    head_bytes: usize,
}

impl SetAside<'_> {
    /// Returns the record as it was written, if at most one bit of it is wrong.
    #[must_use]
    pub fn corrected(&self) -> Option<CorrectedRecord> {
        let bytes = correct::corrected(self.seed, self.offset, self.bytes)?;
        let head_bytes = RecordHeader::decode(&bytes)?.head_length.into();
        Some(CorrectedRecord { bytes, head_bytes })
    }
}

impl CorrectedRecord {
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.bytes[RECORD_HEADER_BYTES as usize..][..self.head_bytes]
    }

    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[RECORD_HEADER_BYTES as usize + self.head_bytes..]
    }
}

/// Summary of the damage that no operator has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamageSummary {
    pub places: u64,
    /// Bytes that were not set aside since the log was opened, because of `set_aside_bytes_max`.
    pub bytes_left_out: u64,
    /// Whether some damage is not yet in `damaged.log`; the next sync writes it.
    pub is_waiting: bool,
}

/// A range of bytes of a segment that differ from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRange {
    pub(crate) segment: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) why: String,
}

impl DamagedRange {
    fn damage(&self, set_aside: u64) -> Damage {
        Damage {
            file: format::file_name(self.segment),
            offset: self.start,
            bytes: (self.end - self.start).into(),
            set_aside,
            why: self.why.clone(),
        }
    }

    fn head(&self, chunk_start: u32) -> Vec<u8> {
        let mut head = Vec::new();
        let (bytes, why) = match chunk_start == self.start {
            true => (self.end - self.start, self.why.as_str()),
            false => (0, ""),
        };
        for number in [self.segment, chunk_start, bytes] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(why.as_bytes());
        head
    }

    fn from_head(head: &[u8]) -> Option<DamagedRange> {
        let (numbers, why) = head.split_at_checked(HEAD_BYTES_MIN)?;
        let (segment, start) = format::pair(numbers)?;
        let (bytes, _) = format::pair(&[&numbers[8..], &[0; 4]].concat())?;
        let why = String::from_utf8_lossy(why).into_owned();
        Some(DamagedRange { segment, start, end: start.checked_add(bytes)?, why })
    }
}

/// The damage of one log, in memory and in its file.
#[derive(Debug)]
pub(crate) struct DamageLog<D: Disk> {
    disk: D,
    log_id: u64,
    bytes_max: u32,
    /// Locked only briefly.
    listed: Mutex<DamageList>,
    /// Locked while the file is written.
    file: Mutex<OpenFile<D::File>>,
}

/// The damage in memory.
#[derive(Debug, Default)]
struct DamageList {
    damages: Vec<Damage>,
    total: u64,
    bytes_left_out: u64,
    /// Start and end of each range in both files.
    known: BTreeMap<(u32, u32), u32>,
    waiting: VecDeque<DamagedRange>,
}

#[derive(Debug)]
struct OpenFile<F> {
    file: Option<F>,
    end: u32,
}

impl DamageList {
    fn contains(&self, place: &DamagedRange) -> bool {
        let before = self.known.range(..=(place.segment, place.start)).next_back();
        before.is_some_and(|((segment, start), end)| {
            let is_within = place.start < *end && place.end <= *end;
            *segment == place.segment && (*start == place.start || is_within)
        })
    }

    fn list(&mut self, damage: Damage) {
        self.total += 1;
        if self.damages.len() < LISTED_MAX {
            self.damages.push(damage);
        }
    }
}

impl<D: Disk> DamageLog<D> {
    pub(crate) fn open(disk: &D, log_id: u64, bytes_max: u32) -> Result<Self, OpenError> {
        let mut listed = DamageList::default();
        for entry in read(disk, FILE_ACKNOWLEDGED, log_id)?.entries {
            listed.known.insert((entry.place.segment, entry.place.start), entry.place.end);
        }
        let found = read(disk, FILE, log_id)?;
        for entry in found.entries {
            listed.known.insert((entry.place.segment, entry.place.start), entry.place.end);
            listed.list(entry.damage());
        }
        let mut file = OpenFile { file: found.file, end: found.end };
        if let Some(file) = file.file.as_ref().filter(|_| found.is_torn) {
            file.truncate(found.end.into()).map_err(OpenError::io(format!("cut {FILE}")))?;
        }
        if found.is_foreign {
            tracing::warn!("{FILE} is another log's; it is now {FILE_ACKNOWLEDGED}");
            disk.rename(FILE, FILE_ACKNOWLEDGED)
                .map_err(OpenError::io(format!("rename {FILE}")))?;
            file.file = None;
        }
        Ok(DamageLog {
            disk: disk.clone(),
            log_id,
            bytes_max,
            listed: Mutex::new(listed),
            file: Mutex::new(file),
        })
    }

    pub(crate) fn summary(&self) -> DamageSummary {
        let listed = lock(&self.listed);
        DamageSummary {
            places: listed.total + listed.waiting.len() as u64,
            bytes_left_out: listed.bytes_left_out,
            is_waiting: !listed.waiting.is_empty(),
        }
    }

    /// Returns the first 1,000 damaged ranges.
    pub(crate) fn damages(&self) -> Vec<Damage> {
        lock(&self.listed).damages.clone()
    }

    /// Records damage without waiting for the disk. [`DamageLog::set_aside_waiting`] copies the
    /// bytes later.
    pub(crate) fn note(&self, place: DamagedRange) {
        let mut listed = lock(&self.listed);
        if listed.contains(&place) {
            return;
        }
        listed.known.insert((place.segment, place.start), place.end);
        log_damage(&place);
        if listed.waiting.len() < WAITING_MAX {
            listed.waiting.push_back(place);
        } else {
            listed.total += 1;
        }
    }

    /// Returns the next range that was recorded but not set aside. Its end is not yet known.
    pub(crate) fn first_pending(&self) -> Option<DamagedRange> {
        lock(&self.listed).waiting.front().cloned()
    }

    /// Sets aside the first range that was recorded.
    pub(crate) fn set_aside_pending(
        &self,
        place: &DamagedRange,
        source: Option<&D::File>,
    ) -> io::Result<()> {
        let damage = self.write(place, source)?;
        let mut listed = lock(&self.listed);
        listed.waiting.pop_front();
        listed.list(damage);
        Ok(())
    }

    /// Copies the bytes of `place` in `source` to the file; durable on return. Does nothing if the
    /// range is already known. `source` is `None` if there is no file to copy from.
    pub(crate) fn set_aside(
        &self,
        place: &DamagedRange,
        source: Option<&D::File>,
    ) -> io::Result<()> {
        if lock(&self.listed).contains(place) {
            return Ok(());
        }
        let damage = self.write(place, source)?;
        log_damage(place);
        let mut listed = lock(&self.listed);
        listed.known.insert((place.segment, place.start), place.end);
        listed.list(damage);
        Ok(())
    }

    /// Marks all damage as acknowledged by an operator. Returns the number of damaged ranges.
    pub(crate) fn acknowledge(&self) -> io::Result<u64> {
        let mut open = lock(&self.file);
        if open.file.is_some() {
            self.disk.rename(FILE, FILE_ACKNOWLEDGED)?;
            self.disk.sync_dir()?;
            *open = OpenFile { file: None, end: 0 };
        }
        let mut listed = lock(&self.listed);
        listed.damages.clear();
        Ok(std::mem::take(&mut listed.total))
    }

    fn write(&self, place: &DamagedRange, source: Option<&D::File>) -> io::Result<Damage> {
        let mut open = lock(&self.file);
        let (mut set_aside, mut at, mut is_full) = (0, place.start, false);
        loop {
            let left = self.bytes_max.saturating_sub(open.end);
            let wanted = (place.end - at).min(CHUNK_BYTES);
            is_full |= wanted > left;
            let wanted = wanted.min(left);
            let mut bytes = vec![0; wanted as usize];
            let read = source.map_or(0, |source| {
                // Bytes that the disk can't read are not set aside, but their range is still
                // listed.
                disk::read_full(source, &mut bytes, at.into()).unwrap_or_default()
            });
            bytes.truncate(read);
            if at == place.start || read > 0 {
                self.append(&mut open, &place.head(at), &bytes)?;
            }
            set_aside += read as u64;
            at += wanted;
            if read == 0 || at >= place.end {
                break;
            }
        }
        if let Some(file) = &open.file {
            file.sync_data()?;
        }
        let left_out = u64::from(place.end - place.start) - set_aside;
        if is_full {
            lock(&self.listed).bytes_left_out += left_out;
        }
        Ok(place.damage(set_aside))
    }

    fn append(&self, open: &mut OpenFile<D::File>, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        if open.end > self.bytes_max.saturating_add(HEADS_BYTES_MAX) {
            return Ok(());
        }
        let file = match &open.file {
            Some(file) => file,
            None => {
                let file = self.disk.create(FILE)?;
                disk::write_full(&file, &SegmentHeader::encode(self.log_id, NUMBER), 0)?;
                file.sync_data()?;
                self.disk.sync_dir()?;
                open.end = HEADER_BYTES;
                open.file.insert(file)
            }
        };
        let mut record =
            Vec::with_capacity(RECORD_HEADER_BYTES as usize + head.len() + bytes.len());
        let seed = Seed::new(self.log_id, NUMBER);
        format::encode_record(&mut record, seed, open.end, RecordKind::Data, head, &[bytes]);
        disk::write_full(file, &record, open.end.into())?;
        open.end += u32::try_from(record.len()).expect("a chunk is small");
        Ok(())
    }
}

fn log_damage(place: &DamagedRange) {
    tracing::error!(
        file = format::file_name(place.segment),
        offset = place.start,
        bytes = place.end - place.start,
        why = place.why,
        "the log is damaged; what stands there is set aside in {FILE}"
    );
}

/// The content of a file of damage.
struct Contents<F> {
    /// The file to append to. `None`: it does not exist, or belongs to another log.
    file: Option<F>,
    end: u32,
    entries: Vec<DamageEntry>,
    is_foreign: bool,
    is_torn: bool,
}

/// A damaged range, and where its bytes are in the file.
struct DamageEntry {
    place: DamagedRange,
    chunks: Vec<std::ops::Range<u32>>,
}

impl DamageEntry {
    fn damage(&self) -> Damage {
        let bytes = self.chunks.iter().map(|chunk| u64::from(chunk.end - chunk.start)).sum();
        self.place.damage(bytes)
    }
}

fn read<D: Disk>(disk: &D, name: &str, log_id: u64) -> Result<Contents<D::File>, OpenError> {
    let io = || OpenError::io(format!("read {name}"));
    let nothing =
        Contents { file: None, end: 0, entries: Vec::new(), is_foreign: false, is_torn: false };
    let names = disk.list().map_err(OpenError::io("list the log's directory"))?;
    if !names.iter().any(|it| it == name) {
        return Ok(nothing);
    }
    let file = disk.open(name).map_err(io())?;
    let header = read_header(&file).map_err(io())?;
    if header.is_some_and(|header| header.log_id != log_id) {
        return Ok(Contents { is_foreign: true, ..nothing });
    }
    let scanner = Scanner::new(&file, log_id, NUMBER).map_err(io())?;
    let survey = survey(scanner, None).map_err(io())?;
    let mut entries: Vec<DamageEntry> = Vec::new();
    survey.index.visit(NUMBER, &mut |record| {
        let Some(place) = DamagedRange::from_head(record.head) else { return };
        let end = record.position.offset + record.record_bytes;
        let head_bytes = u32::try_from(record.head.len()).expect("a head is under 64 KiB");
        let body = record.position.offset + RECORD_HEADER_BYTES + head_bytes..end;
        match entries.last_mut().filter(|_| place.why.is_empty()) {
            Some(entry) => entry.chunks.push(body),
            None => entries.push(DamageEntry { place, chunks: vec![body] }),
        }
    });
    let (end, is_torn) = (survey.offset, survey.torn.is_some());
    Ok(Contents { file: Some(file), end, entries, is_foreign: false, is_torn })
}

fn read_header<F: DiskFile>(file: &F) -> io::Result<Option<SegmentHeader>> {
    let mut header = [0; HEADER_BYTES as usize];
    let read = disk::read_full(file, &mut header, 0)?;
    Ok(SegmentHeader::decode(&header[..read]).filter(|header| header.number == NUMBER))
}

/// Selects one of the two files of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    No,
    Yes,
}

/// Calls `visit` for each damaged range of the log in `disk`, with the bytes set aside. Changes
/// nothing.
///
/// # Errors
/// `Io`, and the errors of an unreadable log: `Foreign`, `Version`, `NoIdentity`.
pub fn set_aside<D: Disk>(
    disk: &D,
    which: Acknowledged,
    visit: &mut dyn FnMut(&Damage, &SetAside<'_>),
) -> Result<(), OpenError> {
    let Some(log_id) = Directory::read(disk)?.identity()? else {
        return Ok(());
    };
    let name = match which {
        Acknowledged::No => FILE,
        Acknowledged::Yes => FILE_ACKNOWLEDGED,
    };
    let Contents { file, entries, .. } = read(disk, name, log_id)?;
    let Some(file) = file else { return Ok(()) };
    for entry in entries {
        let mut bytes = Vec::new();
        for chunk in &entry.chunks {
            let before = bytes.len();
            bytes.resize(before + (chunk.end - chunk.start) as usize, 0);
            disk::read_full(&file, &mut bytes[before..], chunk.start.into())
                .map_err(OpenError::io(format!("read {name}")))?;
        }
        let DamagedRange { segment, start, .. } = entry.place;
        let seed = Seed::new(log_id, segment);
        visit(&entry.damage(), &SetAside { seed, offset: start, bytes: &bytes });
    }
    Ok(())
}
