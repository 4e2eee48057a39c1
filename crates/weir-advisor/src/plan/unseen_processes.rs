//! Processes that run without a heartbeat in this Redis: what they do is not known, and another process
//! in their place would run their jobs a second time, or only wait as well.

use crate::observation::{Fact, Observation, ProcessPlace, ProcessPresence, SidekiqObservation};
use crate::wording;

/// Describes them, or why this Redis keeps no heartbeats. Returns `None` if neither is known.
pub(super) fn found(observation: &Observation) -> Option<String> {
    let jobs = observation.jobs.known()?;
    let redis = observation.redis.first().and_then(Fact::known);
    let loss = redis.and_then(|redis| redis.loses_heartbeats(jobs));
    let names = names(jobs);
    let (run, it) = if names.len() == 1 { ("runs", "it") } else { ("run", "them") };
    let named = wording::list(names.iter().map(String::as_str));
    match loss {
        _ if names.is_empty() && jobs.serving().next().is_some() => None,
        Some(loss) if names.is_empty() => Some(format!(
            "{loss}: processes may run that are not seen; start no other one before that is resolved"
        )),
        None if names.is_empty() => None,
        loss => Some(format!(
            "{named} {run} on this machine, but this Redis has no recent heartbeat of {it}: start no \
             other process in the place of {it}{}",
            loss.map(|loss| format!(". {loss}")).unwrap_or_default()
        )),
    }
}

/// Names the Sidekiqs of this machine whose heartbeats do not reach this Redis.
fn names(jobs: &SidekiqObservation) -> Vec<String> {
    let silent = jobs
        .processes
        .iter()
        .filter(|it| it.presence == ProcessPresence::Silent && it.place == ProcessPlace::Here);
    let listed = silent.map(|it| &it.identity).chain(&jobs.running_ghosts).cloned();
    listed.chain(jobs.unlisted.iter().map(|pid| format!("process {pid}"))).collect()
}
