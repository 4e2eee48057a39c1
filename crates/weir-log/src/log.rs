//! The owner's side: appending, rotating, removing. Nothing here waits for the disk but `flush`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::damages::Damages;
use crate::disk::Disk;
use crate::error::{AppendError, OpenError, Poison, RecordError, SyncError};
use crate::format::{
    self, ENTRY_BYTES_MAX, HEADER_BYTES, MARK_BYTES, RECORD_HEADER_BYTES, VERSION,
};
use crate::index::{Index, IndexedRecord};
use crate::options::SegmentLogOptions;
use crate::position::{Lsn, RecordPosition};
use crate::reader::RecordReader;
use crate::recovery::{self, Depth, Opened, RecoveryReport};
use crate::segment::{Segment, SegmentInfo};
use crate::shared::{NextSegment, SegmentLogShared, locked};
use crate::space::Space;
use crate::syncer::Syncer;

/// Which records may use the reserved room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Adds to what is stored: refused when only the reserve is left.
    Job,
    /// Lets stored things be finished (acknowledgements, moves): may use the reserve.
    Essential,
}

/// What [`SegmentLog::make_room`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomOutcome {
    /// The segment being written continues.
    Kept,
    /// A new segment begins with the next append.
    Rotated,
}

/// An append-only log, held by the one thread that adds to it.
#[derive(Debug)]
pub struct SegmentLog<D: Disk> {
    shared: Arc<SegmentLogShared<D>>,
    tail: Option<SegmentTail<D::File>>,
    rotated: bool,
}

/// The segment being written.
#[derive(Debug)]
pub(crate) struct SegmentTail<F> {
    pub(crate) segment: Arc<Segment<F>>,
    /// The format's, as its header says.
    pub(crate) version: u32,
    /// Where the next record will be.
    pub(crate) offset: u32,
    pub(crate) index: Index,
}

impl<F> SegmentTail<F> {
    /// Bytes left for marks, records and their footer entries.
    fn room_bytes(&self) -> u32 {
        self.free_bytes().saturating_sub(MARK_BYTES)
    }

    /// The same, with what is kept so that a segment can be removed when nothing else fits.
    fn free_bytes(&self) -> u32 {
        let used = self.offset + self.index.entries_bytes() + format::SEAL_BYTES;
        self.segment.capacity.saturating_sub(used)
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Opens the log in `disk`, or makes one in an empty directory.
    ///
    /// A torn tail (what was written after the last sync and did not all survive) is cut and
    /// reported. Damage below a position that is known to have been synced is repaired and listed
    /// ([`SegmentLog::damages`]). When this returns, everything in the log is durable.
    pub fn open(
        disk: D,
        options: SegmentLogOptions,
    ) -> Result<(SegmentLog<D>, RecoveryReport), OpenError> {
        let Opened { shared, tail, report } = recovery::open(disk, options, Depth::Recent)?;
        let mut log = SegmentLog { shared: Arc::new(shared), tail, rotated: false };
        log.prepare()?;
        // To segments of an older format nothing is added.
        let is_current = log.tail.as_ref().is_some_and(|tail| tail.version == VERSION);
        if !is_current && matches!(locked(&log.shared.catalogue).next, NextSegment::Ready(_)) {
            log.begin_segment();
            log.prepare()?;
        }
        Ok((log, report))
    }

    /// Adds a record to memory; no IO. `head` is what [`SegmentLog::heads`] shows again (kept short,
    /// under 64 KiB); the parts of `body` are joined.
    ///
    /// # Errors
    /// See [`AppendError`]. Nothing was added then.
    pub fn append(
        &mut self,
        class: Class,
        head: &[u8],
        body: &[&[u8]],
    ) -> Result<RecordPosition, AppendError> {
        let body_bytes: usize = body.iter().map(|part| part.len()).sum();
        self.make_room(class, head.len(), body_bytes)?;
        let tail = self.tail.as_mut().expect("there is room, so there is a segment");
        let offset =
            locked(&self.shared.pending).push_record(&tail.segment, tail.offset, head, body);
        let length = u32::try_from(head.len() + body_bytes).expect("under record_bytes_max");
        tail.index.push(offset, length, head);
        tail.offset = offset + RECORD_HEADER_BYTES + length;
        Ok(RecordPosition { segment: tail.segment.number, offset })
    }

    /// Does what [`SegmentLog::append`] does before it adds a record of that size: checks the limits and
    /// begins a new segment if the present one has no room. For an owner that wants its own
    /// record (a snapshot of small state) to be the first of every segment: on `RoomOutcome::Rotated` it
    /// appends that one, then the record.
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
        let room = self.tail.as_ref().map_or(0, SegmentTail::room_bytes);
        let reserve = match class {
            Class::Job => self.shared.options.reserve_bytes,
            Class::Essential => 0,
        };
        if room >= needed + reserve {
            return Ok(RoomOutcome::Kept);
        }
        match locked(&self.shared.catalogue).next {
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

    /// Seals the segment being written (if it holds a record), so that it can be removed.
    ///
    /// # Errors
    /// `Backpressure` or `NoSpace` when there is no next segment to go on with.
    pub fn rotate(&mut self) -> Result<(), AppendError> {
        self.shared.check_poison()?;
        if self.tail.as_ref().is_none_or(|tail| tail.index.records() == 0) {
            return Ok(());
        }
        match locked(&self.shared.catalogue).next {
            NextSegment::Ready(_) => {}
            NextSegment::Pending => return Err(AppendError::Backpressure),
            NextSegment::Failed => return Err(AppendError::NoSpace),
        }
        self.begin_segment();
        Ok(())
    }

    /// Whether a new segment was begun since the last call. The answer to it is a record with the
    /// small state (names, counters) that must survive the removal of older segments.
    pub fn rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    /// The log's end: the ticket for what was appended so far.
    #[must_use]
    pub fn end(&self) -> Lsn {
        locked(&self.shared.pending).end()
    }

    /// Everything at or below this is on disk.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        self.shared.durable()
    }

    /// Hands what was appended to the kernel from this thread: it then survives the death of the
    /// process, but not a power cut. May wait while the syncer writes (not while it syncs).
    ///
    /// # Errors
    /// `NoSpace`: kept in memory. `Poisoned`.
    pub fn flush(&mut self) -> Result<Lsn, SyncError> {
        self.shared.write_pending()
    }

    /// Notes in the log how much of it is durable; at the end of a clean stop (append nothing more,
    /// sync, mark, sync) it lets the next start tell damage anywhere from a torn tail.
    pub fn mark(&mut self) {
        let Some(tail) = &mut self.tail else { return };
        if tail.room_bytes() < MARK_BYTES {
            return;
        }
        let marked = locked(&self.shared.pending).push_mark(&tail.segment, tail.offset);
        tail.offset += if marked { MARK_BYTES } else { 0 };
    }

    /// Whether an append would now be refused with `Backpressure` for want of a sync: time to
    /// stop taking work in. Cheap.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        locked(&self.shared.pending).buffered() >= self.shared.options.buffered_bytes_max
    }

