//! Bytes that were appended but not yet written. The owner adds them, the writer removes them.
//!
//! Protected by a mutex that is held briefly. The bytes are in chunks of at most `CHUNK_BYTES` (or
//! one larger record). Each chunk belongs to one segment, in the order of the log; a record never
//! spans chunks.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::format::{self, MARK_BYTES, RecordKind};
use crate::position::{Lsn, RecordPosition};
use crate::segment::Segment;

/// Size of a write, large enough that the system call is cheap compared to the copy.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Maximum number of chunks to reuse, so that a steady load allocates nothing.
const SPARE_CHUNKS_MAX: usize = 8;

/// Bytes that no longer change.
#[derive(Debug)]
pub(crate) struct Chunk<F> {
    pub(crate) segment: Arc<Segment<F>>,
    pub(crate) start: u32,
    pub(crate) bytes: Vec<u8>,
    /// The log's end after this chunk.
    pub(crate) lsn: Lsn,
}

impl<F> Chunk<F> {
    pub(crate) fn end(&self) -> u32 {
        end_offset(self.start, &self.bytes)
    }
}

#[derive(Debug)]
struct Active<F> {
    segment: Arc<Segment<F>>,
    start: u32,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Pending<F> {
    frozen: VecDeque<Arc<Chunk<F>>>,
    active: Option<Active<F>>,
    spare: Vec<Vec<u8>>,
    end: Lsn,
    /// Bytes in `frozen` and `active`.
    buffered: u64,
    /// Everything before this is on disk.
    durable: RecordPosition,
    /// The position in the last mark.
    marked: RecordPosition,
}

impl<F> Pending<F> {
    pub(crate) fn new(durable: RecordPosition) -> Pending<F> {
        Pending {
            frozen: VecDeque::new(),
            active: None,
            spare: Vec::new(),
            end: Lsn(0),
            buffered: 0,
            durable,
            marked: RecordPosition::default(),
        }
    }

    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    pub(crate) fn buffered(&self) -> u64 {
        self.buffered
    }

    pub(crate) fn set_durable(&mut self, durable: RecordPosition) {
        self.durable = durable;
    }

    /// Adds a data record at `offset` of `segment`. Adds a mark before it if it begins a batch and
    /// the durable position has advanced since the last mark. Returns the record's own offset.
    pub(crate) fn push_record(
        &mut self,
        segment: &Arc<Segment<F>>,
        offset: u32,
        head: &[u8],
        body: &[&[u8]],
    ) -> u32 {
        let length = head.len() + body.iter().map(|part| part.len()).sum::<usize>();
        let begins_batch = self.active.is_none();
        let marked = begins_batch && self.push_mark(segment, offset);
        let offset = if marked { offset + MARK_BYTES } else { offset };
        let bytes = self.room(segment, offset, length + format::RECORD_HEADER_BYTES as usize);
        let before = bytes.len();
        format::encode_record(bytes, segment.seed, offset, RecordKind::Data, head, body);
        let added = bytes.len() - before;
        self.added(added);
        offset
    }

    /// Adds a mark unless the durable position is unchanged. Returns whether it was added.
    pub(crate) fn push_mark(&mut self, segment: &Arc<Segment<F>>, offset: u32) -> bool {
        if self.durable <= self.marked {
            return false;
        }
        self.marked = self.durable;
        let durable = self.durable;
        let bytes = self.room(segment, offset, MARK_BYTES as usize);
        format::encode_mark(bytes, segment.seed, offset, durable);
        self.added(MARK_BYTES as usize);
        true
    }

    /// Adds a first record.
    pub(crate) fn push_first(&mut self, segment: &Arc<Segment<F>>, offset: u32, first: u32) {
        let bytes = self.room(segment, offset, MARK_BYTES as usize);
        format::encode_first(bytes, segment.seed, offset, first);
        self.added(MARK_BYTES as usize);
    }

    /// Adds the bytes that seal a segment, as a chunk of their own.
    pub(crate) fn push_seal(&mut self, segment: &Arc<Segment<F>>, start: u32, bytes: Vec<u8>) {
        self.freeze();
        self.added(bytes.len());
        let segment = Arc::clone(segment);
        self.frozen.push_back(Arc::new(Chunk { segment, start, bytes, lsn: self.end }));
    }

    /// Closes the chunk being filled. Returns the number of chunks to write.
    pub(crate) fn freeze(&mut self) -> usize {
        if let Some(Active { segment, start, bytes }) = self.active.take() {
            self.frozen.push_back(Arc::new(Chunk { segment, start, bytes, lsn: self.end }));
        }
        self.frozen.len()
    }

    pub(crate) fn first(&self) -> Option<Arc<Chunk<F>>> {
        self.frozen.front().cloned()
    }

    /// Removes the first chunk after it was written. `chunk` is the writer's reference; the buffer
    /// is reused if that was the last one.
    pub(crate) fn first_written(&mut self, chunk: Arc<Chunk<F>>) {
        self.frozen.pop_front();
        self.buffered -= chunk.bytes.len() as u64;
        if let Some(Chunk { mut bytes, .. }) = Arc::into_inner(chunk)
            && bytes.capacity() == CHUNK_BYTES
            && self.spare.len() < SPARE_CHUNKS_MAX
        {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Returns the bytes of `segment` from `offset` to the end of the chunk that holds them.
    pub(crate) fn bytes_at(&self, segment: u32, offset: u32) -> Option<&[u8]> {
        let found = self
            .frozen
            .partition_point(|chunk| (chunk.segment.number, chunk.end()) <= (segment, offset));
        let (number, start, bytes) = match (self.frozen.get(found), &self.active) {
            (Some(chunk), _) => (chunk.segment.number, chunk.start, &chunk.bytes),
            (None, Some(active)) => (active.segment.number, active.start, &active.bytes),
            (None, None) => return None,
        };
        if number != segment {
            return None;
        }
        let from = offset.checked_sub(start)? as usize;
        bytes.get(from..).filter(|rest| !rest.is_empty())
    }

    /// Returns the chunk being filled, with space for `more` bytes at `offset` of `segment`.
    fn room(&mut self, segment: &Arc<Segment<F>>, offset: u32, more: usize) -> &mut Vec<u8> {
        let fits = self.active.as_ref().is_some_and(|active| {
            active.segment.number == segment.number && active.bytes.len() + more <= CHUNK_BYTES
        });
        if !fits {
            self.freeze();
        }
        let spare = &mut self.spare;
        let active = self.active.get_or_insert_with(|| {
            let spare = if more <= CHUNK_BYTES { spare.pop() } else { None };
            let bytes = spare.unwrap_or_else(|| Vec::with_capacity(more.max(CHUNK_BYTES)));
            Active { segment: Arc::clone(segment), start: offset, bytes }
        });
        debug_assert_eq!(end_offset(active.start, &active.bytes), offset, "the log has no holes");
        &mut active.bytes
    }

    fn added(&mut self, bytes: usize) {
        self.end = self.end.plus(bytes);
        self.buffered += bytes as u64;
    }
}

fn end_offset(start: u32, bytes: &[u8]) -> u32 {
    start + u32::try_from(bytes.len()).expect("a chunk lies in one segment")
}
