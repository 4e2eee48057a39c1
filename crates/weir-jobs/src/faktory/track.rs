//! TRACK: reports and stores the progress of a job (Faktory Enterprise).

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::server::JobService;
use crate::settings::JobServerLimits;
use crate::stamp::{parse_rfc3339, rfc3339};
use crate::store::Store;
use crate::tracks::{DESCRIPTION_CHARACTERS_MAX, Track, TrackUpdate};

const COMMAND: &str = "TRACK";
const USAGE: &str =
    "TRACK GET JID, TRACK SET {\"jid\":..,\"percent\":..,\"desc\":..,\"reserve_until\":..}";

/// A job can be reserved for at most this long from now.
const RESERVE_MAX: Duration = Duration::from_secs(86_400);

#[derive(Deserialize)]
struct SetText<'a> {
    #[serde(borrow)]
    jid: Cow<'a, str>,
    percent: Option<f64>,
    desc: Option<String>,
    reserve_until: Option<String>,
}

#[derive(Serialize)]
struct GetText<'a> {
    jid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    desc: Option<&'a str>,
    state: &'a str,
    updated_at: String,
}

/// Runs `TRACK GET jid` or `TRACK SET {..}`.
pub(super) async fn track<S: Store>(
    service: &JobService<S>,
    limits: &JobServerLimits,
    rest: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let text = std::str::from_utf8(rest).map_err(|error| malformed(&error))?;
    match text.split_once(' ') {
        Some(("GET", jid)) => get(service, limits, jid.trim()).await,
        Some(("SET", json)) => set(service, json.as_bytes()).await,
        _ => Err(malformed(&USAGE)),
    }
}

fn malformed(complaint: &dyn std::fmt::Display) -> FaktoryError {
    FaktoryError::malformed(COMMAND, complaint)
}

/// Replies with what is known of a job; its state is `unknown` if that is nothing.
async fn get<S: Store>(
    service: &JobService<S>,
    limits: &JobServerLimits,
    jid: &str,
) -> Result<FaktoryReply, FaktoryError> {
    let max = limits.id_bytes_max;
    if jid.is_empty() || jid.contains(' ') {
        return Err(malformed(&USAGE));
    }
    if jid.len() > max {
        return Err(FaktoryError::IdTooLong { what: "jid", max });
    }
    let track = service.store.track(jid).await?;
    let text = match &track {
        Some(track) => known(jid, track),
        None => {
            GetText { jid, percent: None, desc: None, state: "unknown", updated_at: String::new() }
        }
    };
    let json = serde_json::to_vec(&text).map_err(|error| malformed(&error))?;
    Ok(FaktoryReply::Bulk(json))
}

fn known<'a>(jid: &'a str, track: &'a Track) -> GetText<'a> {
    GetText {
        jid,
        percent: track.percent,
        desc: track.description.as_deref(),
        state: track.state.as_str(),
        updated_at: rfc3339(track.updated_at),
    }
}

/// Stores the progress of a job and extends its reservation. Replies `+OK`, also if the job is not
/// tracked.
async fn set<S: Store>(service: &JobService<S>, json: &[u8]) -> Result<FaktoryReply, FaktoryError> {
    let text: SetText<'_> = payload::parse(COMMAND, json)?;
    let until = text.reserve_until.filter(|until| !until.is_empty());
    let until = until.map(|until| parse_rfc3339(&until)).transpose();
    let until = until.map_err(|error| {
        malformed(&format_args!("reserve_until is not an RFC 3339 time: {error}"))
    })?;
    let update = TrackUpdate {
        percent: text.percent.map(percent),
        description: text.desc.filter(|text| !text.is_empty()).map(description),
    };
    service.store.set_track(&text.jid, update).await?;
    if let Some(until) = until {
        let latest = service.clock.now() + RESERVE_MAX;
        let until = until.min(latest);
        service.store.extend(&text.jid, until).await?;
        service.cancellations.borrow_mut().extend(&text.jid, until);
    }
    Ok(FaktoryReply::Ok)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0 to 100 before"
)]
fn percent(percent: f64) -> u8 {
    percent.clamp(0.0, 100.0) as u8
}

fn description(mut text: String) -> Box<str> {
    if let Some((end, _)) = text.char_indices().nth(DESCRIPTION_CHARACTERS_MAX) {
        text.truncate(end);
    }
    text.into_boxed_str()
}
