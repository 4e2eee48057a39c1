//! The head of a log record: the few bytes from which a restart rebuilds the state in memory. The
//! footer of a sealed segment repeats the heads, so a restart reads no bodies of jobs.
//!
//! Every live job has exactly one valid record, a [`RecordHead::Put`]. It ends with a later record:
//! one that replaces it (`replaces`), a [`RecordHead::Remove`], or one that clears its whole queue
//! or set.

use weir_log::RecordPosition;

use super::head_features::{self, BatchJob};
use super::kept_key::{KeptKey, KeptKind};
use super::varint::{self, FieldReader, Malformed};
use crate::model::SetName;

/// Why a `Put` was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A client pushed the job.
    Pushed,
    /// The job failed.
    Failed,
    /// The job was due, or an operator moved it.
    Moved,
    /// Compaction: only the position in the log is new.
    Copied,
}

/// Why a job was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// It was acknowledged.
    Acked,
    /// It failed and has no retries (`retry = 0`).
    FailedForGood,
    /// An operator or a limit deleted it.
    Deleted,
}

/// The queue or set of a stored job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredPlace {
    /// Waiting or reserved: reservations are not stored.
    Queue,
    Set(SetName),
}

/// The head of a job's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put<'a> {
    pub(crate) cause: Cause,
    pub(crate) stored: StoredPlace,
    pub(crate) queue: u16,
    /// Microseconds; see [`super::arena::ArenaEntry::order`].
    pub(crate) order: u64,
    pub(crate) hash: u32,
    /// The record that this one replaces.
    pub(crate) replaces: Option<RecordPosition>,
    /// The job's features; see [`super::head_features`]. Empty for almost all jobs.
    pub(crate) features: &'a [u8],
}

/// The head of any record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordHead<'a> {
    Put(Put<'a>),
    Remove {
        gone: RemovalReason,
        position: RecordPosition,
        /// The batch that the job belonged to.
        batch: Option<BatchJob>,
    },
    /// The first record of a segment; its body is a [`super::snapshot::EngineSnapshot`].
    Snapshot,
    QueueDefined {
        queue: u16,
        name: &'a str,
    },
    QueuePaused {
        queue: u16,
    },
    QueueResumed {
        queue: u16,
    },
    /// All waiting jobs of the queue were deleted. The body lists the records that remain (those of
    /// reserved jobs): see [`write_positions`].
    QueueCleared {
        queue: u16,
    },
    /// The queue itself was deleted; its number may be reused.
    QueueForgotten {
        queue: u16,
    },
    /// The queue was removed while it had jobs that were reserved or in sets. It becomes visible
    /// again once a job waits in it.
    QueueHidden {
        queue: u16,
    },
    /// All jobs of the set were deleted.
    SetCleared {
        set: SetName,
    },
    /// All jobs and queues were deleted.
    Flushed,
    /// The state of something that is no job, in the body. It replaces earlier ones of the key.
    Kept {
        key: KeptKey,
    },
    /// The store was closed, and every reservation is in the log. The body says until when other jobs were presumed to
    /// run, if they were. Says nothing if other records follow. Since version 5 of the log.
    Closed,
    /// The store was opened: it is no longer closed. Since version 5 of the log.
    Opened,
}

const PUT: u8 = 0x80;
/// Part of the tag of a `Put` whose head ends with features. Since version 3 of the log.
const FEATURES: u8 = 0x20;
const REPLACES: u8 = 0x10;
const REMOVE: u8 = 0x40;
/// Part of the tag of a `Remove` whose head ends with the job's batch. Since version 3 of the log.
const OF_BATCH: u8 = 0x20;
/// Stands for a member of a batch in place of a callback's kind.
const MEMBER: u8 = 0;

impl RecordHead<'_> {
    /// Appends the bytes of the head.
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Put(put) => put.write(into),
            Self::Remove { gone, position, batch } => {
                let of_batch = if batch.is_some() { OF_BATCH } else { 0 };
                into.push(REMOVE | of_batch | gone.code());
                put_position(into, *position);
                match batch {
                    None => {}
                    Some(BatchJob::Member(id)) => {
                        into.push(MEMBER);
                        into.extend_from_slice(&id.0.to_le_bytes());
                    }
                    Some(BatchJob::Callback(id, kind)) => {
                        head_features::put_callback(*id, *kind, into);
                    }
                }
            }
            Self::Snapshot => into.push(1),
            Self::QueueDefined { queue, name } => {
                tagged(into, 2, *queue);
                varint::put_text(into, name);
            }
            Self::QueuePaused { queue } => tagged(into, 3, *queue),
            Self::QueueResumed { queue } => tagged(into, 4, *queue),
            Self::QueueCleared { queue } => tagged(into, 5, *queue),
            Self::QueueForgotten { queue } => tagged(into, 6, *queue),
            Self::SetCleared { set } => into.extend_from_slice(&[7, set_code(*set)]),
            Self::Flushed => into.push(8),
            Self::QueueHidden { queue } => tagged(into, 9, *queue),
            Self::Kept { key } => {
                into.extend_from_slice(&[10, key.kind.code()]);
                into.extend_from_slice(&key.key.to_le_bytes());
            }
            Self::Closed => into.push(11),
            Self::Opened => into.push(12),
        }
    }
}

