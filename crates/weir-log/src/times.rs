//! The time index: which position the log had reached at which second, so that a backup can be
//! restored to a named second.
//!
//! The file `times` is beside the segments and has no part in recovery: without it, or without its
//! last marks, the log is complete, and only restores to the missing seconds are impossible.
//! Versions of Weir that do not know it leave it alone, so it has no effect on the format version.
//!
//! ```text
//! file   = header, mark*
//! header = "WEIRTIM1"  log id u64  crc u32                                  20 bytes
//! mark   = second u64  segment u32  offset u32  crc u32                     20 bytes
//! ```
//!
//! All integers are little-endian. Checksums are CRC32C; that of a mark starts from that of the
//! log's id. Seconds are since the Unix epoch and ascend, and so do positions. A mark says:
//! everything before the position was appended before the second began, everything after it in that
//! second or later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::disk::{self, Disk, DiskFile};
use crate::position::RecordPosition;

/// The name of the file.
pub const TIMES_FILE: &str = "times";
/// The file while it is written anew.
const UNFINISHED_FILE: &str = "times.new";
const MAGIC: &[u8; 8] = b"WEIRTIM1";
/// Size of the header, and of a mark.
const ENTRY_BYTES: usize = 20;
/// Size at which the oldest marks are dropped: 40 days in which every second has a record.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Marks that wait in memory while the disk rejects them: an hour.
const PENDING_MAX: usize = 3_600;

/// The position that the log had reached when a second began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeMark {
    /// Seconds since the Unix epoch.
    pub second: u64,
    pub position: RecordPosition,
}

/// Parses the bytes of the file, up to the first mark that is damaged. Returns nothing if they
/// belong to another log.
#[must_use]
pub fn time_marks(bytes: &[u8], log_id: u64) -> Vec<TimeMark> {
    let Some((header, rest)) = bytes.split_at_checked(ENTRY_BYTES) else { return Vec::new() };
    if header != encode_header(log_id) {
        return Vec::new();
    }
    let mut marks: Vec<TimeMark> = Vec::new();
    for entry in rest.chunks_exact(ENTRY_BYTES) {
        let Some(mark) = decode(entry, log_id) else { break };
        if marks.last().is_some_and(|last| !last.is_before(&mark)) {
            break;
        }
        marks.push(mark);
    }
    marks
}

/// Returns the bytes of a file with these marks.
#[must_use]
pub fn time_marks_file(marks: &[TimeMark], log_id: u64) -> Vec<u8> {
    let mut bytes = encode_header(log_id).to_vec();
    for mark in marks {
        bytes.extend_from_slice(&mark.encode(log_id));
    }
    bytes
}

/// Returns the position that the log had reached when `second` began, or `None` if that is after
/// the last mark: then nothing was appended since.
#[must_use]
pub fn position_at(marks: &[TimeMark], second: u64) -> Option<RecordPosition> {
    let found = marks.partition_point(|mark| mark.second < second);
    marks.get(found).map(|mark| mark.position)
}

impl TimeMark {
    fn is_before(&self, later: &TimeMark) -> bool {
        self.second < later.second && self.position <= later.position
    }

    fn encode(&self, log_id: u64) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.second.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.position.segment.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.position.offset.to_le_bytes());
        let checksum = checksum(&bytes[..16], log_id);
        bytes[16..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

fn decode(entry: &[u8], log_id: u64) -> Option<TimeMark> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?));
    if u32_at(16)? != checksum(entry.get(..16)?, log_id) {
        return None;
    }
    let second = u64::from_le_bytes(entry.get(..8)?.try_into().ok()?);
    let position = RecordPosition { segment: u32_at(8)?, offset: u32_at(12)? };
    Some(TimeMark { second, position })
}

fn encode_header(log_id: u64) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&log_id.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn checksum(bytes: &[u8], log_id: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&log_id.to_le_bytes()), bytes)
}

/// The marks of an open log: those that are not yet written, and the file.
#[derive(Debug)]
pub(crate) struct TimeIndex<D: Disk> {
    disk: D,
    log_id: u64,
    /// The second of the last mark when the log was opened; 0: there was none.
    last_second_at_open: u64,
    /// Set while there are pending marks, so that a write without any takes no lock.
    has_pending: AtomicBool,
    pending: Mutex<Vec<TimeMark>>,
    file: Mutex<TimesFile<D::File>>,
}

