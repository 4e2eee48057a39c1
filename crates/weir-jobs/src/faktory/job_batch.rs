//! BATCH: groups of jobs with callbacks (Faktory Enterprise).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::batches::{BatchDefinition, BatchStatus};
use crate::callback_text;
use crate::custom::BatchId;
use crate::server::JobService;
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::stamp::rfc3339;
use crate::store::Store;

const COMMAND: &str = "BATCH";
const USAGE: &str = "BATCH NEW {..}, BATCH OPEN|COMMIT|STATUS BID";

#[derive(Deserialize)]
struct NewText<'a> {
    #[serde(borrow)]
    parent_bid: Option<Cow<'a, str>>,
    description: Option<String>,
    #[serde(borrow)]
    complete: Option<&'a RawValue>,
    #[serde(borrow)]
    success: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct StatusText<'a> {
    bid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_bid: Option<String>,
    description: &'a str,
    created_at: String,
    total: u64,
    pending: u64,
    failed: u64,
    complete_st: &'static str,
    success_st: &'static str,
}

/// Runs `BATCH NEW {..}`, `BATCH OPEN bid`, `BATCH COMMIT bid` or `BATCH STATUS bid`.
pub(super) async fn batch<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    rest: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let text = std::str::from_utf8(rest).map_err(|error| malformed(&error))?;
    let (word, argument) = text.split_once(' ').ok_or_else(|| malformed(&USAGE))?;
    match word {
        "NEW" => new(service, &settings.limits, argument).await,
        "OPEN" => {
            let id = parse_id(argument)?;
            service.store.batch_open(id).await?;
            Ok(FaktoryReply::Bulk(id.to_string().into_bytes()))
        }
        "COMMIT" => {
            service.store.batch_commit(parse_id(argument)?).await?;
            Ok(FaktoryReply::Ok)
        }
        "STATUS" => {
            let status = service.store.batch_status(parse_id(argument)?).await?;
            let json = serde_json::to_vec(&status_text(&status));
            Ok(FaktoryReply::Bulk(json.map_err(|error| malformed(&error))?))
        }
        _ => Err(malformed(&USAGE)),
    }
}

fn malformed(complaint: &dyn std::fmt::Display) -> FaktoryError {
    FaktoryError::malformed(COMMAND, complaint)
}

/// Parses the id of a batch. No batch has an id of another form.
fn parse_id(text: &str) -> Result<BatchId, FaktoryError> {
    let text = text.trim();
    BatchId::parse(text).ok_or_else(|| FaktoryError::no_such_batch(text))
}

/// Creates a batch. Replies with its id.
async fn new<S: Store>(
    service: &JobService<S>,
    limits: &JobServerLimits,
    json: &str,
) -> Result<FaktoryReply, FaktoryError> {
    let text: NewText<'_> = payload::parse(COMMAND, json.as_bytes())?;
    let max = limits.batch_definition_bytes_max;
    if json.len() > max {
        return Err(FaktoryError::BatchDefinition { max });
    }
    let parent = text.parent_bid.filter(|parent| !parent.is_empty());
    let definition = BatchDefinition {
        parent: parent.map(|parent| parse_id(&parent)).transpose()?,
        description: text.description.unwrap_or_default(),
        complete: callback(service, limits, text.complete)?,
        success: callback(service, limits, text.success)?,
    };
    if definition.complete.is_none() && definition.success.is_none() {
        return Err(malformed(&"a batch needs a success or a complete callback"));
    }
    let id = service.store.batch_new(definition).await?;
    Ok(FaktoryReply::Bulk(id.to_string().into_bytes()))
}

/// Returns the JSON of a callback's job, which gets a jid if it has none.
fn callback<S: Store>(
    service: &JobService<S>,
    limits: &JobServerLimits,
    json: Option<&RawValue>,
) -> Result<Option<Vec<u8>>, FaktoryError> {
    let Some(json) = json else { return Ok(None) };
    let jid = format!("callback-{:016x}", fastrand::u64(..));
    let json = callback_text::with_jid(json.get(), &jid);
    let json = json.map_err(|error| malformed(&format_args!("callback: {error}")))?;
    let mut batch = service.take_batch();
    let checked = batch.parse_one(&json, service.clock.now(), limits);
    let is_member = checked.map(|job| job.custom.batch.is_some());
    service.recycle_batch(batch);
    match is_member? {
        // The parents of its batch wait for it anyway.
        true => Err(malformed(&"a callback belongs to no batch: remove its custom.bid")),
        false => Ok(Some(json)),
    }
}

fn status_text(status: &BatchStatus) -> StatusText<'_> {
    StatusText {
        bid: status.id.to_string(),
        parent_bid: status.parent.map(|parent| parent.to_string()),
        description: &status.description,
        created_at: rfc3339(status.created_at),
        total: status.total,
        pending: status.pending,
        failed: status.failed,
        complete_st: status.complete.as_str(),
        success_st: status.success.as_str(),
    }
}
