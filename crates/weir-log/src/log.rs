//! The owner's operations: append, rotate, remove. Only `flush` waits for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::damages::Damages;
use crate::disk::Disk;
use crate::error::{AppendError, OpenError, Poison, RecordError, SyncError};
use crate::format::{
    self, ENTRY_BYTES_MAX, HEADER_BYTES, MARK_BYTES, RECORD_HEADER_BYTES, VERSION,
    VERSION_WITH_FIRST,
};
use crate::index::{Index, IndexedRecord};
use crate::options::SegmentLogOptions;
use crate::position::{Lsn, RecordPosition};
use crate::reader::RecordReader;
use crate::recovery::{self, Depth, Opened, RecoveryReport};
use crate::segment::{Segment, SegmentInfo};
use crate::shared::{NextSegment, SegmentLogShared, lock};
use crate::space::Space;
use crate::syncer::Syncer;
use crate::times::TimeMark;

/// Whether a record may use the reserved space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Adds to what is stored: rejected when only the reserve is left.
    Job,
    /// Completes or moves what is stored (acknowledgements, moves): may use the reserve.
    Essential,
}

/// The outcome of [`SegmentLog::make_room`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomOutcome {
    /// The present segment continues.
    Kept,
    /// A new segment begins with the next append.
    Rotated,
}

/// An append-only log, owned by the one thread that appends to it.
#[derive(Debug)]
pub struct SegmentLog<D: Disk> {
    shared: Arc<SegmentLogShared<D>>,
    tail: Option<SegmentTail<D::File>>,
    rotated: bool,
    /// The last second that was noted.
    second: u64,
    /// The second of the last mark in the time index; 0: there is none.
    marked_second: u64,
}

/// The segment being written.
#[derive(Debug)]
pub(crate) struct SegmentTail<F> {
    pub(crate) segment: Arc<Segment<F>>,
    /// The format version in its header.
    pub(crate) version: u32,
    /// The offset of the next record.
    pub(crate) offset: u32,
    pub(crate) index: Index,
}

impl<F> SegmentTail<F> {
    fn is_current(&self) -> bool {
        self.version == VERSION
    }

    /// Returns the bytes left for marks, records and their footer entries.
    fn room_bytes(&self) -> u32 {
        self.free_bytes().saturating_sub(MARK_BYTES)
    }

