//! What an export contains beside jobs: batches, the progress of jobs, cron jobs. Writes the entries
//! page by page, and imports them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use super::{JobService, cron};
use crate::batches::{BatchDefinition, CallbackState, ExportedBatch};
use crate::cron::CronState;
use crate::custom::BatchId;
use crate::export_lines::StatePlace;
use crate::handle::HandleError;
use crate::job::JobBatch;
use crate::settings::JobServerLimits;
use crate::stamp::{parse_rfc3339, rfc3339};
use crate::store::Store;
use crate::tracks::{DESCRIPTION_CHARACTERS_MAX, Track, TrackState};
use crate::view::{StateEntry, StatePage};

#[derive(Serialize, Deserialize)]
struct BatchText<'a> {
    bid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent_bid: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    complete: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    success: Option<&'a RawValue>,
    created_at: String,
    expires_at: String,
    complete_st: String,
    success_st: String,
    succeeded: u64,
    lost: u64,
}

#[derive(Serialize, Deserialize)]
struct CommitText {
    bid: String,
}

#[derive(Serialize, Deserialize)]
struct TrackText {
    jid: String,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    desc: Option<String>,
    updated_at: String,
}

#[derive(Serialize, Deserialize)]
struct CronText {
    name: String,
    last: String,
    paused: bool,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryImport {
    Stored,
    /// It was there already.
    Present,
}

/// Returns a page of entries.
pub(super) async fn page<S: Store>(
    service: &JobService<S>,
    place: StatePlace,
    after: Option<String>,
) -> Result<StatePage, HandleError> {
    let limit = service.settings().limits.page_jobs_max;
    let (entries, is_last) = match place {
        StatePlace::Cron => (cron_entries(service, after).await?, true),
        StatePlace::Batches | StatePlace::BatchCommits => {
            let after =
                after.map(|key| parse_id(&key)).transpose().map_err(HandleError::Invalid)?;
            let batches = service.store.export_batches(after, limit).await?;
            let is_last = batches.len() < limit;
            let entries = batches.iter().map(|batch| match place {
                StatePlace::Batches => batch_entry(batch),
                _ => commit_entry(batch),
            });
            (entries.collect::<Result<Vec<_>, _>>().map_err(invalid)?, is_last)
        }
        StatePlace::Tracks => {
            let after = after.map(|key| parse_track_key(&key)).transpose()?;
            let tracks = service.store.export_tracks(after, limit).await?;
            let is_last = tracks.len() < limit;
            let entries = tracks.iter().map(|(jid, track)| track_entry(jid, track));
            (entries.collect::<Result<Vec<_>, _>>().map_err(invalid)?, is_last)
        }
    };
    let next = entries.last().filter(|_| !is_last).map(|entry| entry.key.clone());
    // Batches that are not committed have a key, and no line.
    let entries = entries.into_iter().filter(|entry| !entry.json.is_empty()).collect();
    Ok(StatePage { entries, next })
}

async fn cron_entries<S: Store>(
    service: &JobService<S>,
    after: Option<String>,
) -> Result<Vec<StateEntry>, HandleError> {
    if !service.store.capabilities().cron {
        return Ok(Vec::new());
    }
    let states = service.store.cron_states().await?.by_name;
    let entry = |(name, state): (String, CronState)| -> Result<_, serde_json::Error> {
        let CronState { last, paused } = state;
        let text = CronText { name: name.clone(), last: rfc3339(last), paused };
        Ok(StateEntry { key: name, json: serde_json::to_string(&text)? })
    };
    let states = states.into_iter().filter(|(name, _)| Some(name) > after.as_ref());
    states.map(entry).collect::<Result<_, _>>().map_err(invalid)
}

fn batch_entry(batch: &ExportedBatch) -> Result<StateEntry, serde_json::Error> {
    fn raw(json: &Option<Vec<u8>>) -> Result<Option<&RawValue>, serde_json::Error> {
        json.as_deref().map(serde_json::from_slice).transpose()
    }
    let BatchDefinition { parent, description, complete, success } = &batch.definition;
    let text = BatchText {
        bid: batch.id.to_string(),
        parent_bid: parent.map(|parent| parent.to_string()),
        description: description.clone(),
        complete: raw(complete)?,
        success: raw(success)?,
        created_at: rfc3339(batch.created_at),
        expires_at: rfc3339(batch.expires_at),
        complete_st: batch.complete.as_str().to_owned(),
        success_st: batch.success.as_str().to_owned(),
        succeeded: batch.succeeded,
        lost: batch.lost,
    };
    Ok(StateEntry { key: batch.id.to_string(), json: serde_json::to_string(&text)? })
}

fn commit_entry(batch: &ExportedBatch) -> Result<StateEntry, serde_json::Error> {
    let bid = batch.id.to_string();
    let json = match batch.committed {
        true => serde_json::to_string(&CommitText { bid: bid.clone() })?,
        false => String::new(),
    };
    Ok(StateEntry { key: bid, json })
}

fn track_entry(jid: &str, track: &Track) -> Result<StateEntry, serde_json::Error> {
    let text = TrackText {
        jid: jid.to_owned(),
        state: track.state.as_str().to_owned(),
        percent: track.percent,
        desc: track.description.as_deref().map(str::to_owned),
        updated_at: rfc3339(track.updated_at),
    };
    let key = format!("{}|{jid}", track.updated_at.as_micros());
    Ok(StateEntry { key, json: serde_json::to_string(&text)? })
}

fn invalid(error: serde_json::Error) -> HandleError {
    HandleError::Invalid(error.to_string())
}

fn parse_track_key(key: &str) -> Result<(Timestamp, Box<str>), HandleError> {
    let parsed = key.split_once('|').and_then(|(micros, jid)| Some((micros.parse().ok()?, jid)));
    let (micros, jid) = parsed.ok_or_else(|| HandleError::Invalid(format!("{key:?} is no key")))?;
    Ok((Timestamp::from_micros(micros), Box::from(jid)))
}

/// Imports an entry.
pub(super) async fn import<S: Store>(
    service: &JobService<S>,
    place: StatePlace,
    json: &str,
) -> Result<EntryImport, HandleError> {
    let settings = service.settings();
    let limits = &settings.limits;
    match place {
        StatePlace::Cron => {
            let (name, state) = parse_cron(json).map_err(HandleError::Invalid)?;
            cron::import_state(service, &name, state).await?;
        }
        StatePlace::Batches => {
            let now = service.clock.now();
            let batch = parse_batch(json, limits, now).map_err(HandleError::Invalid)?;
            if !service.store.import_batch(batch).await? {
                return Ok(EntryImport::Present);
            }
        }
        StatePlace::BatchCommits => {
            let CommitText { bid } = serde_json::from_str(json).map_err(invalid)?;
            let id = parse_id(&bid).map_err(HandleError::Invalid)?;
            service.store.batch_commit(id).await?;
        }
        StatePlace::Tracks => {
            let (jid, track) = parse_track(json, limits).map_err(HandleError::Invalid)?;
            service.store.import_track(&jid, track).await?;
        }
    }
    Ok(EntryImport::Stored)
}

fn parse_cron(json: &str) -> Result<(String, CronState), String> {
    let text: CronText = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let last = parse_time("last", &text.last)?;
    Ok((text.name, CronState { last, paused: text.paused }))
}

fn parse_batch(
    json: &str,
    limits: &JobServerLimits,
    now: Timestamp,
) -> Result<ExportedBatch, String> {
    let max = limits.batch_definition_bytes_max;
    let text: BatchText<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let callbacks = [text.complete, text.success].into_iter().flatten();
    let bytes = text.description.len() + callbacks.map(|json| json.get().len()).sum::<usize>();
    // The batch's id was added to each callback.
    if bytes > max + 2 * CALLBACK_ID_BYTES {
        let setting = JobServerLimits::BATCH_DEFINITION_BYTES_MAX;
        return Err(format!("a batch of more than {max} bytes; raise {setting}"));
    }
    let id = parse_id(&text.bid)?;
    let parent = text.parent_bid.map(|bid| parse_id(&bid)).transpose()?;
    if parent == Some(id) {
        return Err("parent_bid is the batch itself".to_owned());
    }
    if text.succeeded.max(text.lost) > JOBS_MAX {
        return Err(format!("succeeded and lost may be {JOBS_MAX} at most"));
    }
    let definition = BatchDefinition {
        parent,
        description: text.description,
        complete: parse_callback(text.complete, limits, now)?,
        success: parse_callback(text.success, limits, now)?,
    };
    Ok(ExportedBatch {
        id,
        created_at: parse_time("created_at", &text.created_at)?,
        expires_at: parse_time("expires_at", &text.expires_at)?,
        committed: false,
        complete: parse_callback_state(definition.complete.is_some(), &text.complete_st)?,
        success: parse_callback_state(definition.success.is_some(), &text.success_st)?,
        definition,
        succeeded: text.succeeded,
        lost: text.lost,
    })
}

/// Jobs that a batch of an export may have had, far from where sums overflow.
const JOBS_MAX: u64 = u64::MAX >> 8;
/// Bytes by which the id of its batch makes a callback longer, at most.
const CALLBACK_ID_BYTES: usize = 64;

fn parse_callback(
    json: Option<&RawValue>,
    limits: &JobServerLimits,
    now: Timestamp,
) -> Result<Option<Vec<u8>>, String> {
    let Some(json) = json else { return Ok(None) };
    let json = json.get().as_bytes();
    JobBatch::new().parse_one(json, now, limits).map_err(|error| format!("callback: {error}"))?;
    Ok(Some(json.to_vec()))
}

fn parse_callback_state(is_there: bool, text: &str) -> Result<CallbackState, String> {
    Ok(match (is_there, text) {
        (false, _) => CallbackState::Absent,
        (true, "") => CallbackState::Pending,
        (true, "1") => CallbackState::Enqueued,
        (true, "2") => CallbackState::Done,
        (true, text) => return Err(format!("{text:?} is no state of a callback")),
    })
}

fn parse_track(json: &str, limits: &JobServerLimits) -> Result<(String, Track), String> {
    let text: TrackText = serde_json::from_str(json).map_err(|error| error.to_string())?;
    if text.jid.len() > limits.id_bytes_max {
        let setting = JobServerLimits::ID_BYTES_MAX;
        return Err(format!("the jid is longer than {} bytes ({setting})", limits.id_bytes_max));
    }
    let state = TrackState::named(&text.state);
    let state = state.ok_or_else(|| format!("{:?} is no state of a job", text.state))?;
    let description = text.desc.map(|desc| {
        desc.chars().take(DESCRIPTION_CHARACTERS_MAX).collect::<String>().into_boxed_str()
    });
    let updated_at = parse_time("updated_at", &text.updated_at)?;
    let percent = text.percent.map(|percent| percent.min(100));
    Ok((text.jid, Track { state, percent, description, updated_at }))
}

fn parse_time(name: &str, text: &str) -> Result<Timestamp, String> {
    parse_rfc3339(text).map_err(|error| format!("{name}: {error}"))
}

fn parse_id(text: &str) -> Result<BatchId, String> {
    BatchId::parse(text).ok_or_else(|| format!("{text:?} is no id of a batch"))
}
