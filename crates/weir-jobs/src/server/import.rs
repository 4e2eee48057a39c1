//! Imports the lines of an export ([`crate::export_lines`]).
//!
//! A line restores its job to the same place with the same time, failure and retries left. A line
//! without `place` is a plain job and is pushed. A job that returns to a queue gets a new
//! `enqueued_at`, so its wait starts now. Of the lines given at once, batches and cron jobs are
//! imported before the jobs, commits of batches and progress after them.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use super::state_lines::{self, EntryImport};
use super::{JobService, parsing, walk};
use crate::batches::CallbackKind;
use crate::custom::BatchId;
use crate::export_lines::{ExportLine, StatePlace};
use crate::handle::{HandleError, ImportMode};
use crate::job::JobBatch;
use crate::job_text;
use crate::model::{FailureState, JobLocation, NewJob, SetName};
use crate::settings::JobServerLimits;
use crate::stamp::parse_rfc3339;
use crate::store::{CallbackJob, ExportedFeatures, Restored, Store, StoreError, store_parts};
use crate::view;

/// The fields of an export line other than the job.
#[derive(Clone, Debug)]
struct ExportedState {
    /// `None`: its queue.
    set: Option<SetName>,
    at: Timestamp,
    failure: Option<FailureState>,
    features: Option<ExportedFeatures>,
}

/// An entry that is no job, with its line number.
#[derive(Debug)]
struct StateLine {
    line: u64,
    place: StatePlace,
    json: String,
}

/// The member of an exported job that a push would discard.
#[derive(Deserialize)]
struct ExportedFailure<'a> {
    #[serde(borrow)]
    failure: Option<&'a RawValue>,
}

/// Imports exported lines. Rejecting one line does not affect the others. If the store takes no jobs,
/// the import ends with its error; some of the lines may be stored then.
pub(super) async fn import<S: Store>(
    service: &JobService<S>,
    texts: &[Vec<u8>],
    mode: ImportMode,
) -> Result<view::Pushed, HandleError> {
    let _alone = service.importing.lock().await;
    let mut batch = service.take_batch();
    let imported = import_batch(service, &mut batch, texts, mode).await;
    service.recycle_batch(batch);
    let mut pushed = imported?;
    pushed.rejected.sort_by_key(|rejected| rejected.line);
    pushed.rejected_total = pushed.rejected.len() as u64;
    Ok(pushed)
}

async fn import_batch<S: Store>(
    service: &JobService<S>,
    batch: &mut JobBatch,
    texts: &[Vec<u8>],
    mode: ImportMode,
) -> Result<view::Pushed, HandleError> {
    let mut pushed = view::Pushed::default();
    let (parsed, entries) = read_lines(service, batch, texts, &mut pushed);
    let (before, after): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| StatePlace::BEFORE.contains(&entry.place));
    import_entries(service, before, mode, &mut pushed).await?;
    let jobs = batch.jobs();
    let mut lines: Vec<_> = parsed.into_iter().zip(&jobs).collect();
    if mode == ImportMode::Absent {
        let jids: HashSet<&str> = jobs.iter().map(|job| job.jid).collect();
        let present = walk::present(service, &service.settings(), &jids).await?;
        let before = lines.len();
        lines.retain(|(_, job)| !present.contains(job.jid));
        pushed.present += (before - lines.len()) as u64;
    }
    let (pushes, restores): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|((_, rest), _)| rest.is_none());
    let new: Vec<NewJob<'_>> = pushes.iter().map(|(_, job)| **job).collect();
    let stored = service.store.push_each(&new).await;
    let lines = pushes.iter().map(|((line, _), job)| (*line, job.jid));
    record_results(&mut pushed, lines.zip(stored))?;

    let texts: Vec<Vec<u8>> =
        restores.iter().map(|((_, rest), job)| job_text_of(job, rest)).collect();
    let restored_jobs: Vec<Restored<'_>> = restores
        .iter()
        .zip(&texts)
        .filter_map(|(((_, rest), job), json)| Some(restored_job(job, rest.as_ref()?, json)))
        .collect();
    let stored = store_parts(&restored_jobs, StoreError::is_of_one_job, async |part| {
        service.store.restore(part).await
    })
    .await;
    let lines = restores.iter().map(|((line, _), job)| (*line, job.jid));
    record_results(&mut pushed, lines.zip(stored))?;
    import_entries(service, after, mode, &mut pushed).await?;
    Ok(pushed)
}