#[derive(Debug)]
struct TimesFile<F> {
    /// `None` until the first mark is written.
    file: Option<F>,
    bytes: u64,
    /// The last write failed; reported once.
    has_failed: bool,
}

impl<D: Disk> TimeIndex<D> {
    /// Opens the index of a log with the segments from `first` and the end `end`. Drops marks
    /// behind the end, which a crash has cut off, and those of segments that no longer exist.
    pub(crate) fn open(disk: &D, log_id: u64, first: u32, end: RecordPosition) -> TimeIndex<D> {
        let mut index = TimeIndex {
            disk: disk.clone(),
            log_id,
            last_second_at_open: 0,
            has_pending: AtomicBool::new(false),
            pending: Mutex::default(),
            file: Mutex::new(TimesFile { file: None, bytes: 0, has_failed: false }),
        };
        let mut file = locked(&index.file);
        let opened =
            index.reopen(&mut file, |mark| mark.position.segment >= first && mark.position <= end);
        let last_second = match opened {
            Ok(last) => last.map_or(0, |last| last.second),
            Err(error) => {
                index.report(&mut file, &error);
                0
            }
        };
        drop(file);
        index.last_second_at_open = last_second;
        index
    }

    pub(crate) const fn last_second_at_open(&self) -> u64 {
        self.last_second_at_open
    }

    pub(crate) fn push(&self, mark: TimeMark) {
        let mut pending = locked(&self.pending);
        if pending.len() >= PENDING_MAX {
            pending.remove(0);
        }
        pending.push(mark);
        self.has_pending.store(true, Ordering::Release);
    }

    /// Writes the pending marks into the page cache. An error is reported once and retried with the
    /// next write: the log itself does not depend on the index.
    pub(crate) fn write(&self, first: u32) {
        if !self.has_pending.swap(false, Ordering::AcqRel) {
            return;
        }
        let marks = std::mem::take(&mut *locked(&self.pending));
        let mut file = locked(&self.file);
        match self.append(&mut file, &marks, first) {
            Ok(()) => file.has_failed = false,
            Err(error) => {
                self.report(&mut file, &error);
                let mut pending = locked(&self.pending);
                drop(pending.splice(0..0, marks));
                self.has_pending.store(true, Ordering::Release);
            }
        }
    }

    /// Makes the written marks durable. Losing the last ones in a power cut only makes restores to
    /// these seconds impossible, so the log calls this with each new segment and not with each sync.
    pub(crate) fn sync(&self) {
        let mut file = locked(&self.file);
        if let Some(Err(error)) = file.file.as_ref().map(DiskFile::sync_data) {
            self.report(&mut file, &error);
        }
    }

