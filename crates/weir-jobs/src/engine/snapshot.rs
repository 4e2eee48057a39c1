//! The small state that must outlive its records: counters, queues, the hash seed. It is written at
//! the start of every segment, so that deleting old segments loses nothing.

use super::head_features;
use super::varint::{self, FieldReader, Malformed};
use crate::batches::BatchTotals;
use crate::custom::BatchId;

/// Totals since the log was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineTotals {
    pub(crate) pushed: u64,
    /// Jobs that finished, including failed ones.
    pub(crate) processed: u64,
    pub(crate) failed: u64,
}

/// The state of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueFacts {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) paused: bool,
    /// See [`super::queues::EngineQueue::hidden`].
    pub(crate) hidden: bool,
}

/// Stands for a batch, in place of an id, if jobs of cleared queues or sets are not counted yet.
const CLEARING: BatchId = BatchId::NONE;

const PAUSED: u8 = 1;
const HIDDEN: u8 = 2;

/// The body of a [`super::head::RecordHead::Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineSnapshot {
    /// The seed of the jid hashes in this log.
    pub(crate) seed: u64,
    /// Greater than every order assigned so far.
    pub(crate) next_order: u64,
    pub(crate) totals: EngineTotals,
    pub(crate) queues: Vec<QueueFacts>,
    /// Counts of the batches' jobs; since version 3 of the log.
    pub(crate) batches: Vec<(BatchId, BatchTotals)>,
    /// Jobs of cleared queues or sets are not counted yet in `batches`.
    pub(crate) is_clearing: bool,
}

impl EngineSnapshot {
    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.seed.to_le_bytes());
        for number in [
            self.next_order,
            self.totals.pushed,
            self.totals.processed,
            self.totals.failed,
            self.queues.len() as u64,
        ] {
            varint::put(into, number);
        }
        for queue in &self.queues {
            varint::put(into, u64::from(queue.number));
            let paused = if queue.paused { PAUSED } else { 0 };
            let hidden = if queue.hidden { HIDDEN } else { 0 };
            into.push(paused | hidden);
            varint::put_text(into, &queue.name);
        }
        let clearing = self.is_clearing.then_some((CLEARING, BatchTotals::default()));
        for (id, totals) in self.batches.iter().chain(&clearing) {
            into.extend_from_slice(&id.0.to_le_bytes());
            varint::put(into, totals.pushed);
            varint::put(into, totals.lost);
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = FieldReader(bytes);
        let seed = fields.bytes(8)?.try_into().map_err(|_| Malformed)?;
        let mut snapshot = Self {
            seed: u64::from_le_bytes(seed),
            next_order: fields.number()?,
            totals: EngineTotals {
                pushed: fields.number()?,
                processed: fields.number()?,
                failed: fields.number()?,
            },
            queues: Vec::new(),
            batches: Vec::new(),
            is_clearing: false,
        };
        for _ in 0..fields.number()? {
            let (number, flags) = (fields.narrow()?, fields.byte()?);
            snapshot.queues.push(QueueFacts {
                number,
                name: fields.text()?.to_owned(),
                paused: flags & PAUSED != 0,
                hidden: flags & HIDDEN != 0,
            });
        }
        while !fields.0.is_empty() {
            let id = head_features::batch_id(&mut fields)?;
            let totals = BatchTotals { pushed: fields.number()?, lost: fields.number()? };
            match id {
                CLEARING => snapshot.is_clearing = true,
                id => snapshot.batches.push((id, totals)),
            }
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_snapshot_comes_back(
            numbers in prop::array::uniform5(any::<u64>()),
            queues in prop::collection::vec((any::<u16>(), any::<(bool, bool)>(), "[a-z]{1,9}"), 0..9),
            batches in prop::collection::vec((1..u64::MAX, any::<u64>(), any::<u64>()), 0..9),
            is_clearing: bool,
        ) {
            let totals =
                |(id, pushed, lost)| (BatchId(id), BatchTotals { pushed, lost });
            let queues = queues.into_iter();
            let facts = |(number, (paused, hidden), name)| QueueFacts { number, name, paused, hidden };
            let snapshot = EngineSnapshot {
                seed: numbers[0],
                next_order: numbers[1],
                totals: EngineTotals { pushed: numbers[2], processed: numbers[3], failed: numbers[4] },
                queues: queues.map(facts).collect(),
                batches: batches.into_iter().map(totals).collect(),
                is_clearing,
            };
            let mut bytes = Vec::new();
            snapshot.write(&mut bytes);
            prop_assert_eq!(EngineSnapshot::read(&bytes), Ok(snapshot));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = EngineSnapshot::read(&bytes);
        }
    }
}
