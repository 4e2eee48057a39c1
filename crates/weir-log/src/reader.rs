//! Reading records and footers from any thread, concurrently with appends and syncs.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::{self, Disk};
use crate::error::RecordError;
use crate::format::{
    self, RECORD_HEADER_BYTES, RecordHeader, RecordKind, Seal, Seed, TRAILER_BYTES, Trailer,
};
use crate::index::{self, IndexedRecord};
use crate::position::RecordPosition;
use crate::scan;
use crate::segment::Segment;
use crate::shared::{SegmentLogShared, lock};

/// Bytes to read when the caller does not know the record's size: enough for a typical job.
pub(crate) const GUESS_BYTES: u32 = 512;

/// Reads a log. Cheap to clone.
#[derive(Debug)]
pub struct RecordReader<D: Disk> {
    shared: Arc<SegmentLogShared<D>>,
}

impl<D: Disk> Clone for RecordReader<D> {
    fn clone(&self) -> Self {
        RecordReader { shared: Arc::clone(&self.shared) }
    }
}

/// The ranges of head and body in the buffer that [`RecordReader::read`] filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordParts {
    pub head: Range<usize>,
    pub body: Range<usize>,
}

/// Why bytes are not a valid record.
pub(crate) type Flaw = &'static str;

impl<D: Disk> RecordReader<D> {
    pub(crate) fn new(shared: Arc<SegmentLogShared<D>>) -> RecordReader<D> {
        RecordReader { shared }
    }

    /// Replaces the content of `into` with the record at `position`, and checks it. Makes one
    /// system call for records up to 512 bytes, and none for records that are still in memory.
    ///
    /// # Errors
    /// `Gone` if the segment was removed, `Damaged` if no valid data record begins there, `Io`.
    pub fn read(
        &self,
        position: RecordPosition,
        into: &mut Vec<u8>,
    ) -> Result<RecordParts, RecordError> {
        self.read_sized(position, GUESS_BYTES, into)
    }

