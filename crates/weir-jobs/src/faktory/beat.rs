//! BEAT: the heartbeat of a worker process.

use std::borrow::Cow;

use serde::Deserialize;

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
pub(super) fn beat<S: Store>(
    service: &JobService<S>,
    json: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let beat: BeatText<'_> = payload::parse("BEAT", json)?;
    let own_state = beat.current_state.as_deref().and_then(WorkerDirective::parse);
    let rss_kb = beat.rss_kb.and_then(|rss_kb| u64::try_from(rss_kb).ok());
    let now = service.clock.now();
    let state = service.workers.borrow_mut().beat(&beat.wid, own_state, rss_kb, now);
    match state.ok_or_else(|| FaktoryError::unknown_worker(&beat.wid))? {
        WorkerDirective::Running => Ok(FaktoryReply::Ok),
        state => {
            Ok(FaktoryReply::Bulk(format!("{{\"state\":\"{}\"}}", state.as_str()).into_bytes()))
        }
    }
}