    fn append(
        &self,
        file: &mut TimesFile<D::File>,
        marks: &[TimeMark],
        first: u32,
    ) -> io::Result<()> {
        if file.bytes >= FILE_BYTES_MAX {
            let _ = self.reopen(file, |mark| mark.position.segment >= first)?;
        }
        if file.file.is_none() {
            self.replace(file, &[])?;
        }
        let Some(open) = &file.file else { return Ok(()) };
        let mut bytes = Vec::with_capacity(marks.len() * ENTRY_BYTES);
        for mark in marks {
            bytes.extend_from_slice(&mark.encode(self.log_id));
        }
        disk::write_full(open, &bytes, file.bytes)?;
        file.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Opens the file and writes it anew if it has marks to drop, a damaged end, or too many marks.
    /// Returns the last mark.
    fn reopen(
        &self,
        file: &mut TimesFile<D::File>,
        is_kept: impl Fn(&TimeMark) -> bool,
    ) -> io::Result<Option<TimeMark>> {
        let open = match self.disk.open(TIMES_FILE) {
            Ok(open) => open,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let size = open.size()?;
        let mut bytes = vec![0; usize::try_from(size.min(2 * FILE_BYTES_MAX)).unwrap_or(0)];
        let read = disk::read_full(&open, &mut bytes, 0)?;
        let mut marks = time_marks(&bytes[..read], self.log_id);
        let is_whole = size == ((marks.len() + 1) * ENTRY_BYTES) as u64;
        let found = marks.len();
        marks.retain(is_kept);
        if size >= FILE_BYTES_MAX {
            marks.drain(..marks.len() / 2);
        }
        if is_whole && marks.len() == found {
            (file.file, file.bytes) = (Some(open), size);
        } else {
            self.replace(file, &marks)?;
        }
        Ok(marks.last().copied())
    }

    fn replace(&self, file: &mut TimesFile<D::File>, marks: &[TimeMark]) -> io::Result<()> {
        let bytes = time_marks_file(marks, self.log_id);
        let unfinished = self.disk.create(UNFINISHED_FILE)?;
        disk::write_full(&unfinished, &bytes, 0)?;
        unfinished.sync_data()?;
        self.disk.rename(UNFINISHED_FILE, TIMES_FILE)?;
        (file.file, file.bytes) = (Some(unfinished), bytes.len() as u64);
        Ok(())
    }

    fn report(&self, file: &mut TimesFile<D::File>, error: &io::Error) {
        if !std::mem::replace(&mut file.has_failed, true) {
            tracing::warn!(
                file = TIMES_FILE,
                %error,
                "the log's time index can't be written: a backup can't be restored to these seconds"
            );
        }
    }
}

/// Locks a mutex. Its state is valid at any time, so a panic of another thread does not matter.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_disk::SimulatedDisk;
    use proptest::prelude::*;

    const LOG: u64 = 7;

    fn mark(second: u64, segment: u32, offset: u32) -> TimeMark {
        TimeMark { second, position: RecordPosition { segment, offset } }
    }

    fn read(disk: &SimulatedDisk) -> Vec<TimeMark> {
        let file = disk.open(TIMES_FILE).expect("the file exists");
        let mut bytes = vec![0; usize::try_from(file.size().expect("a size")).expect("small")];
        let read = disk::read_full(&file, &mut bytes, 0).expect("read");
        time_marks(&bytes[..read], LOG)
    }

    fn open(disk: &SimulatedDisk, first: u32, end: (u32, u32)) -> TimeIndex<SimulatedDisk> {
        TimeIndex::open(disk, LOG, first, RecordPosition { segment: end.0, offset: end.1 })
    }

    #[test]
    fn a_second_has_the_position_at_which_it_began() {
        let marks = [mark(10, 1, 100), mark(11, 1, 200), mark(15, 2, 50)];
        let at = |second| position_at(&marks, second).map(|it| (it.segment, it.offset));
        assert_eq!(at(10), Some((1, 100)));
        assert_eq!(at(11), Some((1, 200)));
        assert_eq!(at(12), Some((2, 50)), "nothing was appended from 12 to 15");
        assert_eq!(at(16), None);
    }

    #[test]
    fn marks_are_found_again_after_a_restart() {
        let disk = SimulatedDisk::new(1);
        let index = open(&disk, 1, (1, 32));
        index.push(mark(10, 1, 100));
        index.write(1);
        index.push(mark(11, 1, 200));
        index.write(1);
        drop(index);
        let index = open(&disk, 1, (1, 900));
        index.push(mark(12, 2, 50));
        index.write(1);
        assert_eq!(read(&disk), [mark(10, 1, 100), mark(11, 1, 200), mark(12, 2, 50)]);
    }

    #[test]
    fn marks_of_a_cut_tail_and_of_removed_segments_are_dropped() {
        let disk = SimulatedDisk::new(1);
        let index = open(&disk, 1, (1, 32));
        [mark(10, 1, 100), mark(11, 2, 40), mark(12, 2, 700)]
            .into_iter()
            .for_each(|it| index.push(it));
        index.write(1);
        drop(open(&disk, 2, (2, 500)));
        assert_eq!(read(&disk), [mark(11, 2, 40)]);
    }

    #[test]
    fn a_damaged_mark_ends_the_index_and_another_logs_index_is_ignored() {
        let marks = [mark(10, 1, 100), mark(11, 1, 200)];
        let bytes = time_marks_file(&marks, LOG);
        assert_eq!(time_marks(&bytes, LOG), marks);
        assert!(time_marks(&bytes, LOG + 1).is_empty());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let expected = bit / 8 / ENTRY_BYTES;
            assert_eq!(time_marks(&flipped, LOG), marks[..expected.saturating_sub(1)]);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = time_marks(&bytes, LOG);
        }
    }
}