    /// Like `room_bytes`, but includes the space for the first record that removing a segment
    /// writes.
    fn free_bytes(&self) -> u32 {
        let used = self.offset + self.index.entries_bytes() + format::SEAL_BYTES;
        self.segment.capacity.saturating_sub(used)
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Opens the log in `disk`, or creates one in an empty directory.
    ///
    /// A torn tail (what was written after the last sync and did not all survive) is cut and
    /// reported. Damage below a position that was synced is repaired and listed
    /// ([`SegmentLog::damages`]). When this returns, everything in the log is durable.
    pub fn open(
        disk: D,
        options: SegmentLogOptions,
    ) -> Result<(SegmentLog<D>, RecoveryReport), OpenError> {
        let Opened { shared, tail, report } = recovery::open(disk, options, Depth::Recent)?;
        // Marks ascend: the second in which the log was closed may not be over, or the clock may
        // have been set back.
        let second = shared.times.last_second_at_open();
        let shared = Arc::new(shared);
        let mut log = SegmentLog { shared, tail, rotated: false, second, marked_second: second };
        log.prepare()?;
        // No job is appended to a segment of an older format, so begin a new one.
        if !log.is_current() && matches!(lock(&log.shared.catalogue).next, NextSegment::Ready(_)) {
            log.begin_segment();
            log.prepare()?;
        }
        Ok((log, report))
    }

    /// Appends a record in memory, without I/O. `head` is what [`SegmentLog::heads`] returns (under
    /// 64 KiB, ideally short); the parts of `body` are concatenated. Returns the record's position.
    ///
    /// # Errors
    /// See [`AppendError`]. On an error nothing was appended.
    pub fn append(
        &mut self,
        class: Class,
        head: &[u8],
        body: &[&[u8]],
    ) -> Result<RecordPosition, AppendError> {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        self.make_room(class, head.len(), body_bytes)?;
        let tail = self.tail.as_mut().expect("there is room, so there is a segment");
        let offset = lock(&self.shared.pending).push_record(&tail.segment, tail.offset, head, body);
        let length = u32::try_from(head.len() + body_bytes).expect("under record_bytes_max");
        tail.index.push(offset, length, head);
        tail.offset = offset + RECORD_HEADER_BYTES + length;
        Ok(RecordPosition { segment: tail.segment.number, offset })
    }

    /// Prepares for a record of that size, as [`SegmentLog::append`] does: checks the limits and
    /// begins a new segment if the present one has no room. An owner that starts every segment with
    /// a record of its own (a snapshot of small state) calls this first: on `RoomOutcome::Rotated`
    /// it appends that record, then the other one.
    ///
    /// # Errors
    /// Those of `append`.
    pub fn make_room(
        &mut self,
        class: Class,
        head_bytes: usize,
        body_bytes: usize,
    ) -> Result<RoomOutcome, AppendError> {
        let needed = self.footprint(head_bytes, body_bytes)?;
        self.admit(class)?;
        let tail = self.tail.as_ref().filter(|tail| class == Class::Essential || tail.is_current());
        let room = tail.map_or(0, SegmentTail::room_bytes);
        let reserve = match class {
            Class::Job => self.shared.options.reserve_bytes,
            Class::Essential => 0,
        };
        if room >= needed + reserve {
            return Ok(RoomOutcome::Kept);
        }
        match lock(&self.shared.catalogue).next {
            NextSegment::Pending if room >= needed && class == Class::Essential => {
                return Ok(RoomOutcome::Kept);
            }
            NextSegment::Ready(_) if room >= needed => return Ok(RoomOutcome::Kept),
            NextSegment::Ready(_) => {}
            NextSegment::Pending => return Err(AppendError::Backpressure),
            NextSegment::Failed => return Err(AppendError::NoSpace),
        }
        self.begin_segment();
        Ok(RoomOutcome::Rotated)
    }

    /// Seals the present segment, if it holds a record, so that it can be removed.
    ///
    /// # Errors
    /// `Backpressure` or `NoSpace` if there is no next segment.
    pub fn rotate(&mut self) -> Result<(), AppendError> {
        self.shared.check_poison()?;
        if self.tail.as_ref().is_none_or(|tail| tail.index.records() == 0) {
            return Ok(());
        }
        match lock(&self.shared.catalogue).next {
            NextSegment::Ready(_) => {}
            NextSegment::Pending => return Err(AppendError::Backpressure),
            NextSegment::Failed => return Err(AppendError::NoSpace),
        }
        self.begin_segment();
        Ok(())
    }

    /// Returns whether a new segment was begun since the last call. The owner then appends a record
    /// with the small state (names, counters) that must survive the removal of older segments.
    pub fn rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    /// Notes that `second` (since the Unix epoch) has begun, before something is appended in it. The
    /// first call for a second adds a mark to the time index; see `times.rs`.
    pub fn note_second(&mut self, second: u64) {
        if second <= self.second {
            return;
        }
        self.second = second;
        if self.tail.is_some() {
            self.shared.times.push(TimeMark { second, position: self.position() });
            self.marked_second = second;
        }
    }

    /// Returns the second of the last mark that was added to the time index, or 0. An index whose
    /// last mark is earlier has lost marks.
    #[must_use]
    pub const fn marked_second(&self) -> u64 {
        self.marked_second
    }

    /// Returns the position of the log's end: everything before it was appended. The lowest position
    /// if nothing ever was.
    #[must_use]
    pub fn position(&self) -> RecordPosition {
        let end = |tail: &SegmentTail<D::File>| RecordPosition {
            segment: tail.segment.number,
            offset: tail.offset,
        };
        self.tail.as_ref().map(end).unwrap_or_default()
    }

    /// Returns the number in the header of every segment, which is random and tells logs apart.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.shared.log_id
    }