fn tagged(into: &mut Vec<u8>, tag: u8, queue: u16) {
    into.push(tag);
    varint::put(into, u64::from(queue));
}

impl<'a> RecordHead<'a> {
    /// Parses a head.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = FieldReader(bytes);
        let tag = fields.byte()?;
        if tag & PUT != 0 {
            return Put::read(tag, &mut fields).map(Self::Put);
        }
        if tag & REMOVE != 0 {
            let gone = RemovalReason::from_code(tag & !(REMOVE | OF_BATCH))?;
            let position = read_position(&mut fields)?;
            let batch = (tag & OF_BATCH != 0).then(|| read_batch_job(&mut fields)).transpose()?;
            return Ok(Self::Remove { gone, position, batch });
        }
        Ok(match tag {
            1 => Self::Snapshot,
            2 => Self::QueueDefined { queue: fields.narrow()?, name: fields.text()? },
            3 => Self::QueuePaused { queue: fields.narrow()? },
            4 => Self::QueueResumed { queue: fields.narrow()? },
            5 => Self::QueueCleared { queue: fields.narrow()? },
            6 => Self::QueueForgotten { queue: fields.narrow()? },
            7 => Self::SetCleared { set: set_from(fields.byte()?)? },
            8 => Self::Flushed,
            9 => Self::QueueHidden { queue: fields.narrow()? },
            10 => Self::Kept { key: read_key(&mut fields)? },
            11 => Self::Closed,
            12 => Self::Opened,
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Put<'a> {
    fn write(&self, into: &mut Vec<u8>) {
        let replaces = if self.replaces.is_some() { REPLACES } else { 0 };
        let features = if self.features.is_empty() { 0 } else { FEATURES };
        into.push(PUT | features | replaces | (self.stored.code() << 2) | self.cause.code());
        varint::put(into, u64::from(self.queue));
        varint::put(into, self.order);
        into.extend_from_slice(&self.hash.to_le_bytes());
        if let Some(position) = self.replaces {
            put_position(into, position);
        }
        into.extend_from_slice(self.features);
    }

    fn read(tag: u8, fields: &mut FieldReader<'a>) -> Result<Self, Malformed> {
        let queue = fields.narrow()?;
        let order = fields.number()?;
        let hash = fields.bytes(4)?.try_into().map_err(|_| Malformed)?;
        let replaces = if tag & REPLACES == 0 { None } else { Some(read_position(fields)?) };
        let features: &[u8] = match tag & FEATURES {
            0 => &[],
            _ if fields.0.is_empty() => return Err(Malformed),
            _ => fields.0,
        };
        Ok(Self {
            cause: Cause::from_code(tag & 3),
            stored: StoredPlace::from_code((tag >> 2) & 3),
            queue,
            order,
            hash: u32::from_le_bytes(hash),
            replaces,
            features,
        })
    }
}

impl Cause {
    const fn code(self) -> u8 {
        match self {
            Self::Pushed => 0,
            Self::Failed => 1,
            Self::Moved => 2,
            Self::Copied => 3,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Pushed,
            1 => Self::Failed,
            2 => Self::Moved,
            _ => Self::Copied,
        }
    }
}

impl StoredPlace {
    const fn code(self) -> u8 {
        match self {
            Self::Queue => 0,
            Self::Set(set) => set_code(set),
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Queue,
            1 => Self::Set(SetName::Scheduled),
            2 => Self::Set(SetName::Retries),
            _ => Self::Set(SetName::Dead),
        }
    }
}

impl RemovalReason {
    const fn code(self) -> u8 {
        match self {
            Self::Acked => 0,
            Self::FailedForGood => 1,
            Self::Deleted => 2,
        }
    }

    const fn from_code(code: u8) -> Result<Self, Malformed> {
        match code {
            0 => Ok(Self::Acked),
            1 => Ok(Self::FailedForGood),
            2 => Ok(Self::Deleted),
            _ => Err(Malformed),
        }
    }
}

const fn set_code(set: SetName) -> u8 {
    match set {
        SetName::Scheduled => 1,
        SetName::Retries => 2,
        SetName::Dead => 3,
    }
}

const fn set_from(code: u8) -> Result<SetName, Malformed> {
    match code {
        1 => Ok(SetName::Scheduled),
        2 => Ok(SetName::Retries),
        3 => Ok(SetName::Dead),
        _ => Err(Malformed),
    }
}

fn read_batch_job(fields: &mut FieldReader<'_>) -> Result<BatchJob, Malformed> {
    let code = fields.byte()?;
    let id = head_features::batch_id(fields)?;
    match code {
        MEMBER => Ok(BatchJob::Member(id)),
        code => head_features::callback_kind(code).map(|kind| BatchJob::Callback(id, kind)),
    }
}

fn read_key(fields: &mut FieldReader<'_>) -> Result<KeptKey, Malformed> {
    let kind = KeptKind::from_code(fields.byte()?).ok_or(Malformed)?;
    let key = fields.bytes(8)?.try_into().map_err(|_| Malformed)?;
    Ok(KeptKey { kind, key: u64::from_le_bytes(key) })
}

/// Appends a list of record positions.
pub(crate) fn write_positions(into: &mut Vec<u8>, positions: &[RecordPosition]) {
    varint::put(into, positions.len() as u64);
    for position in positions {
        put_position(into, *position);
    }
}

/// Parses what [`write_positions`] wrote.
pub(crate) fn read_positions(bytes: &[u8]) -> Result<Vec<RecordPosition>, Malformed> {
    let mut fields = FieldReader(bytes);
    let count = fields.number()?;
    (0..count).map(|_| read_position(&mut fields)).collect()
}

fn put_position(into: &mut Vec<u8>, position: RecordPosition) {
    varint::put(into, u64::from(position.segment));
    varint::put(into, u64::from(position.offset));
}

fn read_position(fields: &mut FieldReader<'_>) -> Result<RecordPosition, Malformed> {
    Ok(RecordPosition { segment: fields.narrow()?, offset: fields.narrow()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batches::CallbackKind;
    use crate::custom::BatchId;
    use proptest::prelude::*;

    fn position() -> impl Strategy<Value = RecordPosition> {
        (any::<u32>(), any::<u32>())
            .prop_map(|(segment, offset)| RecordPosition { segment, offset })
    }

    fn put() -> impl Strategy<Value = RecordHead<'static>> {
        let codes = (0..4u8, 0..4u8);
        (codes, any::<u16>(), any::<u64>(), any::<u32>(), proptest::option::of(position()))
            .prop_map(|((cause, stored), queue, order, hash, replaces)| {
                let (cause, stored) = (Cause::from_code(cause), StoredPlace::from_code(stored));
                let features: &[u8] = if hash % 2 == 0 { b"" } else { b"features" };
                RecordHead::Put(Put { cause, stored, queue, order, hash, replaces, features })
            })
    }

    fn head() -> impl Strategy<Value = RecordHead<'static>> {
        let gone = (0..3u8).prop_map(|code| RemovalReason::from_code(code).unwrap());
        let set = (1..4u8).prop_map(|code| set_from(code).unwrap());
        prop_oneof![
            put(),
            (gone, position(), proptest::option::of((0..3u8, any::<u64>()))).prop_map(
                |(gone, position, batch)| {
                    let batch = batch.map(|(code, id)| match code {
                        0 => BatchJob::Member(BatchId(id)),
                        1 => BatchJob::Callback(BatchId(id), CallbackKind::Complete),
                        _ => BatchJob::Callback(BatchId(id), CallbackKind::Success),
                    });
                    RecordHead::Remove { gone, position, batch }
                }
            ),
            Just(RecordHead::Snapshot),
            any::<u16>().prop_map(|queue| RecordHead::QueueDefined { queue, name: "mailers" }),
            any::<u16>().prop_map(|queue| RecordHead::QueuePaused { queue }),
            any::<u16>().prop_map(|queue| RecordHead::QueueResumed { queue }),
            any::<u16>().prop_map(|queue| RecordHead::QueueCleared { queue }),
            any::<u16>().prop_map(|queue| RecordHead::QueueForgotten { queue }),
            any::<u16>().prop_map(|queue| RecordHead::QueueHidden { queue }),
            set.prop_map(|set| RecordHead::SetCleared { set }),
            Just(RecordHead::Flushed),
            Just(RecordHead::Closed),
            Just(RecordHead::Opened),
            any::<u64>()
                .prop_map(|key| RecordHead::Kept { key: KeptKey { kind: KeptKind::Track, key } }),
        ]
    }

    proptest! {
        #[test]
        fn a_head_comes_back(head in head()) {
            let mut bytes = Vec::new();
            head.write(&mut bytes);
            prop_assert_eq!(RecordHead::read(&bytes), Ok(head));
            for cut in 0..bytes.len() {
                prop_assert!(RecordHead::read(&bytes[..cut]) != Ok(head));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = RecordHead::read(&bytes);
        }
    }
}
