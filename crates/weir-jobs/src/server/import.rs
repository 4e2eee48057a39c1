//! Writes and imports export lines.
//!
//! An export line is `{"place":"retries","at":"2026-11-20T19:28:22.123456Z","job":{..}}`: the queue
//! or set, when the job was due (scheduled, retries), died (dead) or entered its queue, and its
//! text with its `failure`, byte for byte as it is sent to a worker. Importing it restores the job
//! to the same place with the same time, failure and retries left. A line without `parse_location` is a
//! plain job and is pushed. A job that returns to a queue gets a new `enqueued_at`, so its wait
//! starts now.

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use super::{JobService, requests};
use crate::faktory::store_all;
use crate::handle::HandleError;
use crate::job::JobBatch;
use crate::job_text;
use crate::model::{FailureState, JobLocation, NewJob, SetName};
use crate::settings::JobServerLimits;
use crate::stamp::{parse_rfc3339, rfc3339};
use crate::store::{Restored, Store, StoreError};
use crate::view;

#[derive(Deserialize)]
struct ExportLine<'a> {
    place: Option<String>,
    at: Option<String>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
}

/// The fields of an export line other than the job.
#[derive(Clone, Debug)]
struct ExportedState {
    /// `None`: its queue.
    set: Option<SetName>,
    at: Timestamp,
    failure: Option<FailureState>,
}

/// The member of an exported job that a push would discard.
#[derive(Deserialize)]
struct ExportedFailure<'a> {
    #[serde(borrow)]
    failure: Option<&'a RawValue>,
}

/// Returns the export line of a listed job.
pub fn line(place: &str, job: &view::JobView) -> String {
    let at = Timestamp::from_micros(micros(job.at));
    format!(
        "{{\"place\":{},\"at\":\"{}\",\"job\":{}}}\n",
        serde_json::Value::from(place),
        rfc3339(at),
        job.payload
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time after 1970; 53 bits hold microseconds until the year 2255"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

/// Imports exported lines. Rejecting one line does not affect the others.
pub(super) async fn import<S: Store>(
    service: &JobService<S>,
    texts: &[Vec<u8>],
) -> Result<view::Pushed, HandleError> {
    let settings = service.settings();
    let mut batch = service.take_batch();
    let mut pushed = view::Pushed::default();
    let mut parsed: Vec<(u64, Option<ExportedState>)> = Vec::with_capacity(texts.len());
    for (line, text) in (1..).zip(texts) {
        match read_line(service, &mut batch, text, &settings.limits) {
            Ok(rest) => parsed.push((line, rest)),
            Err(error) => pushed.rejected.push(view::Rejected { line, jid: None, error }),
        }
    }
    let jobs = batch.jobs();
    let (pushes, restores): (Vec<_>, Vec<_>) =
        parsed.into_iter().zip(&jobs).partition(|((_, rest), _)| rest.is_none());
    let new: Vec<NewJob<'_>> = pushes.iter().map(|(_, job)| (*job).clone()).collect();
    let stored = store_all(&new, async |part| service.store.push(part).await).await;
    let lines = pushes.iter().map(|((line, _), job)| (*line, job.jid));
    record_results(&mut pushed, lines.zip(stored));

    let texts: Vec<Vec<u8>> =
        restores.iter().map(|((_, rest), job)| job_text_of(job, rest)).collect();
    let restored_jobs: Vec<Restored<'_>> = restores
        .iter()
        .zip(&texts)
        .filter_map(|(((_, rest), job), json)| Some(restored_job(job, rest.as_ref()?, json)))
        .collect();
    let stored = store_all(&restored_jobs, async |part| service.store.restore(part).await).await;
    let lines = restores.iter().map(|((line, _), job)| (*line, job.jid));
    record_results(&mut pushed, lines.zip(stored));

    service.recycle_batch(batch);
    pushed.rejected.sort_by_key(|rejected| rejected.line);
    pushed.rejected_total = pushed.rejected.len() as u64;
    Ok(pushed)
}

fn record_results<'a>(
    pushed: &mut view::Pushed,
    results: impl Iterator<Item = ((u64, &'a str), Result<(), StoreError>)>,
) {
    for ((line, jid), result) in results {
        match result {
            Ok(()) => pushed.accepted += 1,
            Err(error) => {
                let (jid, error) = (Some(jid.to_owned()), error.to_string());
                pushed.rejected.push(view::Rejected { line, jid, error });
            }
        }
    }
}

/// Adds the line's job to the batch. Returns the other fields, or `None` for a plain job.
fn read_line<S: Store>(
    service: &JobService<S>,
    batch: &mut JobBatch,
    text: &[u8],
    limits: &JobServerLimits,
) -> Result<Option<ExportedState>, String> {
    let now = service.clock.now();
    let line: ExportLine<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let (Some(place), Some(job)) = (line.place, line.job) else {
        batch.add(text, now, limits).map_err(|error| error.to_string())?;
        return Ok(None);
    };
    let set = match requests::parse_location(&place, service).map_err(|error| error.to_string())? {
        JobLocation::Queue(_) => None,
        JobLocation::Set(set) => Some(set),
    };
    let at = match line.at {
        None => now,
        Some(at) => parse_rfc3339(&at).map_err(|error| format!("at: {error}"))?,
    };
    let failure = failure(job.get())?;
    batch.add(job.get().as_bytes(), now, limits).map_err(|error| error.to_string())?;
    Ok(Some(ExportedState { set, at, failure }))
}

fn failure(job: &str) -> Result<Option<FailureState>, String> {
    let failed: ExportedFailure<'_> =
        serde_json::from_str(job).map_err(|error| error.to_string())?;
    let Some(failure) = failed.failure.filter(|raw| raw.get() != "null") else {
        return Ok(None);
    };
    let known = job_text::parse_failure(failure.get());
    known.map(Some).ok_or_else(|| "failure is not what an export holds".to_owned())
}

/// Returns the job's final text, including its failure.
fn job_text_of(job: &NewJob<'_>, rest: &Option<ExportedState>) -> Vec<u8> {
    match rest.as_ref().and_then(|rest| rest.failure.as_ref()) {
        Some(failure) => job_text::failed(job.json, job.base_bytes, failure),
        None => job.json.to_vec(),
    }
}

fn restored_job<'a>(job: &NewJob<'a>, rest: &ExportedState, json: &'a [u8]) -> Restored<'a> {
    let ExportedState { set, at, failure } = rest.clone();
    Restored { job: NewJob { json, at: None, ..job.clone() }, set, at, failure }
}