    /// Returns whether the last segment has the format of this program. If not, the disk had no space for another one, and
    /// an older program may still read the log.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.tail.as_ref().is_some_and(SegmentTail::is_current)
    }

    /// Returns the log's end, which identifies everything appended so far.
    #[must_use]
    pub fn end(&self) -> Lsn {
        lock(&self.shared.pending).end()
    }

    /// Returns the position up to which everything is on disk.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Writes what was appended to the page cache from this thread: it then survives the death of
    /// the process, but not a power cut. May wait while the syncer writes, but not while it syncs.
    ///
    /// # Errors
    /// `NoSpace`: the bytes stay in memory. `Poisoned`.
    pub fn flush(&mut self) -> Result<Lsn, SyncError> {
        self.shared.write_pending()
    }

    /// Records in the log how much of it is durable. At the end of a clean shutdown (append nothing
    /// more, sync, mark, sync) the mark lets the next start distinguish damage from a torn tail.
    pub fn mark(&mut self) {
        let Some(tail) = &mut self.tail else { return };
        if tail.room_bytes() < MARK_BYTES {
            return;
        }
        let marked = lock(&self.shared.pending).push_mark(&tail.segment, tail.offset);
        tail.offset += if marked { MARK_BYTES } else { 0 };
    }

    /// Returns whether an append would now fail with `Backpressure` because too much is unwritten,
    /// so the owner should stop accepting work. Cheap.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        lock(&self.shared.pending).buffered() >= self.shared.options.buffered_bytes_max
    }

    /// Calls `visit` for each data record of a segment, in order. May be called repeatedly.
    ///
    /// # Errors
    /// `Gone`; `Damaged` if the footer is unreadable and the records are damaged too; `Io`.
    pub fn heads(
        &self,
        segment: u32,
        visit: &mut dyn FnMut(IndexedRecord<'_>),
    ) -> Result<(), RecordError> {
        match &self.tail {
            Some(tail) if tail.segment.number == segment => {
                tail.index.visit(segment, visit);
                Ok(())
            }
            _ => self.reader().heads(segment, visit),
        }
    }

    /// Returns a reader, which can be used on any thread.
    #[must_use]
    pub fn reader(&self) -> RecordReader<D> {
        RecordReader::new(Arc::clone(&self.shared))
    }

    /// Returns the syncer for the sync thread.
    #[must_use]
    pub fn syncer(&self) -> Syncer<D> {
        Syncer::new(Arc::clone(&self.shared))
    }

    /// Returns the segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let catalogue = lock(&self.shared.catalogue);
        let info = |segment: &Arc<Segment<D::File>>| match (segment.seal(), &self.tail) {
            (Some(seal), _) => SegmentInfo {
                number: segment.number,
                bytes: seal.file_bytes(),
                records: seal.records,
                sealed: true,
            },
            (None, tail) => SegmentInfo {
                number: segment.number,
                bytes: tail.as_ref().map_or(HEADER_BYTES, |tail| tail.offset),
                records: tail.as_ref().map_or(0, |tail| tail.index.records()),
                sealed: false,
            },
        };
        catalogue.segments.iter().map(info).collect()
    }

    /// Removes the oldest segment from the log if it is sealed, and returns whether it did. Its
    /// records are `Gone` from now on. `Syncer::maintain` deletes the file once everything appended
    /// before this call is durable, so append what replaces its records first. The log records
    /// which segment is now the oldest; without space for that record nothing is removed.
    pub fn remove_first_segment(&mut self) -> bool {
        let catalogue = lock(&self.shared.catalogue);
        let mut segments = catalogue.segments.iter();
        let (first, second) = (segments.next().cloned(), segments.next().cloned());
        drop(catalogue);
        let (Some(first), Some(second)) = (first, second) else { return false };
        if first.seal().is_none() || !self.name_first(second.number) {
            return false;
        }
        let end = self.end();
        let mut catalogue = lock(&self.shared.catalogue);
        let first = catalogue.segments.pop_front().expect("there is a first one");
        catalogue.removed.push_back((first, end));
        true
    }

    /// Returns the list of damage, which can be read and acknowledged on any thread.
    #[must_use]
    pub fn damages(&self) -> Damages<D> {
        Damages::new(Arc::clone(&self.shared))
    }

    /// Returns the space left before another allocation, and whether the disk provides one.
    #[must_use]
    pub fn space(&self) -> Space {
        let room = self.tail.as_ref().map_or(0, SegmentTail::room_bytes);
        let blocked = self.shared.write_blocked.load(Ordering::Relaxed);
        let options = &self.shared.options;
        match &lock(&self.shared.catalogue).next {
            NextSegment::Ready(next) if !blocked => {
                Space::Ok { room_bytes: u64::from(room) + u64::from(next.capacity) }
            }
            NextSegment::Pending if !blocked => Space::Ok { room_bytes: room.into() },
            _ => Space::short(room, if blocked { room } else { options.reserve_bytes }),
        }
    }

    /// Returns why the log no longer accepts records, if so.
    #[must_use]
    pub fn poisoned(&self) -> Option<&Poison> {
        self.shared.poisoned()
    }

    /// Returns the maximum space of a record: a mark before it, the record, and its footer entry.
    fn footprint(&self, head_bytes: usize, body_bytes: usize) -> Result<u32, AppendError> {
        let max = self.shared.options.record_bytes_max;
        let too_large = || AppendError::TooLarge { bytes: (head_bytes + body_bytes) as u64, max };
        let head = u16::try_from(head_bytes).map_err(|_| too_large())?;
        let length = u32::try_from(head_bytes + body_bytes).map_err(|_| too_large())?;
        if length > max {
            return Err(too_large());
        }
        Ok(MARK_BYTES + RECORD_HEADER_BYTES + length + ENTRY_BYTES_MAX + u32::from(head))
    }

    /// Allocates the next segment. Without space for it the log still opens, so that what is stored
    /// can be served.
    fn prepare(&self) -> Result<(), Poison> {
        match self.syncer().maintain() {
            Err(SyncError::Poisoned(poison)) => Err(poison),
            Err(error) => {
                tracing::warn!(%error, "the log opens without room for another segment");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Checks the limits that do not depend on the record's size.
    fn admit(&self, class: Class) -> Result<(), AppendError> {
        self.shared.check_poison()?;
        if class == Class::Job && self.shared.write_blocked.load(Ordering::Relaxed) {
            return Err(AppendError::NoSpace);
        }
        if self.must_wait() {
            return Err(AppendError::Backpressure);
        }
        Ok(())
    }

    /// Seals the tail and continues in the next segment. The caller has checked that it is ready.
    fn begin_segment(&mut self) {
        if let Some(SegmentTail { segment, offset, index, .. }) = self.tail.take() {
            let (seal, bytes) = index.seal(self.shared.log_id, segment.number, offset);
            lock(&self.shared.pending).push_seal(&segment, offset, bytes);
            segment.set_seal(seal);
        }
        let mut catalogue = lock(&self.shared.catalogue);
        let NextSegment::Ready(segment) =
            std::mem::replace(&mut catalogue.next, NextSegment::Pending)
        else {
            unreachable!("only the owner takes the next segment");
        };
        catalogue.segments.push_back(Arc::clone(&segment));
        let first = catalogue.segments.front().map_or(segment.number, |first| first.number);
        drop(catalogue);
        let tail =
            SegmentTail { segment, version: VERSION, offset: HEADER_BYTES, index: Index::new() };
        self.tail = Some(tail);
        self.name_first(first);
        self.mark();
        self.rotated = true;
    }

    /// Appends a record of which segment is the oldest. Returns false if there is no space. A
    /// segment of an older format can't hold this record, so nothing is written there.
    fn name_first(&mut self, first: u32) -> bool {
        let Some(tail) = self.tail.as_mut().filter(|tail| tail.free_bytes() >= MARK_BYTES) else {
            return false;
        };
        if tail.version >= VERSION_WITH_FIRST {
            lock(&self.shared.pending).push_first(&tail.segment, tail.offset, first);
            tail.offset += MARK_BYTES;
        }
        true
    }
}
