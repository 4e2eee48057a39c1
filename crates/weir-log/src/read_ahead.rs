//! Reads records that mostly follow each other, such as those of a queue, with one system call for
//! many.
//!
//! Draining 300-byte records takes 0.6 µs of CPU time per record for a `pread` each. A window
//! reduces that to a hundredth, and saves one copy.

use std::sync::Arc;

use crate::disk::Disk;
use crate::error::RecordError;
use crate::format::{RecordHeader, Seed};
use crate::position::RecordPosition;
use crate::reader::{GUESS_BYTES, RecordParts, RecordReader, check_data};
use crate::segment::Segment;

/// Bytes to read at once when records follow each other, and the maximum distance between such
/// records.
const WINDOW_BYTES: u32 = 32 << 10;

/// Positions in the log that can be read in parallel: a few queues that drain at the same time.
const WINDOWS_MAX: usize = 8;

/// A record, borrowed from a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRecord<'a> {
    pub head: &'a [u8],
    pub body: &'a [u8],
}

/// Like [`RecordReader`], for one thread, with up to 256 KiB of memory for the records that follow.
/// Returns a record that was read ahead even if its segment was removed since.
#[derive(Debug)]
pub struct ReadAhead<D: Disk> {
    reader: RecordReader<D>,
    /// The most recently used first.
    windows: Vec<ReadWindow>,
}

/// Bytes of one segment, from `start` on. They stay valid because written records never change.
#[derive(Debug)]
struct ReadWindow {
    segment: u32,
    seed: Seed,
    start: u32,
    bytes: Vec<u8>,
    /// The end of the record that was read last.
    next: u32,
}

impl<D: Disk> ReadAhead<D> {
    #[must_use]
    pub fn new(reader: RecordReader<D>) -> ReadAhead<D> {
        ReadAhead { reader, windows: Vec::new() }
    }

    /// Returns the record at `position` after checking it.
    ///
    /// # Errors
    /// Those of [`RecordReader::read`].
    pub fn read(&mut self, position: RecordPosition) -> Result<StoredRecord<'_>, RecordError> {
        let nth = match self.windows.iter().position(|window| window.holds(position)) {
            Some(nth) => nth,
            None => self.bring(position)?,
        };
        self.windows[..=nth].rotate_right(1);
        let window = &mut self.windows[0];
        let record = &window.bytes[(position.offset - window.start) as usize..];
        let RecordParts { head, body } = check_data(window.seed, position.offset, record)
            .map_err(|why| damaged(position.segment, position.offset, why))?;
        let bytes = u32::try_from(body.end).expect("a record is smaller than its segment");
        window.next = position.offset + bytes;
        Ok(StoredRecord { head: &record[head], body: &record[body] })
    }

    /// Fills a window with the record at `position`, and with the bytes after it if the record
    /// follows one that was read before. Returns the window's index.
    fn bring(&mut self, position: RecordPosition) -> Result<usize, RecordError> {
        let segment = self.reader.segment(position.segment)?;
        let led_to = self.windows.iter().position(|window| window.leads_to(position));
        let nth = led_to.unwrap_or_else(|| self.spare(&segment));
        let window = &mut self.windows[nth];
        let bytes = if led_to.is_some() { WINDOW_BYTES } else { GUESS_BYTES };
        window.bytes.clear();
        self.reader.bring(&segment, position.offset, bytes, &mut window.bytes)?;
        window.segment = segment.number;
        window.seed = segment.seed;
        window.start = position.offset;
        Ok(nth)
    }

    /// Returns the index of a new window, or of the least recently used one.
    fn spare(&mut self, segment: &Arc<Segment<D::File>>) -> usize {
        if self.windows.len() < WINDOWS_MAX {
            let (number, seed) = (segment.number, segment.seed);
            let window = ReadWindow { segment: number, seed, start: 0, bytes: Vec::new(), next: 0 };
            self.windows.push(window);
        }
        self.windows.len() - 1
    }
}

fn damaged(segment: u32, offset: u32, why: &'static str) -> RecordError {
    RecordError::Damaged { file: crate::format::file_name(segment), offset, why }
}

impl ReadWindow {
    /// Returns whether the window holds the whole record at `position`.
    fn holds(&self, position: RecordPosition) -> bool {
        let ahead =
            position.offset.checked_sub(self.start).filter(|_| self.segment == position.segment);
        let Some(bytes) = ahead.and_then(|ahead| self.bytes.get(ahead as usize..)) else {
            return false;
        };
        RecordHeader::decode(bytes)
            .is_some_and(|header| header.record_bytes() as usize <= bytes.len())
    }

    /// Returns whether `position` follows closely on the record that was read last.
    fn leads_to(&self, position: RecordPosition) -> bool {
        self.segment == position.segment
            && position.offset.checked_sub(self.next).is_some_and(|ahead| ahead <= WINDOW_BYTES)
    }
}
