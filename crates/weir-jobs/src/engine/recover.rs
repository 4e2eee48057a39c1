//! Rebuilds the state in memory from the heads of the log's records.
//!
//! This takes two passes. The first collects what has ended: records that were replaced or removed
//! (sorted, since there may be millions), queues and sets that were cleared, and the last state of
//! each queue. The second adds every job whose record is still valid, in log order.

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::{Disk, RecordError, RecordPosition, RecordReader, SegmentLog};

use super::arena::JobIndex;
use super::fair_queue::LaneChoice;
use super::head::{Cause, Put, RecordHead, RemovalReason, StoredPlace, read_positions};
use super::head_features::{self, BatchJob};
use super::journal::read_body;
use super::kept_key::{KeptKey, KeptKind, KeptRecords};
use super::rebuild::Rebuild;
use super::reservation_record::{LoggedReservation, reservation_key};
use super::snapshot::{EngineSnapshot, EngineTotals, QueueFacts};
use super::state::{EngineState, NewEntry};
use super::varint::FieldReader;
use crate::allocation::Allocation;
use crate::batches::{BatchTotals, CallbackKind, CallbackState};
use crate::custom::BatchId;
use crate::features::{CallbackJob, CronRun};
use crate::metrics::JobsMetrics;
use crate::model::{QueueName, SetName};
use crate::resources::TypeKey;
use crate::settings::JobServerLimits;

/// Number of jobs that are added to the jid index together: enough that each part of the table
/// receives hundreds, few enough that the list takes 2 MiB.
const INDEX_BATCH_JOBS: usize = 1 << 18;

/// Why the state could not be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A segment could not be read.
    #[error("cannot read the jobs log: {0}")]
    Read(#[from] RecordError),
    /// A record that a newer (or faulty) version of Weir wrote.
    #[error(
        "segment {segment}, offset {offset} of the jobs log holds a record that this version of \
         Weir does not know: was it written by a newer one?"
    )]
    Unknown { segment: u32, offset: u32 },
}

/// The result of the first pass.
#[derive(Debug, Default)]
struct FirstPass {
    /// Positions of records that are no longer valid, sorted.
    records: Vec<u64>,
    /// Number of job records, valid or not.
    puts: usize,
    cleared: ClearedPlaces,
    queues: HashMap<u16, QueueFacts>,
    /// Whether a queue may be hidden. In most logs none is, so job records need no check.
    any_hidden: bool,
    /// The newest record of each key.
    kept: KeptRecords,
    /// The newest record of each reservation, by the order of its job.
    reservations: HashMap<u64, RecordPosition, foldhash::fast::RandomState>,
    batches: BatchFacts,
    totals: EngineTotals,
    seed: Option<u64>,
    /// The position of the first readable snapshot. The seed of the records before it is unknown.
    seed_known_from: Option<RecordPosition>,
    next_order: u64,
    /// The last record, if it says that the store was closed.
    closed_at: Option<RecordPosition>,
}

/// What the records of jobs tell of batches and cron jobs, beside their own records.
#[derive(Debug, Default)]
struct BatchFacts {
    totals: HashMap<BatchId, BatchTotals>,
    /// The last time of each cron job for which a job was stored.
    cron_runs: HashMap<u64, Timestamp>,
    /// Callbacks that were stored, and whether they have succeeded.
    callbacks: HashMap<(BatchId, CallbackKind), CallbackState>,
    /// What was cleared and forgotten before the last snapshot: its totals count those jobs as lost.
    counted: ClearedPlaces,
}

/// The places whose jobs are gone.
#[derive(Clone, Debug, Default)]
struct ClearedPlaces {
    queues: HashMap<u16, Cleared, foldhash::fast::RandomState>,
    sets: [Option<RecordPosition>; 3],
    flushed: Option<RecordPosition>,
}

impl ClearedPlaces {
    /// Returns whether the job of a record is gone with its queue or set.
    fn ends(&self, position: RecordPosition, put: &Put<'_>) -> bool {
        let cleared = match put.stored {
            StoredPlace::Queue => {
                self.queues.get(&put.queue).is_some_and(|cleared| cleared.ends(position))
            }
            StoredPlace::Set(set) => self.sets[set as usize] > Some(position),
        };
        cleared || self.flushed > Some(position)
    }
}

