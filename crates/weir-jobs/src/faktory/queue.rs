//! QUEUE: pause, resume, remove, latency.

use std::collections::BTreeMap;

use super::refusal::Refusal;
use super::replies::Answer;
use crate::model::{QueueName, check_queue_name};
use crate::server::Service;
use crate::settings::Settings;
use crate::store::{QueueAction, Store};

const COMMAND: &str = "QUEUE";
const USAGE: &str = "QUEUE PAUSE|RESUME|REMOVE NAME.. (or *), QUEUE LATENCY NAME..";

/// `QUEUE ACTION names|*` and `QUEUE LATENCY names`. Unknown names are ignored.
pub(super) async fn queue<S: Store>(
    service: &Service<S>,
    settings: &Settings,
    rest: &[u8],
) -> Result<Answer, Refusal> {
    let text = std::str::from_utf8(rest).map_err(|error| Refusal::malformed(COMMAND, error))?;
    let mut words = text.split_ascii_whitespace();
    let action = match words.next() {
        Some("PAUSE") => QueueAction::Pause,
        Some("RESUME") => QueueAction::Resume,
        Some("REMOVE") => QueueAction::Remove,
        Some("LATENCY") => return latency(service, words),
        _ => return Err(Refusal::malformed(COMMAND, USAGE)),
    };
    let names: Vec<&str> = words.collect();
    let queues = named(service, settings, &names)?;
    service.store.act_on_queues(&queues, action).await?;
    Ok(Answer::Ok)
}

/// The queues that exist among `names`; `*`: all.
fn named<S: Store>(
    service: &Service<S>,
    settings: &Settings,
    names: &[&str],
) -> Result<Vec<QueueName>, Refusal> {
    if names.is_empty() {
        return Err(Refusal::malformed(COMMAND, USAGE));
    }
    let all = names.contains(&"*");
    for name in names.iter().filter(|name| **name != "*") {
        check_queue_name(name, &settings.limits)?;
    }
    let queues = service.store.counts().queues.into_iter().map(|queue| queue.name);
    Ok(queues.filter(|queue| all || names.contains(&queue.as_str())).collect())
}

/// Seconds that the next job of each queue has waited; 0 for an empty or unknown one.
fn latency<'a, S: Store>(
    service: &Service<S>,
    names: impl Iterator<Item = &'a str>,
) -> Result<Answer, Refusal> {
    let now = service.clock.now();
    let counts = service.store.counts();
    let oldest: BTreeMap<&str, _> =
        counts.queues.iter().map(|queue| (queue.name.as_str(), queue.oldest)).collect();
    let seconds: BTreeMap<&str, f64> = names
        .map(|name| {
            let since = oldest.get(name).copied().flatten();
            (name, since.map_or(0.0, |since| now.since(since).as_secs_f64()))
        })
        .collect();
    if seconds.is_empty() {
        return Err(Refusal::malformed(COMMAND, USAGE));
    }
    let json = serde_json::to_vec(&seconds).map_err(|error| Refusal::malformed(COMMAND, error))?;
    Ok(Answer::Bulk(json))
}
