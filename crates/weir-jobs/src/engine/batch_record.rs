//! The kept record of a batch: its definition and its progress. The counts of its jobs are those of
//! their records, and in snapshots.

use weir_base::clock::Timestamp;

use super::kept_key::{KeptKey, KeptKind};
use super::state::EngineState;
use super::varint::{self, FieldReader, Malformed};
use crate::batches::{BatchDefinition, BatchProgress, BatchTotals, CallbackState};
use crate::custom::BatchId;

const COMMITTED: u8 = 1;
const COMPLETE_SHIFT: u8 = 1;
const SUCCESS_SHIFT: u8 = 3;
/// The record ends with the jobs that had ended when the batch was imported.
const IMPORTED: u8 = 32;

pub(crate) const fn key_of(id: BatchId) -> KeptKey {
    KeptKey { kind: KeptKind::Batch, key: id.0 }
}

/// Appends the body of a batch's record.
pub(crate) fn write(definition: &BatchDefinition, progress: &BatchProgress, into: &mut Vec<u8>) {
    varint::put(into, definition.parent.map_or(0, |parent| parent.0));
    varint::put(into, progress.created_at.as_micros());
    varint::put(into, progress.expires_at.as_micros());
    let committed = if progress.committed { COMMITTED } else { 0 };
    let is_imported = progress.imported != BatchTotals::default();
    let imported = if is_imported { IMPORTED } else { 0 };
    into.push(
        committed
            | imported
            | code(progress.complete) << COMPLETE_SHIFT
            | code(progress.success) << SUCCESS_SHIFT,
    );
    varint::put_text(into, &definition.description);
    for callback in [&definition.complete, &definition.success] {
        let json = callback.as_deref().unwrap_or_default();
        varint::put(into, json.len() as u64);
        into.extend_from_slice(json);
    }
    if is_imported {
        varint::put(into, progress.imported.pushed);
        varint::put(into, progress.imported.lost);
    }
}

/// Parses what [`write`] wrote.
pub(crate) fn read(body: &[u8]) -> Result<(BatchDefinition, BatchProgress), Malformed> {
    let mut fields = FieldReader(body);
    let parent = Some(fields.number()?).filter(|parent| *parent != 0).map(BatchId);
    let created_at = Timestamp::from_micros(fields.number()?);
    let expires_at = Timestamp::from_micros(fields.number()?);
    let flags = fields.byte()?;
    let mut progress = BatchProgress {
        created_at,
        expires_at,
        committed: flags & COMMITTED != 0,
        complete: state(flags >> COMPLETE_SHIFT),
        success: state(flags >> SUCCESS_SHIFT),
        imported: BatchTotals::default(),
    };
    let description = fields.text()?.to_owned();
    let mut callback = || {
        let bytes = fields.narrow()?;
        let json = fields.bytes(bytes)?;
        Ok((!json.is_empty()).then(|| json.to_vec()))
    };
    let (complete, success) = (callback()?, callback()?);
    if flags & IMPORTED != 0 {
        progress.imported = BatchTotals { pushed: fields.number()?, lost: fields.number()? };
    }
    Ok((BatchDefinition { parent, description, complete, success }, progress))
}

const fn code(state: CallbackState) -> u8 {
    match state {
        CallbackState::Absent => 0,
        CallbackState::Pending => 1,
        CallbackState::Enqueued => 2,
        CallbackState::Done => 3,
    }
}

const fn state(code: u8) -> CallbackState {
    match code & 3 {
        0 => CallbackState::Absent,
        1 => CallbackState::Pending,
        2 => CallbackState::Enqueued,
        _ => CallbackState::Done,
    }
}

impl EngineState {
    /// Restores a batch from its record.
    pub(crate) fn restore_batch(
        &mut self,
        id: BatchId,
        body: &[u8],
        totals: BatchTotals,
    ) -> Result<(), Malformed> {
        let (definition, progress) = read(body)?;
        self.features.batches.insert(id, definition, progress, totals);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_batch_comes_back(
            parent in option::of(1..u64::MAX), description: String, times: (u64, u64),
            committed: bool, imported: (u64, u64), codes in (0..4_u8, 0..4_u8),
            complete in option::of(prop::collection::vec(any::<u8>(), 1..9)),
            success in option::of(prop::collection::vec(any::<u8>(), 1..9)),
        ) {
            let parent = parent.map(BatchId);
            let definition = BatchDefinition { parent, description, complete, success };
            let progress = BatchProgress {
                created_at: Timestamp::from_micros(times.0),
                expires_at: Timestamp::from_micros(times.1),
                committed,
                complete: state(codes.0),
                success: state(codes.1),
                imported: BatchTotals { pushed: imported.0, lost: imported.1 },
            };
            let mut body = Vec::new();
            write(&definition, &progress, &mut body);
            prop_assert_eq!(read(&body), Ok((definition, progress)));
            for cut in 0..body.len() {
                prop_assert!(read(&body[..cut]).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