/// The clearing of a queue.
#[derive(Clone, Debug)]
struct Cleared {
    at: RecordPosition,
    /// Records that remain valid, sorted.
    kept: Vec<RecordPosition>,
}

impl Cleared {
    fn ends(&self, position: RecordPosition) -> bool {
        position < self.at && self.kept.binary_search(&position).is_err()
    }
}

/// Rebuilds the state from `log`. After a stop, which has recorded all reservations, those are restored that `rules`
/// count.
pub(crate) fn recover<D: Disk>(
    log: &SegmentLog<D>,
    metrics: JobsMetrics,
    limits: &JobServerLimits,
    rules: &Allocation,
    random: &mut fastrand::Rng,
) -> Result<EngineState, RecoverError> {
    let ended = FirstPass::read(log)?;
    let seed = ended.seed.unwrap_or_else(|| random.u64(..));
    let mut state = EngineState::new(seed, metrics);
    state.totals = ended.totals;
    for facts in ended.queues.values() {
        // The name was checked when it was pushed. A limit lowered since then must not lose its
        // jobs.
        let limits = JobServerLimits { queue_name_bytes_max: usize::MAX, ..limits.clone() };
        if let Ok(name) = QueueName::parse(&facts.name, &limits) {
            state.queues.define(facts.number, name);
            let queue = state.queues.get_mut(facts.number);
            queue.paused = facts.paused;
            queue.hidden = facts.hidden;
        }
    }
    restore_closed(log, ended.closed_at, &mut state)?;
    state.next_order = ended.next_order;
    state.index.reserve(ended.puts.saturating_sub(ended.records.len()), &state.arena);
    for (key, position) in &ended.kept {
        restore_kept(log, *key, *position, &ended.batches, &mut state)?;
    }
    let mut filter = Survivors { ended: &ended, next_ended: 0, lost: HashMap::new() };
    let (mut unindexed, mut reserved) = (Vec::new(), Vec::new());
    let mut rebuild = Rebuild::new(log.reader(), ended.hashes_unknown_before());
    walk(log, |position, head| {
        if let RecordHead::Put(mut put) = head {
            state.next_order = state.next_order.max(put.order_floor());
            if filter.counts(position, &put) {
                rebuild.complete(position, &mut put, &mut state);
                let job = state.insert_unindexed(entry(position, &put));
                if !put.features.is_empty() {
                    let features = head_features::read(put.features);
                    // A later record of the same lock is that of its last holder.
                    state.features.restore(job, features.map_err(|_| unknown(position))?);
                }
                unindexed.push((put.hash, job));
                if put.stored == StoredPlace::Queue
                    && let Some(reservation) = ended.reservations.get(&put.order)
                {
                    reserved.push((job, *reservation));
                }
            }
            if unindexed.len() == INDEX_BATCH_JOBS {
                state.index_all(&mut unindexed);
            }
        }
        Ok(())
    })?;
    state.index_all(&mut unindexed);
    for (job, reservation) in reserved {
        restore_reservation(log, job, reservation, rules, &mut state)?;
    }
    // Their reserved jobs have shown them again.
    for facts in ended.queues.values().filter(|facts| facts.hidden) {
        if state.queues.contains(facts.number) {
            let queue = state.queues.get_mut(facts.number);
            queue.hidden = queue.lane.first().is_none();
        }
    }
    state.queues.forget_removed();
    state.has_counted_lost = !filter.lost.is_empty();
    state.features.batches.restored(&filter.lost, &ended.batches.callbacks);
    Ok(state)
}

impl Put<'_> {
    /// Returns the least value for `next_order`. Orders in queues are assigned in sequence; those
    /// in sets are times.
    const fn order_floor(&self) -> u64 {
        match self.stored {
            StoredPlace::Queue => self.order + 1,
            StoredPlace::Set(_) => 0,
        }
    }
}

fn entry(position: RecordPosition, put: &Put<'_>) -> NewEntry {
    let rest = put.stored.rest();
    // Queues have no lanes yet.
    let lane = LaneChoice::NONE;
    let Put { order, hash, queue, .. } = *put;
    NewEntry { position, order, hash, queue, rest, lane, bytes: 0 }
}

