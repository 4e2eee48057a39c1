//! ACKB and FAILB: finish many jobs with one command.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use super::{fail, payload};
use crate::model::Wid;
use crate::server::JobService;
use crate::settings::JobServerSettings;
use crate::store::{Store, StoreError};

#[derive(Deserialize)]
struct JidText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Runs `ACKB [jid, ..]`. Replies with a bulk `{jid: error}` for those that are not reserved.
pub(super) async fn ackb<S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    settings: &JobServerSettings,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let max = settings.limits.batch_jobs_max;
    let jids: Vec<JidText<'_>> = payload::parse_array("ACKB", json, max)?;
    let jids: Vec<&str> = jids.iter().map(|jid| &*jid.0).collect();
    let unknown = service.store.ack_from(reporter, &jids).await?;
    service.note_ended(reporter, &jids);
    let not_found = |place: usize| {
        let jid = jids[place];
        (jid.to_owned(), StoreError::NotFound(jid.into()).to_string())
    };
    Ok(FaktoryReply::errors(unknown.into_iter().map(not_found)))
}

/// Runs `FAILB [failure, ..]`, each as in FAIL. Replies with a bulk `{jid: error}` for those that
/// were not stored.
pub(super) async fn failb<S: Store>(
    service: &JobService<S>,
    reporter: Option<&Wid>,
    settings: &JobServerSettings,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let max = settings.limits.batch_jobs_max;
    let texts: Vec<&RawValue> = payload::parse_array("FAILB", json, max)?;
    let (mut reports, mut malformed) = (Vec::with_capacity(texts.len()), Vec::new());
    for text in texts {
        match fail::parse(text.get().as_bytes()) {
            Ok(mut report) => {
                fail::mark_cancelled(service, reporter, &mut report);
                service.traces.note_failure(&report);
                reports.push(report);
            }
            Err(error) => malformed.push((fail::jid_of(text.get()), error.to_string())),
        }
    }
    let jids: Vec<String> = reports.iter().map(|report| report.jid.to_string()).collect();
    let outcomes = service.store.fail_from(reporter, reports).await;
    let ended = jids.into_iter().zip(outcomes);
    let rejected = ended.filter_map(|(jid, outcome)| match outcome {
        Ok(_) => {
            service.note_ended(reporter, &[&*jid]);
            None
        }
        Err(error) => Some((jid, error.to_string())),
    });
    Ok(FaktoryReply::errors(malformed.into_iter().chain(rejected)))
}
