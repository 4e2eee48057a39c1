//! QUEUE: pauses, resumes or removes queues, and reports their latency.

use std::collections::BTreeMap;

use super::error::FaktoryError;
use super::replies::FaktoryReply;
use crate::model::{QueueName, check_queue_name};
use crate::quarantine;
use crate::server::JobService;
use crate::settings::JobServerSettings;
use crate::store::{QueueAction, Store};

const COMMAND: &str = "QUEUE";
const USAGE: &str = "QUEUE PAUSE|RESUME|REMOVE NAME.. (or *), QUEUE LATENCY NAME..";
/// Stands for all queues in place of names.
const ALL: &str = "*";

/// Runs `QUEUE ACTION names|*` or `QUEUE LATENCY names`. The action may be in any case. Ignores
/// unknown names.
pub(super) async fn queue<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    rest: &[u8],
) -> Result<FaktoryReply, FaktoryError> {
    let text =
        std::str::from_utf8(rest).map_err(|error| FaktoryError::malformed(COMMAND, error))?;
    let mut words = text.split_ascii_whitespace();
    let action = words.next().unwrap_or_default().to_ascii_uppercase();
    let names: Vec<&str> = words.collect();
    let action = match action.as_str() {
        "PAUSE" => QueueAction::Pause,
        "RESUME" => QueueAction::Resume,
        "REMOVE" => QueueAction::Remove,
        "LATENCY" => return latency(service, &names).await,
        _ => return Err(FaktoryError::malformed(COMMAND, USAGE)),
    };
    let queues = existing_queues(service, settings, &names).await?;
    service.store.act_on_queues(&queues, action).await?;
    Ok(FaktoryReply::Ok)
}

/// Returns the queues among `names` that exist; for a single `*`, all but those of quarantined jobs, which
/// neither run nor end because of an action on all queues. Rejects `*` together with
/// names, so that a typo does not remove every queue.
async fn existing_queues<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    names: &[&str],
) -> Result<Vec<QueueName>, FaktoryError> {
    if names.is_empty() {
        return Err(FaktoryError::malformed(COMMAND, USAGE));
    }
    let all = *names == [ALL];
    if !all {
        names.iter().try_for_each(|name| check_queue_name(name, &settings.limits))?;
    }
    let queues = service.store.counts().await.queues.into_iter().map(|queue| queue.name);
    let is_meant = |queue: &QueueName| match all {
        true => quarantine::parts(queue.as_str()).is_none(),
        false => names.contains(&queue.as_str()),
    };
    Ok(queues.filter(is_meant).collect())
}

/// Replies with the latency of each queue in seconds: 0 for an empty or unknown one.
async fn latency<S: Store>(
    service: &JobService<S>,
    names: &[&str],
) -> Result<FaktoryReply, FaktoryError> {
    if names.contains(&ALL) {
        return Err(FaktoryError::Wildcard);
    }
    let now = service.clock.now();
    let counts = service.store.counts().await;
    let oldest: BTreeMap<&str, _> =
        counts.queues.iter().map(|queue| (queue.name.as_str(), queue.oldest)).collect();
    let seconds: BTreeMap<&str, f64> = names
        .iter()
        .map(|&name| {
            let since = oldest.get(name).copied().flatten();
            (name, since.map_or(0.0, |since| now.since(since).as_secs_f64()))
        })
        .collect();
    if seconds.is_empty() {
        return Err(FaktoryError::malformed(COMMAND, USAGE));
    }
    let json =
        serde_json::to_vec(&seconds).map_err(|error| FaktoryError::malformed(COMMAND, error))?;
    Ok(FaktoryReply::Bulk(json))
}