/// Restores the state that a record holds. It is lost with a damaged record.
fn restore_kept<D: Disk>(
    log: &SegmentLog<D>,
    key: KeptKey,
    position: RecordPosition,
    batches: &BatchFacts,
    state: &mut EngineState,
) -> Result<(), RecoverError> {
    let mut buffer = Vec::new();
    let Some(body) = read_noted(log, &log.reader(), position, &mut buffer)? else {
        return Ok(());
    };
    let body_is_empty = body.is_empty();
    let restored = match key.kind {
        KeptKind::Track => state.restore_track(body),
        KeptKind::Cron => state.restore_cron(body, batches.cron_runs.get(&key.key).copied()),
        KeptKind::Batch => {
            let id = BatchId(key.key);
            state.restore_batch(id, body, batches.totals.get(&id).copied().unwrap_or_default())
        }
        // They are restored with their jobs.
        KeptKind::Reservation => return Ok(()),
    };
    restored.map_err(|_| unknown(position))?;
    if body_is_empty {
        return Ok(());
    }
    state.note_kept(key, position);
    Ok(())
}

/// Reads the record of a closed store. If it is damaged, the store counts as not closed.
fn restore_closed<D: Disk>(
    log: &SegmentLog<D>,
    position: Option<RecordPosition>,
    state: &mut EngineState,
) -> Result<(), RecoverError> {
    let mut buffer = Vec::new();
    let body = match position {
        Some(position) => read_noted(log, &log.reader(), position, &mut buffer)?,
        None => None,
    };
    state.was_closed = body.is_some();
    // A store that presumed nothing has written no time.
    let until = body.and_then(|body| FieldReader(body).number().ok());
    state.presumed_until = until.map(Timestamp::from_micros);
    Ok(())
}

/// Reserves a job again whose reservation is in the log and has not ended. A job that can't be read waits; its
/// fetch finds that out. So does one that no limit counts after a stop.
fn restore_reservation<D: Disk>(
    log: &SegmentLog<D>,
    job: JobIndex,
    position: RecordPosition,
    rules: &Allocation,
    state: &mut EngineState,
) -> Result<(), RecoverError> {
    let (reader, mut buffer, mut job_buffer) = (log.reader(), Vec::new(), Vec::new());
    let Some(body) = read_noted(log, &reader, position, &mut buffer)? else { return Ok(()) };
    let recorded = LoggedReservation::read(body).map_err(|_| unknown(position))?;
    let entry = *state.arena.get(job);
    let stored = match read_body(&reader, entry.position, &mut job_buffer) {
        Err(error) if error.is_passing() => return Err(error.into()),
        stored => stored,
    };
    if let (Some(recorded), Ok(stored)) = (recorded, stored) {
        let queue = &state.queues.get(entry.queue).name;
        let is_counted =
            state.features.get(job).runs_locked() || rules.limits_running(queue, stored.jobtype);
        if state.was_closed && !is_counted {
            state.released.push(reservation_key(entry.order));
            return Ok(());
        }
        let jobtype = TypeKey::of(stored.jobtype);
        state.restore_reservation(job, Box::from(stored.jid), jobtype, &recorded);
        state.note_kept(reservation_key(entry.order), position);
    }
    Ok(())
}

/// Decides which records of the second pass are valid. Positions must be ascending.
struct Survivors<'a> {
    ended: &'a FirstPass,
    next_ended: usize,
    /// Jobs of batches that were cleared since the last snapshot.
    lost: HashMap<BatchId, u64>,
}

impl Survivors<'_> {
    fn counts(&mut self, position: RecordPosition, put: &Put<'_>) -> bool {
        let packed = position.to_u64();
        let ended = &self.ended.records;
        while ended.get(self.next_ended).is_some_and(|ended| *ended < packed) {
            self.next_ended += 1;
        }
        if ended.get(self.next_ended) == Some(&packed) {
            return false;
        }
        if self.ended.cleared.ends(position, put) {
            self.count_lost(position, put);
            return false;
        }
        true
    }

    /// Counts a job of a batch that was cleared since the last snapshot.
    fn count_lost(&mut self, position: RecordPosition, put: &Put<'_>) {
        if put.features.is_empty() || self.ended.batches.counted.ends(position, put) {
            return;
        }
        let member = head_features::read(put.features).ok().and_then(|features| features.batch);
        if let Some(member) = member {
            *self.lost.entry(member.batch).or_default() += 1;
        }
    }
}

