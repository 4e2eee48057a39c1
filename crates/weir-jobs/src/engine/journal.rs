//! The log as the engine uses it: typed records, and a snapshot at the start of every segment.

use weir_base::clock::Clock;
use weir_log::{
    AppendError, Class, Disk, ReadAhead, RecordError, RecordPosition, RecordReader, RoomOutcome,
    SegmentLog,
};

use super::body::StoredBody;
use super::head::{Put, RecordHead};
use super::head_features;
use super::state::EngineState;
use crate::features::JobFeatures;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// Writes and reads the engine's records.
#[derive(Debug)]
pub(crate) struct Journal<D: Disk> {
    pub(crate) log: SegmentLog<D>,
    pub(crate) reader: RecordReader<D>,
    head: Vec<u8>,
    facts: Vec<u8>,
    features: Vec<u8>,
    /// The segment has no snapshot yet; it must be written before any other record.
    snapshot_due: bool,
    /// Number of segments begun since the start. A change means that there may be something to
    /// reclaim.
    pub(crate) segments_begun: u64,
    /// Number of segments removed since the start.
    pub(crate) segments_removed: u64,
    /// The bytes of all segments before this one, as of this number of segments removed.
    sealed_bytes: Option<(u32, u64, u64)>,
    /// Tells the log's time index when a second begins. `None`: the log gets no index.
    pub(crate) clock: Option<Clock>,
}

impl<D: Disk> Journal<D> {
    pub(crate) fn new(log: SegmentLog<D>) -> Self {
        let reader = log.reader();
        // A crash may leave the last segment empty, with its snapshot cut off.
        let snapshot_due = log.segments().last().is_none_or(|last| last.records == 0);
        Self {
            log,
            reader,
            head: Vec::new(),
            facts: Vec::new(),
            features: Vec::new(),
            snapshot_due,
            segments_begun: 0,
            segments_removed: 0,
            sealed_bytes: None,
            clock: None,
        }
    }

    /// Requests a new snapshot before the next record, because the segment's own was lost.
    pub(crate) const fn replace_snapshot(&mut self) {
        self.snapshot_due = true;
    }

    /// Writes a job's record with these features, which replace those of `put`. `state` must match
    /// the log so far.
    pub(crate) fn put(
        &mut self,
        class: Class,
        put: &Put<'_>,
        features: &JobFeatures,
        body: &StoredBody<'_>,
        state: &EngineState,
    ) -> Result<RecordPosition, AppendError> {
        self.features.clear();
        head_features::write(features, &mut self.features);
        self.head.clear();
        RecordHead::Put(Put { features: &self.features, ..*put }).write(&mut self.head);
        self.facts.clear();
        body.write_facts(&mut self.facts);
        let body_bytes = self.facts.len() + body.json.len();
        self.make_room(class, body_bytes, state)?;
        self.log.append(class, &self.head, &[&self.facts, body.json])
    }

    /// Writes a record without a body.
    pub(crate) fn note(
        &mut self,
        head: &RecordHead<'_>,
        state: &EngineState,
    ) -> Result<(), AppendError> {
        self.note_with(head, &[], state).map(drop)
    }

    /// Writes a record other than a job's.
    pub(crate) fn note_with(
        &mut self,
        head: &RecordHead<'_>,
        body: &[u8],
        state: &EngineState,
    ) -> Result<RecordPosition, AppendError> {
        self.head.clear();
        head.write(&mut self.head);
        self.make_room(Class::Essential, body.len(), state)?;
        self.log.append(Class::Essential, &self.head, &[body])
    }

    /// Writes the segment's snapshot unless it has one. A new log begins with one.
    pub(crate) fn write_snapshot(&mut self, state: &EngineState) -> Result<(), AppendError> {
        if !self.snapshot_due {
            return Ok(());
        }
        let (mut head, mut body) = (Vec::new(), Vec::new());
        RecordHead::Snapshot.write(&mut head);
        state.snapshot().write(&mut body);
        self.log.append(Class::Essential, &head, &[&body])?;
        self.snapshot_due = false;
        Ok(())
    }

    /// Returns the bytes of the log. Looks at all segments once for each that begins or is removed.
    pub(crate) fn bytes(&mut self) -> u64 {
        let end = self.log.position();
        if let Some((segment, removed, bytes)) = self.sealed_bytes
            && (segment, removed) == (end.segment, self.segments_removed)
        {
            return bytes + u64::from(end.offset);
        }
        let segments = self.log.segments();
        let all = segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        let Some((_, before)) = segments.split_last() else { return all };
        // A segment that is full is sealed a little later.
        if before.iter().all(|segment| segment.sealed) {
            let bytes = before.iter().map(|segment| u64::from(segment.bytes)).sum();
            self.sealed_bytes = Some((end.segment, self.segments_removed, bytes));
        }
        all
    }

    /// Removes the oldest segment. If the present one has no space to record that, another one is begun. Returns false
    /// if the oldest can't be removed now.
    pub(crate) fn remove_first_segment(
        &mut self,
        state: &EngineState,
    ) -> Result<bool, AppendError> {
        if self.log.remove_first_segment() {
            self.segments_removed += 1;
            return Ok(true);
        }
        let before = self.log.position().segment;
        self.log.rotate()?;
        self.note_rotation(self.log.position().segment != before);
        // The segments to be removed hold the last snapshot.
        self.write_snapshot(state)?;
        let is_removed = self.log.remove_first_segment();
        self.segments_removed += u64::from(is_removed);
        Ok(is_removed)
    }

    fn make_room(
        &mut self,
        class: Class,
        body_bytes: usize,
        state: &EngineState,
    ) -> Result<(), AppendError> {
        if let Some(clock) = &self.clock {
            self.log.note_second(clock.now().as_micros() / MICROS_PER_SECOND);
        }
        let room = self.log.make_room(class, self.head.len(), body_bytes)?;
        self.note_rotation(room == RoomOutcome::Rotated);
        self.write_snapshot(state)
    }

    fn note_rotation(&mut self, rotated: bool) {
        self.snapshot_due |= rotated;
        self.segments_begun += u64::from(rotated);
    }

    /// Reads the body of the job's record at `position` into `buffer`.
    pub(crate) fn read<'b>(
        &self,
        position: RecordPosition,
        buffer: &'b mut Vec<u8>,
    ) -> Result<StoredBody<'b>, RecordError> {
        read_body(&self.reader, position, buffer)
    }
}

/// Reads the body of the job's record at `position`. May be called on any thread.
pub(crate) fn read_body<'b, D: Disk>(
    reader: &RecordReader<D>,
    position: RecordPosition,
    buffer: &'b mut Vec<u8>,
) -> Result<StoredBody<'b>, RecordError> {
    let parts = reader.read(position, buffer)?;
    parse_body(position, &buffer[parts.body])
}

/// Like [`read_body`], for one thread that mostly reads jobs in log order.
pub(crate) fn read_body_ahead<D: Disk>(
    ahead: &mut ReadAhead<D>,
    position: RecordPosition,
) -> Result<StoredBody<'_>, RecordError> {
    parse_body(position, ahead.read(position)?.body)
}

fn parse_body(position: RecordPosition, bytes: &[u8]) -> Result<StoredBody<'_>, RecordError> {
    StoredBody::read(bytes).map_err(|_| RecordError::Damaged {
        file: format!("segment {}", position.segment),
        offset: position.offset,
        why: "the record is not a job's",
    })
}
