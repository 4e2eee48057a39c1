//! Records of state that is no job: the progress of tracked jobs, batches, cron jobs, reservations. Each has a key, and
//! the newest record of a key holds its whole state. Records in the oldest segment are written
//! again, like those of live jobs, before it is removed.

use weir_log::{Disk, RecordPosition};

use super::core::{Engine, EngineError};
use super::head::RecordHead;
use super::kept_key::KeptKey;
use super::state::EngineState;
use crate::store::StoreError;

impl EngineState {
    /// Notes the newest record of a key. Returns the segment of the one that it replaces.
    pub(crate) fn note_kept(&mut self, key: KeptKey, position: RecordPosition) -> Option<u32> {
        let before = self.kept.insert(key, position);
        self.segments.add(position.segment);
        self.release_kept(before)
    }

    fn release_kept(&mut self, position: Option<RecordPosition>) -> Option<u32> {
        let segment = position?.segment;
        self.segments.release(segment);
        Some(segment)
    }
}

impl<D: Disk> Engine<D> {
    /// Writes the state of a key.
    pub(crate) fn keep(&mut self, key: KeptKey, body: &[u8]) -> Result<(), EngineError> {
        let position = self.journal.note_with(&RecordHead::Kept { key }, body, &self.state)?;
        if let Some(segment) = self.state.note_kept(key, position) {
            self.note_release(segment);
        }
        Ok(())
    }

    /// Forgets a key whose state has expired. A restart that still finds its record finds it expired
    /// as well.
    pub(crate) fn forget_kept(&mut self, key: KeptKey) {
        let before = self.state.kept.remove(&key);
        if let Some(segment) = self.state.release_kept(before) {
            self.note_release(segment);
        }
    }

    /// Writes a record again, if it is in the segment `oldest`.
    pub(crate) fn copy_kept(
        &mut self,
        key: KeptKey,
        oldest: Option<u32>,
    ) -> Result<(), EngineError> {
        let position = self.state.kept.get(&key).copied();
        let Some(position) = position.filter(|position| Some(position.segment) == oldest) else {
            return Ok(());
        };
        let mut buffer = Vec::new();
        match self.journal.reader.read(position, &mut buffer) {
            Ok(parts) => self.keep(key, &buffer[parts.body]),
            Err(error) if error.is_passing() => {
                Err(StoreError::Failed(format!("{error}; try again")).into())
            }
            Err(error) => {
                self.note_damage(position, &error);
                if let Some(body) = self.reservation_record(key) {
                    return self.keep(key, &body);
                }
                tracing::error!(%error, ?key, "a record can't be read: it is left out");
                self.forget_kept(key);
                Ok(())
            }
        }
    }
}