impl FirstPass {
    fn read<D: Disk>(log: &SegmentLog<D>) -> Result<Self, RecoverError> {
        let mut ended = Self { next_order: 1, ..Self::default() };
        let reader = log.reader();
        let mut buffer = Vec::new();
        walk(log, |position, head| {
            ended.closed_at = (head == RecordHead::Closed).then_some(position);
            match head {
                RecordHead::Snapshot => {
                    if let Some(body) = read_noted(log, &reader, position, &mut buffer)? {
                        let snapshot = EngineSnapshot::read(body);
                        ended.begin(position, snapshot.map_err(|_| unknown(position))?);
                    }
                }
                RecordHead::QueueCleared { queue } => {
                    // Without the body it is unknown which jobs remain, so keep all.
                    if let Some(body) = read_noted(log, &reader, position, &mut buffer)? {
                        let kept = read_positions(body).map_err(|_| unknown(position))?;
                        ended.clear(queue, position, kept);
                    }
                }
                _ => ended.note(position, head),
            }
            Ok(())
        })?;
        ended.records.sort_unstable();
        Ok(ended)
    }

    /// Replaces the collected state by that of a snapshot, which sums up all records before it.
    fn begin(&mut self, position: RecordPosition, snapshot: EngineSnapshot) {
        self.seed_known_from.get_or_insert(position);
        self.seed = Some(snapshot.seed);
        self.next_order = self.next_order.max(snapshot.next_order);
        self.totals = snapshot.totals;
        self.any_hidden = snapshot.queues.iter().any(|facts| facts.hidden);
        self.queues = snapshot.queues.into_iter().map(|facts| (facts.number, facts)).collect();
        self.batches.totals = snapshot.batches.into_iter().collect();
        if !snapshot.is_clearing {
            self.batches.counted = self.cleared.clone();
        }
    }

    fn hashes_unknown_before(&self) -> RecordPosition {
        const EVERYWHERE: RecordPosition = RecordPosition { segment: u32::MAX, offset: u32::MAX };
        self.seed_known_from.unwrap_or(EVERYWHERE)
    }

    fn note(&mut self, position: RecordPosition, head: RecordHead<'_>) {
        match head {
            RecordHead::Put(put) => {
                self.puts += 1;
                self.totals.count_put(put.cause);
                self.records.extend(put.replaces.map(RecordPosition::to_u64));
                if !put.features.is_empty() && put.cause == Cause::Pushed {
                    self.batches.note_push(put.features);
                }
                if self.any_hidden {
                    self.show(&put);
                }
            }
            RecordHead::Remove { gone, position, batch } => {
                self.totals.count_gone(gone);
                self.records.push(position.to_u64());
                if let Some(batch) = batch {
                    self.batches.note_end(batch, gone);
                }
            }
            RecordHead::QueueDefined { queue, name } => {
                let name = name.to_owned();
                let facts = QueueFacts { number: queue, name, paused: false, hidden: false };
                self.queues.insert(queue, facts);
            }
            RecordHead::QueuePaused { queue } => self.change(queue, |facts| facts.paused = true),
            RecordHead::QueueResumed { queue } => self.change(queue, |facts| facts.paused = false),
            RecordHead::QueueHidden { queue } => {
                self.any_hidden = true;
                self.change(queue, |facts| {
                    facts.hidden = true;
                    facts.paused = false;
                });
            }
            RecordHead::QueueForgotten { queue } => {
                self.clear(queue, position, Vec::new());
                self.queues.remove(&queue);
            }
            RecordHead::SetCleared { set } => self.cleared.sets[set as usize] = Some(position),
            RecordHead::Flushed => {
                self.cleared.flushed = Some(position);
                self.queues.clear();
                self.kept.clear();
                self.reservations.clear();
                self.batches.totals.clear();
                self.totals = EngineTotals::default();
            }
            RecordHead::Kept { key } if key.kind == KeptKind::Reservation => {
                self.reservations.insert(key.key, position);
            }
            RecordHead::Kept { key } => drop(self.kept.insert(key, position)),
            RecordHead::Snapshot
            | RecordHead::QueueCleared { .. }
            | RecordHead::Closed
            | RecordHead::Opened => {}
        }
    }

