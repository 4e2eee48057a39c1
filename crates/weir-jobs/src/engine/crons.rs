//! Cron jobs: which of their times were handled. The record of a job that was enqueued for a time
//! names both, so that a restart knows of it even if the record of the cron job was lost with the end
//! of the log.

use weir_base::clock::Timestamp;
use weir_log::{Class, Disk};

use super::core::{Engine, EngineError};
use super::kept_key::{KeptKey, KeptKind};
use super::state::EngineState;
use super::varint::{self, FieldReader, Malformed};
use crate::cron::{CronRunOutcome, CronState};
use crate::features::{CronRun, JobFeatures};
use crate::model::NewJob;
use crate::store::StoreError;

/// Returns the number that stands for a name in records.
fn key_of(name: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes())
}

const fn kept_key(key: u64) -> KeptKey {
    KeptKey { kind: KeptKind::Cron, key }
}

impl<D: Disk> Engine<D> {
    /// Handles the time `at` of a cron job, and stores `job` for it. A job whose unique lock is held is left
    /// out.
    pub(crate) fn cron_run(
        &mut self,
        name: &str,
        at: Timestamp,
        job: Option<&NewJob<'_>>,
        now: Timestamp,
    ) -> Result<CronRunOutcome, EngineError> {
        let outcome = self.state.features.cron.outcome_of(name, at, job.is_some());
        if outcome == CronRunOutcome::HandledBefore {
            return Ok(outcome);
        }
        if let Some(job) = job.filter(|_| outcome == CronRunOutcome::Handled) {
            let features = JobFeatures::of(&job.custom, job.at, now);
            match self.admit_features(&features, now) {
                Ok(()) => {
                    let cron = Some(CronRun { key: key_of(name), at });
                    let features = JobFeatures { cron, ..features };
                    let stored = self.store_admitted(job, features, Class::Job, now)?;
                    self.woken.extend(stored.1);
                }
                Err(StoreError::NotUnique) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.state.features.cron.handled(name, at);
        // Without space for it the timer writes the record.
        let _ = self.write_crons();
        Ok(outcome)
    }

    /// Pauses or resumes a cron job. Returns false if it is unknown.
    pub(crate) fn cron_pause(&mut self, name: &str, paused: bool) -> Result<bool, EngineError> {
        let is_known = self.state.features.cron.pause(name, paused);
        self.write_crons()?;
        Ok(is_known)
    }

    /// Replaces what is remembered of a cron job.
    pub(crate) fn import_cron(&mut self, name: &str, state: &CronState) -> Result<(), EngineError> {
        self.state.features.cron.set(name, state.clone());
        self.write_crons()
    }

    /// Forgets a cron job.
    pub(crate) fn cron_forget(&mut self, name: &str) -> Result<(), EngineError> {
        let key = kept_key(key_of(name));
        // An empty record: the newest one says that there is no state.
        self.keep(key, &[])?;
        self.forget_kept(key);
        self.state.features.cron.remove(name);
        Ok(())
    }

    /// Writes the records of cron jobs that changed.
    pub(crate) fn write_crons(&mut self) -> Result<(), EngineError> {
        while let Some(name) = self.state.features.cron.changed() {
            let name = name.to_owned();
            let mut body = Vec::new();
            if let Some(state) = self.state.features.cron.get(&name) {
                write(&name, state, &mut body);
            }
            self.keep(kept_key(key_of(&name)), &body)?;
            self.state.features.cron.written(&name);
        }
        Ok(())
    }
}

impl EngineState {
    /// Restores a cron job from its record. `run` is the last time for which a job was stored.
    pub(crate) fn restore_cron(
        &mut self,
        body: &[u8],
        run: Option<Timestamp>,
    ) -> Result<(), Malformed> {
        if body.is_empty() {
            return Ok(());
        }
        let (name, state) = read(body)?;
        self.features.cron.restore(name, state.clone());
        if let Some(run) = run.filter(|run| *run > state.last) {
            self.features.cron.handled(name, run);
        }
        Ok(())
    }
}

fn write(name: &str, state: &CronState, into: &mut Vec<u8>) {
    varint::put_text(into, name);
    varint::put(into, state.last.as_micros());
    into.push(u8::from(state.paused));
}

fn read(body: &[u8]) -> Result<(&str, CronState), Malformed> {
    let mut fields = FieldReader(body);
    let name = fields.text()?;
    let last = Timestamp::from_micros(fields.number()?);
    let paused = fields.byte()? != 0;
    Ok((name, CronState { last, paused }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cron_job_comes_back(name: String, micros: u64, paused: bool) {
            let state = CronState { last: Timestamp::from_micros(micros), paused };
            let mut body = Vec::new();
            write(&name, &state, &mut body);
            prop_assert_eq!(read(&body), Ok((name.as_str(), state)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