    /// Shows the data records of a segment, in order. May be called repeatedly.
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

    /// For reading records, on any thread.
    #[must_use]
    pub fn reader(&self) -> RecordReader<D> {
        RecordReader::new(Arc::clone(&self.shared))
    }

    /// For the sync thread.
    #[must_use]
    pub fn syncer(&self) -> Syncer<D> {
        Syncer::new(Arc::clone(&self.shared))
    }

    /// The segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let catalogue = locked(&self.shared.catalogue);
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

    /// Takes the oldest segment out of the log, if it is sealed; whether it did. Its records read
    /// as `Gone` from now on. The file is deleted by `Syncer::maintain`, once everything appended
    /// before this call is durable: so append what replaces its records first. The log says which
    /// segment is the oldest now; without room for that nothing is removed.
    pub fn remove_first_segment(&mut self) -> bool {
        let catalogue = locked(&self.shared.catalogue);
        let mut segments = catalogue.segments.iter();
        let (first, second) = (segments.next().cloned(), segments.next().cloned());
        drop(catalogue);
        let (Some(first), Some(second)) = (first, second) else { return false };
        if first.seal().is_none() || !self.name_first(second.number) {
            return false;
        }
        let end = self.end();
        let mut catalogue = locked(&self.shared.catalogue);
        let first = catalogue.segments.pop_front().expect("there is a first one");
        catalogue.doomed.push_back((first, end));
        true
    }

    /// What is damaged, and the way to acknowledge it, from any thread.
    #[must_use]
    pub fn damages(&self) -> Damages<D> {
        Damages::new(Arc::clone(&self.shared))
    }

    /// Room before the disk has to give more, and whether it does.
    #[must_use]
    pub fn space(&self) -> Space {
        let room = self.tail.as_ref().map_or(0, SegmentTail::room_bytes);
        let blocked = self.shared.write_blocked.load(Ordering::Relaxed);
        let options = &self.shared.options;
        match &locked(&self.shared.catalogue).next {
            NextSegment::Ready(next) if !blocked => {
                Space::Ok { room_bytes: u64::from(room) + u64::from(next.capacity) }
            }
            NextSegment::Pending if !blocked => Space::Ok { room_bytes: room.into() },
            _ => Space::short(room, if blocked { room } else { options.reserve_bytes }),
        }
    }

    /// Why the log accepts nothing any more, if so.
    #[must_use]
    pub fn poisoned(&self) -> Option<&Poison> {
        self.shared.poisoned()
    }

    /// What a record takes at most: a mark before it, itself, and its entry in the footer.
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

    /// Makes the next segment. Without room for it the log still opens: what is stored can be
    /// served.
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

    /// The limits that do not depend on the record.
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

    /// Seals the tail and goes on in the next segment, which the caller has seen ready.
    fn begin_segment(&mut self) {
        if let Some(SegmentTail { segment, offset, index, .. }) = self.tail.take() {
            let (seal, bytes) = index.seal(self.shared.log_id, segment.number, offset);
            locked(&self.shared.pending).push_seal(&segment, offset, bytes);
            segment.set_seal(seal);
        }
        let mut catalogue = locked(&self.shared.catalogue);
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

    /// Writes down which segment is the oldest; false: there is no room. An older format has no
    /// word for it.
    fn name_first(&mut self, first: u32) -> bool {
        let Some(tail) = self.tail.as_mut().filter(|tail| tail.free_bytes() >= MARK_BYTES) else {
            return false;
        };
        if tail.version >= VERSION {
            locked(&self.shared.pending).push_first(&tail.segment, tail.offset, first);
            tail.offset += MARK_BYTES;
        }
        true
    }
}