    /// Records that a queue was cleared. Jobs that an earlier clearing ended remain ended: of
    /// `kept`, only those that it kept are retained.
    fn clear(&mut self, queue: u16, at: RecordPosition, mut kept: Vec<RecordPosition>) {
        kept.sort_unstable();
        if let Some(before) = self.cleared.queues.get(&queue) {
            kept.retain(|position| !before.ends(*position));
        }
        self.cleared.queues.insert(queue, Cleared { at, kept });
    }

    /// Shows a removed queue again after a push, or when a job starts to wait in it.
    fn show(&mut self, put: &Put<'_>) {
        let comes_to_wait = put.stored == StoredPlace::Queue && put.cause != Cause::Copied;
        if put.cause == Cause::Pushed || comes_to_wait {
            self.change(put.queue, |facts| facts.hidden = false);
        }
    }

    fn change(&mut self, queue: u16, change: impl FnOnce(&mut QueueFacts)) {
        if let Some(facts) = self.queues.get_mut(&queue) {
            change(facts);
        }
    }
}

impl BatchFacts {
    fn note_push(&mut self, features: &[u8]) {
        // The second pass reports a malformed head.
        let Ok(features) = head_features::read(features) else { return };
        if let Some(member) = features.batch {
            self.totals.entry(member.batch).or_default().pushed += 1;
        }
        if let Some(CronRun { key, at }) = features.cron {
            let last = self.cron_runs.entry(key).or_default();
            *last = at.max(*last);
        }
        if let Some(CallbackJob { batch, kind }) = features.callback {
            self.callbacks.entry((batch, kind)).or_insert(CallbackState::Enqueued);
        }
    }

    fn note_end(&mut self, job: BatchJob, gone: RemovalReason) {
        match job {
            BatchJob::Member(id) if gone != RemovalReason::Acked => {
                self.totals.entry(id).or_default().lost += 1;
            }
            BatchJob::Callback(id, kind) if gone == RemovalReason::Acked => {
                self.callbacks.insert((id, kind), CallbackState::Done);
            }
            BatchJob::Member(_) | BatchJob::Callback(..) => {}
        }
    }
}

impl EngineTotals {
    pub(crate) const fn count_put(&mut self, cause: Cause) {
        match cause {
            Cause::Pushed => self.pushed += 1,
            Cause::Failed => {
                self.processed += 1;
                self.failed += 1;
            }
            Cause::Moved | Cause::Copied => {}
        }
    }

    pub(crate) const fn count_gone(&mut self, gone: RemovalReason) {
        match gone {
            RemovalReason::Acked => self.processed += 1,
            RemovalReason::FailedForGood => {
                self.processed += 1;
                self.failed += 1;
            }
            RemovalReason::Deleted => {}
        }
    }
}

/// Reads the body of a record other than a job's. Returns `None` if it is damaged; the damage is
/// recorded and the content is lost.
fn read_noted<'b, D: Disk>(
    log: &SegmentLog<D>,
    reader: &RecordReader<D>,
    position: RecordPosition,
    buffer: &'b mut Vec<u8>,
) -> Result<Option<&'b [u8]>, RecoverError> {
    match reader.read(position, buffer) {
        Ok(parts) => Ok(Some(&buffer[parts.body])),
        Err(RecordError::Damaged { why, .. }) => {
            log.damages().note(position, why);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn walk<D: Disk>(
    log: &SegmentLog<D>,
    mut visit: impl FnMut(RecordPosition, RecordHead<'_>) -> Result<(), RecoverError>,
) -> Result<(), RecoverError> {
    for segment in log.segments() {
        let mut result = Ok(());
        log.heads(segment.number, &mut |found| {
            if result.is_ok() {
                result = match RecordHead::read(found.head) {
                    Ok(head) => visit(found.position, head),
                    Err(_) => Err(unknown(found.position)),
                };
            }
        })?;
        result?;
    }
    Ok(())
}

const fn unknown(position: RecordPosition) -> RecoverError {
    RecoverError::Unknown { segment: position.segment, offset: position.offset }
}

/// Sets are indexed by their discriminants.
const _: () = assert!(SetName::Scheduled as usize == 0 && SetName::Dead as usize == 2);
