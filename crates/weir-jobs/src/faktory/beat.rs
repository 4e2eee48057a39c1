//! BEAT: the heartbeat of a worker process.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::error::FaktoryError;
use super::payload;
use super::replies::FaktoryReply;
use crate::model::WorkerDirective;
use crate::server::JobService;
use crate::store::Store;

#[derive(Deserialize)]
struct BeatText<'a> {
    #[serde(borrow)]
    wid: Cow<'a, str>,
    #[serde(borrow)]
    current_state: Option<Cow<'a, str>>,
    rss_kb: Option<i64>,
}

/// Runs `BEAT {wid,current_state?,rss_kb?}`. Replies `+OK`, or a bulk `{"state":..}` unless the
/// worker is to keep running. As in Faktory, an unknown `current_state` is ignored: rejecting a
/// BEAT would cost the worker its reservations.
///
/// Only a worker whose HELLO says so gets `"cancel":[jid, ..]`, the jobs that it is to end: clients read the reply
/// strictly. That for Go, for example, would then ignore `state`.
pub(super) fn beat<S: Store>(
    service: &JobService<S>,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let beat: BeatText<'_> = payload::parse("BEAT", json)?;
    let own_state = beat.current_state.as_deref().and_then(WorkerDirective::parse);
    let rss_kb = beat.rss_kb.and_then(|rss_kb| u64::try_from(rss_kb).ok());
    let now = service.clock.now();
    let mut workers = service.workers.borrow_mut();
    let state = workers.beat(&beat.wid, own_state, rss_kb, now);
    let state = state.ok_or_else(|| FaktoryError::unknown_worker(&beat.wid))?;
    let marks = service.cancellations.borrow();
    let cancel = match workers.can_cancel(&beat.wid) {
        true => marks.of_worker(&beat.wid, now),
        false => Vec::new(),
    };
    let state = (state != WorkerDirective::Running).then(|| state.as_str());
    if state.is_none() && cancel.is_empty() {
        return Ok(FaktoryReply::Ok);
    }
    // Serializing texts can't fail.
    Ok(FaktoryReply::Bulk(serde_json::to_vec(&BeatReply { state, cancel }).unwrap_or_default()))
}

#[derive(Serialize)]
struct BeatReply<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancel: Vec<&'a str>,
}
