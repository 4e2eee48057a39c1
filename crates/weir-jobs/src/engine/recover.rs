//! Rebuilds the state in memory from the heads of the log's records.
//!
//! This takes two passes. The first collects what has ended: records that were replaced or removed
//! (sorted, since there may be millions), queues and sets that were cleared, and the last state of
//! each queue. The second adds every job whose record is still valid, in log order.

use std::collections::HashMap;

use weir_log::{Disk, RecordError, RecordPosition, RecordReader, SegmentLog};

use super::head::{Cause, Put, RecordHead, RemovalReason, StoredPlace, read_positions};
use super::rebuild::Rebuild;
use super::snapshot::{EngineSnapshot, EngineTotals, QueueFacts};
use super::state::{EngineState, NewEntry};
use crate::metrics::JobsMetrics;
use crate::model::{QueueName, SetName};
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
    /// Jobs waiting in the queue before this position are gone, except those that were reserved.
    queues_cleared: HashMap<u16, Cleared, foldhash::fast::RandomState>,
    sets_cleared: [Option<RecordPosition>; 3],
    flushed: Option<RecordPosition>,
    queues: HashMap<u16, QueueFacts>,
    /// Whether a queue may be hidden. In most logs none is, so job records need no check.
    any_hidden: bool,
    totals: EngineTotals,
    seed: Option<u64>,
    /// The position of the first readable snapshot. The seed of the records before it is unknown.
    seed_known_from: Option<RecordPosition>,
    next_order: u64,
}

/// The clearing of a queue.
#[derive(Debug)]
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

/// Rebuilds the state from `log`.
pub(crate) fn recover<D: Disk>(
    log: &SegmentLog<D>,
    metrics: JobsMetrics,
    limits: &JobServerLimits,
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
    state.next_order = ended.next_order;
    state.index.reserve(ended.puts.saturating_sub(ended.records.len()), &state.arena);
    let mut filter = Survivors { ended: &ended, next_ended: 0 };
    let mut unindexed = Vec::new();
    let mut rebuild = Rebuild::new(log.reader(), ended.hashes_unknown_before());
    walk(log, |position, head| {
        if let RecordHead::Put(mut put) = head {
            state.next_order = state.next_order.max(put.order_floor());
            if filter.counts(position, &put) {
                rebuild.complete(position, &mut put, &mut state);
                let job = state.insert_unindexed(entry(position, &put));
                unindexed.push((put.hash, job));
            }
            if unindexed.len() == INDEX_BATCH_JOBS {
                state.index_all(&mut unindexed);
            }
        }
        Ok(())
    })?;
    state.index_all(&mut unindexed);
    state.queues.forget_removed();
    Ok(state)
}

impl Put {
    /// Returns the least value for `next_order`. Orders in queues are assigned in sequence; those
    /// in sets are times.
    const fn order_floor(&self) -> u64 {
        match self.stored {
            StoredPlace::Queue => self.order + 1,
            StoredPlace::Set(_) => 0,
        }
    }
}

fn entry(position: RecordPosition, put: &Put) -> NewEntry {
    let rest = put.stored.rest();
    NewEntry { position, order: put.order, hash: put.hash, queue: put.queue, rest }
}

/// Decides which records of the second pass are valid. Positions must be ascending.
struct Survivors<'a> {
    ended: &'a FirstPass,
    next_ended: usize,
}

impl Survivors<'_> {
    fn counts(&mut self, position: RecordPosition, put: &Put) -> bool {
        let packed = position.to_u64();
        let ended = &self.ended.records;
        while ended.get(self.next_ended).is_some_and(|ended| *ended < packed) {
            self.next_ended += 1;
        }
        if ended.get(self.next_ended) == Some(&packed) {
            return false;
        }
        let emptied = match put.stored {
            StoredPlace::Queue => {
                let cleared = self.ended.queues_cleared.get(&put.queue);
                cleared.is_some_and(|cleared| cleared.ends(position))
            }
            StoredPlace::Set(set) => self.ended.sets_cleared[set as usize] > Some(position),
        };
        !emptied && self.ended.flushed <= Some(position)
    }
}

impl FirstPass {
    fn read<D: Disk>(log: &SegmentLog<D>) -> Result<Self, RecoverError> {
        let mut ended = Self { next_order: 1, ..Self::default() };
        let reader = log.reader();
        let mut buffer = Vec::new();
        walk(log, |position, head| {
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
                if self.any_hidden {
                    self.show(&put);
                }
            }
            RecordHead::Remove { gone, position } => {
                self.totals.count_gone(gone);
                self.records.push(position.to_u64());
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
            RecordHead::SetCleared { set } => self.sets_cleared[set as usize] = Some(position),
            RecordHead::Flushed => {
                self.flushed = Some(position);
                self.queues.clear();
                self.totals = EngineTotals::default();
            }
            RecordHead::Snapshot | RecordHead::QueueCleared { .. } => {}
        }
    }

    /// Records that a queue was cleared. Jobs that an earlier clearing ended remain ended: of
    /// `kept`, only those that it kept are retained.
    fn clear(&mut self, queue: u16, at: RecordPosition, mut kept: Vec<RecordPosition>) {
        kept.sort_unstable();
        if let Some(before) = self.queues_cleared.get(&queue) {
            kept.retain(|position| !before.ends(*position));
        }
        self.queues_cleared.insert(queue, Cleared { at, kept });
    }

    /// Shows a removed queue again after a push, or when a job starts to wait in it.
    fn show(&mut self, put: &Put) {
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
