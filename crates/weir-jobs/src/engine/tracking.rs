//! The progress of tracked jobs: notes what happens to them, and writes it to the log.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::kept_key::{KeptKey, KeptKind};
use super::state::EngineState;
use super::varint::{self, FieldReader, Malformed};
use crate::tracks::{Track, TrackState, TrackUpdate};

/// Stands for an unknown percentage in a record.
const NO_PERCENT: u8 = u8::MAX;

fn key_of(jid: &str, state: &EngineState) -> KeptKey {
    let key = xxhash_rust::xxh3::xxh3_64_with_seed(jid.as_bytes(), state.seed);
    KeptKey { kind: KeptKind::Track, key }
}

impl<D: Disk> Engine<D> {
    /// Notes a new state of a job, if it is tracked.
    pub(crate) fn note_track(
        &mut self,
        job: JobIndex,
        jid: &str,
        state: TrackState,
        now: Timestamp,
    ) {
        if self.state.features.get(job).tracked {
            self.note_tracked(jid, state, now);
        }
    }

    /// Notes a new state of a tracked job. This may begin a segment with a snapshot, so the state in
    /// memory must agree with the log: a job whose end was written must have ended in memory.
    pub(crate) fn note_tracked(&mut self, jid: &str, state: TrackState, now: Timestamp) {
        let removed =
            self.state.features.note_track(jid, state, &self.settings.limits, &self.metrics, now);
        if let Some(jid) = removed {
            self.forget_kept(key_of(&jid, &self.state));
        }
        // After a crash the job of a worker waits again.
        if state != TrackState::Working {
            self.keep_track(jid);
        }
    }

    /// Replaces what is known of a tracked job.
    pub(crate) fn import_track(&mut self, jid: &str, track: &Track) -> Result<(), EngineError> {
        let (limits, metrics) = (&self.settings.limits, &self.metrics);
        let removed = self.state.features.import_track(jid, track.clone(), limits, metrics);
        if let Some(jid) = removed {
            self.forget_kept(key_of(&jid, &self.state));
        }
        self.write_track(jid)
    }

    /// Notes the progress of a job, if it is tracked.
    pub(crate) fn update_track(&mut self, jid: &str, update: TrackUpdate, now: Timestamp) {
        if self.state.features.tracks.update(jid, update, now) {
            self.keep_track(jid);
        }
    }

    /// Writes the progress of a job. Without space for it, a restart finds an earlier one.
    fn keep_track(&mut self, jid: &str) {
        if let Err(error) = self.write_track(jid) {
            tracing::debug!(%error, "the progress of a job is not in the log");
        }
    }

    fn write_track(&mut self, jid: &str) -> Result<(), EngineError> {
        let Some(track) = self.state.features.tracks.get(jid) else { return Ok(()) };
        let mut body = Vec::new();
        write(jid, track, &mut body);
        self.keep(key_of(jid, &self.state), &body)
    }

    /// Forgets up to `max` tracks that have expired.
    pub(crate) fn expire_tracks(&mut self, max: usize, now: Timestamp) {
        let kept = self.settings.limits.track_age_max;
        for _ in 0..max {
            let Some(jid) = self.state.features.tracks.expire(now, kept) else { return };
            self.forget_kept(key_of(&jid, &self.state));
        }
    }
}

impl EngineState {
    /// Restores a track from its record.
    pub(crate) fn restore_track(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let (jid, track) = read(body)?;
        self.features.tracks.insert(jid, track);
        Ok(())
    }
}

fn write(jid: &str, track: &Track, into: &mut Vec<u8>) {
    varint::put_text(into, jid);
    into.extend_from_slice(&[track.state.code(), track.percent.unwrap_or(NO_PERCENT)]);
    varint::put(into, track.updated_at.as_micros());
    if let Some(description) = &track.description {
        varint::put_text(into, description);
    }
}

fn read(body: &[u8]) -> Result<(&str, Track), Malformed> {
    let mut fields = FieldReader(body);
    let jid = fields.text()?;
    let state = match TrackState::from_code(fields.byte()?).ok_or(Malformed)? {
        TrackState::Working => TrackState::Enqueued,
        state => state,
    };
    let percent = Some(fields.byte()?).filter(|percent| *percent != NO_PERCENT);
    let updated_at = Timestamp::from_micros(fields.number()?);
    let description = if fields.0.is_empty() { None } else { Some(Box::from(fields.text()?)) };
    Ok((jid, Track { state, percent, description, updated_at }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_track_comes_back(
            jid: String, state in 2..5_u8, percent in prop::option::of(0..=100_u8),
            description: Option<String>, micros: u64,
        ) {
            let track = Track {
                state: TrackState::from_code(state).unwrap(),
                percent,
                description: description.map(String::into_boxed_str),
                updated_at: Timestamp::from_micros(micros),
            };
            let mut body = Vec::new();
            write(&jid, &track, &mut body);
            prop_assert_eq!(read(&body), Ok((jid.as_str(), track)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
