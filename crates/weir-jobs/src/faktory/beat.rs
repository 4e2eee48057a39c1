//! BEAT: a worker process is alive.

use std::borrow::Cow;

use serde::Deserialize;

use super::refusal::Refusal;
use super::replies::Answer;
use crate::server::Service;
use crate::store::Store;
use crate::workers::WorkerState;

#[derive(Deserialize)]
struct BeatText<'a> {
    #[serde(borrow)]
    wid: Cow<'a, str>,
    #[serde(borrow)]
    current_state: Option<Cow<'a, str>>,
    rss_kb: Option<u64>,
}

/// `BEAT {wid,current_state?,rss_kb?}`: `+OK`, or bulk `{"state":..}` once it is not running.
pub(super) fn beat<S: Store>(service: &Service<S>, json: &[u8]) -> Result<Answer, Refusal> {
    let beat: BeatText<'_> =
        serde_json::from_slice(json).map_err(|error| Refusal::malformed("BEAT", error))?;
    let own_state = match beat.current_state.as_deref().filter(|state| !state.is_empty()) {
        None => None,
        Some(word) => Some(WorkerState::parse(word).ok_or_else(|| {
            Refusal::malformed("BEAT", "current_state must be running, quiet or terminate")
        })?),
    };
    let now = service.clock.now();
    let state = service.workers.borrow_mut().beat(&beat.wid, own_state, beat.rss_kb, now);
    match state.ok_or_else(|| Refusal::unknown_worker(&beat.wid))? {
        WorkerState::Running => Ok(Answer::Ok),
        state => Ok(Answer::Bulk(format!("{{\"state\":\"{}\"}}", state.as_str()).into_bytes())),
    }
}
