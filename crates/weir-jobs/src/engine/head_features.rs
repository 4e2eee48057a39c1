//! The features of a job in the head of its record, so that a restart restores them without reading
//! the record's body.

use weir_base::clock::Timestamp;

use super::varint::{self, FieldReader, Malformed};
use crate::batches::CallbackKind;
use crate::custom::{BatchId, UniqueKey};
use crate::features::{BatchMember, CallbackJob, CronRun, JobFeatures, JobLock};
use crate::model::WorkerKills;

const EXPIRES: u8 = 1;
const LOCK: u8 = 2;
const LOCK_ENDS_AT_START: u8 = 4;
const TRACKED: u8 = 8;
const BATCH: u8 = 16;
const BATCH_FAILED: u8 = 32;
const CALLBACK: u8 = 64;
const CRON: u8 = 128;

/// What the record of a job's removal says for its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchJob {
    Member(BatchId),
    Callback(BatchId, CallbackKind),
}

impl BatchJob {
    /// Returns what the removal of a job with these features says.
    pub(crate) fn of(features: &JobFeatures) -> Option<Self> {
        match (features.batch, features.callback) {
            (_, Some(callback)) => Some(Self::Callback(callback.batch, callback.kind)),
            (Some(member), None) => Some(Self::Member(member.batch)),
            (None, None) => None,
        }
    }
}

/// Appends the features. Nothing for a job that has none.
pub(crate) fn write(features: &JobFeatures, into: &mut Vec<u8>) {
    if features.is_empty() {
        return;
    }
    let ends_at_start = features.lock.is_some_and(|lock| lock.ends_at_start);
    let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
    into.push(
        flag(EXPIRES, features.expires_at.is_some())
            | flag(LOCK, features.lock.is_some())
            | flag(LOCK_ENDS_AT_START, ends_at_start)
            | flag(TRACKED, features.tracked)
            | flag(BATCH, features.batch.is_some())
            | flag(BATCH_FAILED, features.batch.is_some_and(|member| member.has_failed))
            | flag(CALLBACK, features.callback.is_some())
            | flag(CRON, features.cron.is_some()),
    );
    if let Some(expires_at) = features.expires_at {
        varint::put(into, expires_at.as_micros());
    }
    if let Some(lock) = features.lock {
        into.extend_from_slice(&lock.key.0.to_le_bytes());
        varint::put(into, lock.until.as_micros());
    }
    if let Some(member) = features.batch {
        into.extend_from_slice(&member.batch.0.to_le_bytes());
    }
    if let Some(callback) = features.callback {
        put_callback(callback.batch, callback.kind, into);
    }
    if let Some(run) = features.cron {
        into.extend_from_slice(&run.key.to_le_bytes());
        varint::put(into, run.at.as_micros());
    }
    // Since version 5 of the log. All flags are in use, so that the last fields need none.
    if let Some(kills) = features.kills {
        into.push(kills.times);
        varint::put(into, kills.since.as_micros());
    }
}

/// Appends a callback of a batch.
pub(super) fn put_callback(batch: BatchId, kind: CallbackKind, into: &mut Vec<u8>) {
    into.push(match kind {
        CallbackKind::Complete => 1,
        CallbackKind::Success => 2,
    });
    into.extend_from_slice(&batch.0.to_le_bytes());
}

/// Parses the kind of a callback.
pub(super) const fn callback_kind(code: u8) -> Result<CallbackKind, Malformed> {
    match code {
        1 => Ok(CallbackKind::Complete),
        2 => Ok(CallbackKind::Success),
        _ => Err(Malformed),
    }
}

/// Parses the id of a batch.
pub(super) fn batch_id(fields: &mut FieldReader<'_>) -> Result<BatchId, Malformed> {
    let bytes = fields.bytes(8)?.try_into().map_err(|_| Malformed)?;
    Ok(BatchId(u64::from_le_bytes(bytes)))
}

/// Parses what [`write`] wrote.
pub(crate) fn read(bytes: &[u8]) -> Result<JobFeatures, Malformed> {
    let mut features = JobFeatures::default();
    if bytes.is_empty() {
        return Ok(features);
    }
    let mut fields = FieldReader(bytes);
    let flags = fields.byte()?;
    features.tracked = flags & TRACKED != 0;
    if flags & EXPIRES != 0 {
        features.expires_at = Some(time(&mut fields)?);
    }
    if flags & LOCK != 0 {
        let key = fields.bytes(16)?.try_into().map_err(|_| Malformed)?;
        features.lock = Some(JobLock {
            key: UniqueKey(u128::from_le_bytes(key)),
            until: time(&mut fields)?,
            ends_at_start: flags & LOCK_ENDS_AT_START != 0,
        });
    }
    if flags & BATCH != 0 {
        let has_failed = flags & BATCH_FAILED != 0;
        features.batch = Some(BatchMember { batch: batch_id(&mut fields)?, has_failed });
    }
    if flags & CALLBACK != 0 {
        let kind = callback_kind(fields.byte()?)?;
        features.callback = Some(CallbackJob { batch: batch_id(&mut fields)?, kind });
    }
    if flags & CRON != 0 {
        let key = fields.bytes(8)?.try_into().map_err(|_| Malformed)?;
        features.cron = Some(CronRun { key: u64::from_le_bytes(key), at: time(&mut fields)? });
    }
    if !fields.0.is_empty() {
        features.kills = Some(WorkerKills { times: fields.byte()?, since: time(&mut fields)? });
    }
    if fields.0.is_empty() { Ok(features) } else { Err(Malformed) }
}

fn time(fields: &mut FieldReader<'_>) -> Result<Timestamp, Malformed> {
    fields.number().map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn features() -> impl Strategy<Value = JobFeatures> {
        let time = || any::<u64>().prop_map(Timestamp::from_micros);
        let lock = (any::<u128>(), time(), any::<bool>()).prop_map(|(key, until, start)| JobLock {
            key: UniqueKey(key),
            until,
            ends_at_start: start,
        });
        let batch = (any::<u64>(), any::<bool>())
            .prop_map(|(id, has_failed)| BatchMember { batch: BatchId(id), has_failed });
        let callback = (any::<u64>(), 1..3_u8).prop_map(|(id, kind)| CallbackJob {
            batch: BatchId(id),
            kind: callback_kind(kind).unwrap(),
        });
        let cron = (any::<u64>(), time()).prop_map(|(key, at)| CronRun { key, at });
        let kills = (any::<u8>(), time()).prop_map(|(times, since)| WorkerKills { times, since });
        let batch = (option::of(batch), option::of(callback), option::of(cron), option::of(kills));
        (option::of(time()), option::of(lock), any::<bool>(), batch).prop_map(
            |(expires_at, lock, tracked, (batch, callback, cron, kills))| JobFeatures {
                expires_at,
                lock,
                tracked,
                batch,
                callback,
                cron,
                kills,
            },
        )
    }

    proptest! {
        #[test]
        fn features_come_back(features in features()) {
            let mut bytes = Vec::new();
            write(&features, &mut bytes);
            prop_assert_eq!(bytes.is_empty(), features.is_empty());
            prop_assert_eq!(read(&bytes), Ok(features));
            // Without the kills, the rest is what an older version wrote.
            let older = JobFeatures { kills: None, ..features };
            for cut in 1..bytes.len() {
                let found = read(&bytes[..cut]);
                let is_older = features.kills.is_some() && found == Ok(older);
                prop_assert!(found == Err(Malformed) || is_older, "{:?}", found);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