/// Imports entries that are no jobs.
async fn import_entries<S: Store>(
    service: &JobService<S>,
    entries: Vec<StateLine>,
    mode: ImportMode,
    pushed: &mut view::Pushed,
) -> Result<(), HandleError> {
    for StateLine { line, place, json } in entries {
        let error = match (state_lines::import(service, place, &json).await, mode) {
            (Ok(EntryImport::Stored), _) => {
                pushed.entries += 1;
                continue;
            }
            (Ok(EntryImport::Present), ImportMode::Absent) => {
                pushed.present += 1;
                continue;
            }
            (Ok(EntryImport::Present), ImportMode::All) => {
                "a batch with this id exists, and its jobs are added to it".to_owned()
            }
            (Err(HandleError::Store(error)), _) if !error.is_of_one_job() => {
                return Err(error.into());
            }
            (Err(error), _) => error.to_string(),
        };
        let error = format!("{}: {error}", place.as_str());
        pushed.rejected.push(view::Rejected { line, jid: None, error });
    }
    Ok(())
}

/// Counts the jobs that were stored or rejected on their own account.
fn record_results<'a>(
    pushed: &mut view::Pushed,
    results: impl Iterator<Item = ((u64, &'a str), Result<(), StoreError>)>,
) -> Result<(), StoreError> {
    for ((line, jid), result) in results {
        match result {
            Ok(()) => pushed.accepted += 1,
            Err(error) if error.is_of_one_job() => {
                let (jid, error) = (Some(jid.to_owned()), error.to_string());
                pushed.rejected.push(view::Rejected { line, jid, error });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Adds the jobs of the lines to the batch. Returns their line numbers and other fields, and the
/// entries that are no jobs.
fn read_lines<S: Store>(
    service: &JobService<S>,
    batch: &mut JobBatch,
    texts: &[Vec<u8>],
    pushed: &mut view::Pushed,
) -> (Vec<(u64, Option<ExportedState>)>, Vec<StateLine>) {
    let settings = service.settings();
    let (mut parsed, mut entries) = (Vec::with_capacity(texts.len()), Vec::new());
    for (line, text) in (1..).zip(texts) {
        match read_line(service, batch, text, &settings.limits) {
            Ok(ReadLine::Job(rest)) => parsed.push((line, rest)),
            Ok(ReadLine::State(place, json)) => entries.push(StateLine { line, place, json }),
            Ok(ReadLine::End) => {}
            Err(error) => pushed.rejected.push(view::Rejected { line, jid: None, error }),
        }
    }
    (parsed, entries)
}

/// What a line was.
enum ReadLine {
    /// The fields other than the job, or `None` for a plain job.
    Job(Option<ExportedState>),
    State(StatePlace, String),
    End,
}

/// Adds the line's job to the batch.
fn read_line<S: Store>(
    service: &JobService<S>,
    batch: &mut JobBatch,
    text: &[u8],
    limits: &JobServerLimits,
) -> Result<ReadLine, String> {
    let now = service.clock.now();
    let line = ExportLine::parse(text).map_err(|error| error.to_string())?;
    if line.end().is_some() {
        return Ok(ReadLine::End);
    }
    let features = line.features().map_err(|error| format!("features: {error}"))?;
    let (Some(place), Some(job)) = (line.place, line.job) else {
        batch.add(text, now, limits).map_err(|error| error.to_string())?;
        return Ok(ReadLine::Job(None));
    };
    if let Some(place) = StatePlace::named(&place) {
        return Ok(ReadLine::State(place, job.get().to_owned()));
    }
    let features = features.map(|features| parse_features(&features)).transpose()?;
    let set = match parsing::parse_location(&place, service).map_err(|error| error.to_string())? {
        JobLocation::Queue(_) => None,
        JobLocation::Set(set) => Some(set),
    };
    let at = match line.at {
        None => now,
        Some(at) => parse_rfc3339(&at).map_err(|error| format!("at: {error}"))?,
    };
    let failure = failure(job.get())?;
    batch.add(job.get().as_bytes(), now, limits).map_err(|error| error.to_string())?;
    Ok(ReadLine::Job(Some(ExportedState { set, at, failure, features })))
}

fn parse_features(features: &view::JobFeaturesView) -> Result<ExportedFeatures, String> {
    let lock_until = features.lock_until.as_deref().map(parse_rfc3339).transpose();
    let callback = features.callback.as_ref().map(|callback| {
        let (batch, kind) = (BatchId::parse(&callback.bid), CallbackKind::named(&callback.kind));
        let job = batch.zip(kind).map(|(batch, kind)| CallbackJob { batch, kind });
        job.ok_or_else(|| "features: callback is not what an export holds".to_owned())
    });
    Ok(ExportedFeatures {
        lock_until: lock_until.map_err(|error| format!("features: lock_until: {error}"))?,
        has_failed: features.failed,
        callback: callback.transpose()?,
    })
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
    let ExportedState { set, at, failure, features } = rest.clone();
    Restored { job: NewJob { json, at: None, ..*job }, set, at, failure, features }
}