    /// Like [`RecordReader::read`], for a caller that knows or guesses `record_bytes` (see
    /// [`IndexedRecord::record_bytes`]). Makes one system call unless that is too small.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_sized(
        &self,
        position: RecordPosition,
        record_bytes: u32,
        into: &mut Vec<u8>,
    ) -> Result<RecordParts, RecordError> {
        let segment = self.segment(position.segment)?;
        let offset = position.offset;
        self.bring(&segment, offset, record_bytes, into)?;
        check_data(segment.seed, offset, into).map_err(|why| RecordError::Damaged {
            file: segment.name(),
            offset,
            why,
        })
    }

    /// Reads the record at `offset` into `into`, followed by further bytes up to `bytes` in all if
    /// they are in the file. Reads fewer bytes if the segment ends before.
    pub(crate) fn bring(
        &self,
        segment: &Arc<Segment<D::File>>,
        offset: u32,
        bytes: u32,
        into: &mut Vec<u8>,
    ) -> Result<(), RecordError> {
        if offset >= segment.written() && self.copy_pending(segment, offset, into) {
            return Ok(());
        }
        self.fetch(segment, offset, bytes, into)
            .map_err(|source| RecordError::Io { file: segment.name(), source })
    }

    /// Calls `visit` for each data record of a sealed segment, in order. Reads the footer, or the
    /// whole segment if the footer is damaged.
    ///
    /// # Errors
    /// `Unsealed` for the segment being written, `Gone`, `Io`; `Damaged` when both the footer and
    /// the records are damaged.
    pub fn heads(
        &self,
        segment: u32,
        visit: &mut dyn FnMut(IndexedRecord<'_>),
    ) -> Result<(), RecordError> {
        let segment = self.segment(segment)?;
        let number = segment.number;
        let seal = *segment.seal().ok_or(RecordError::Unsealed { segment: number })?;
        let io = |source| RecordError::Io { file: segment.name(), source };
        if let Some(entries) = self.entries(&segment, &seal).map_err(io)?
            && index::visit_entries(&entries, number, &mut |_| ()).is_ok()
        {
            let _ = index::visit_entries(&entries, number, visit); // just seen to be sound
            return Ok(());
        }
        tracing::warn!(file = segment.name(), "a footer is damaged; reading the whole segment");
        let file = self.shared.file(&segment).map_err(io)?;
        scan::sealed_heads(&*file, &segment, self.shared.log_id, visit)
    }

    /// Returns the footer's entries, or `None` if their checksum does not match.
    fn entries(&self, segment: &Arc<Segment<D::File>>, seal: &Seal) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let offset = seal.entries_offset();
        let from_memory =
            offset >= segment.written() && self.copy_pending(segment, offset, &mut bytes);
        if !from_memory {
            bytes.resize((seal.entries_bytes + TRAILER_BYTES) as usize, 0);
            let file = self.shared.file(segment)?;
            let read = disk::read_full(&*file, &mut bytes, offset.into())?;
            bytes.truncate(read);
        }
        let Some((entries, trailer)) = bytes.split_at_checked(seal.entries_bytes as usize) else {
            return Ok(None);
        };
        let checksum = crc32c::crc32c(entries);
        let sound = Trailer::decode(trailer, seal.file_bytes().into())
            .is_some_and(|trailer| trailer.entries_checksum == checksum);
        bytes.truncate(seal.entries_bytes as usize);
        Ok(sound.then_some(bytes))
    }

    pub(crate) fn segment(&self, number: u32) -> Result<Arc<Segment<D::File>>, RecordError> {
        let found = lock(&self.shared.catalogue).find(number);
        found.ok_or(RecordError::Gone { segment: number })
    }

    /// Copies a record, or the footer, from memory. Returns false if it is no longer there because
    /// it was written.
    fn copy_pending(&self, segment: &Segment<D::File>, offset: u32, into: &mut Vec<u8>) -> bool {
        let pending = lock(&self.shared.pending);
        let Some(bytes) = pending.bytes_at(segment.number, offset) else {
            return false;
        };
        let end = match RecordHeader::decode(bytes) {
            Some(header) if segment.seal().is_none_or(|seal| offset < seal.end_offset) => {
                (header.record_bytes() as usize).min(bytes.len())
            }
            _ => bytes.len(),
        };
        into.clear();
        into.extend_from_slice(&bytes[..end]);
        true
    }

    /// Reads `guess_bytes` from the file, or the whole record if that is longer.
    fn fetch(
        &self,
        segment: &Arc<Segment<D::File>>,
        offset: u32,
        guess_bytes: u32,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        let file = self.shared.file(segment)?;
        let left = segment.written().saturating_sub(offset);
        let first = guess_bytes.max(RECORD_HEADER_BYTES).min(left) as usize;
        into.clear();
        into.resize(first, 0);
        let read = disk::read_full(&*file, into, offset.into())?;
        into.truncate(read);
        let Some(header) = RecordHeader::decode(into) else {
            return Ok(());
        };
        let wanted = header.record_bytes().min(left) as usize;
        if wanted > into.len() && read == first {
            into.resize(wanted, 0);
            let more =
                disk::read_full(&*file, &mut into[first..], u64::from(offset) + first as u64)?;
            into.truncate(first + more);
        }
        Ok(())
    }
}

/// Checks that `bytes` begin with a complete data record. Returns the ranges of its parts.
pub(crate) fn check_data(seed: Seed, offset: u32, bytes: &[u8]) -> Result<RecordParts, Flaw> {
    let header = RecordHeader::decode(bytes).ok_or("no record begins here")?;
    let whole = header.record_bytes() as usize;
    let record = bytes.get(..whole).ok_or("the record is longer than its segment")?;
    if seed.checksum(offset, &record[4..]) != header.checksum {
        return Err("the record's checksum does not match");
    }
    if header.kind != RecordKind::Data {
        return Err("the record here holds no data");
    }
    let head_start = format::RECORD_HEADER_BYTES as usize;
    let body_start = head_start + usize::from(header.head_length);
    Ok(RecordParts { head: head_start..body_start, body: body_start..whole })
}
