//! What a store shows, made comparable.

use weir_jobs::model::{FailureState, JobLocation};
use weir_jobs::store::{Counts, JobState, QueueCounts, Reserved, Store, StoredJob};

use super::operation::PLACES;
use crate::contract::harness::Harness;
use crate::contract::world::{World, place};

/// Everything visible.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    counts: Counts,
    places: Vec<(String, Vec<SeenJob>)>,
    reserved: Vec<Reserved>,
}

/// A job without what is drawn by lot.
#[derive(Debug, PartialEq)]
pub(super) struct SeenJob {
    jid: String,
    state: JobState,
    queue: String,
    /// Microseconds; 0 for a retry.
    at: u64,
    retry: i32,
    reserve_for_seconds: u32,
    failure: Option<FailureState>,
    json: String,
}

/// `restarted`: the counts per queue began anew in a store that survives the process.
pub(super) async fn seen<H: Harness>(world: &World<H>, restarted: bool) -> Seen {
    let mut counts = world.counts().await;
    counts.queues.sort_by(|a, b| a.name.cmp(&b.name));
    if restarted {
        counts.queues.iter_mut().for_each(forget_totals);
    }
    let sets = PLACES.iter().filter(|name| !name.starts_with("queue:"));
    let queues = counts.queues.iter().map(|queue| format!("queue:{}", queue.name));
    let names: Vec<String> = queues.chain(sets.map(|name| (*name).to_owned())).collect();
    let mut places = Vec::new();
    for name in names {
        let place = place(&name);
        let mut jobs: Vec<SeenJob> = world.list(&place).await.into_iter().map(seen_job).collect();
        if matches!(place, JobLocation::Set(_)) {
            assert!(jobs.is_sorted_by_key(|job| job.at), "{name} is in the order of time");
            jobs.sort_by(|a, b| (a.at, &a.jid).cmp(&(b.at, &b.jid)));
        }
        places.push((name, jobs));
    }
    let mut reserved = world.store().reservations(usize::MAX).await;
    reserved.sort_by(|a, b| (a.since, &a.jid).cmp(&(b.since, &b.jid)));
    Seen { counts, places, reserved }
}

fn forget_totals(queue: &mut QueueCounts) {
    (queue.pushed_total, queue.processed_total, queue.failed_total) = (0, 0, 0);
    queue.arrivals = None;
}

pub(super) fn seen_job(job: StoredJob) -> SeenJob {
    let is_retry = job.state == JobState::In(weir_jobs::model::SetName::Retries);
    let failure = job.failure.map(|failure| FailureState { next_at: None, ..failure });
    SeenJob {
        jid: job.key.jid.into(),
        state: job.state,
        queue: job.queue.to_string(),
        at: if is_retry { 0 } else { job.at.as_micros() },
        retry: job.retry,
        reserve_for_seconds: job.reserve_for_seconds,
        failure,
        json: without_next_at(&job.json),
    }
}

/// The text with `next_at`, which the jitter decides, blanked, and long payloads shortened.
pub(super) fn without_next_at(json: &[u8]) -> String {
    const MEMBER: &str = r#""next_at":""#;
    let mut text = String::from_utf8(json.to_vec()).unwrap().replace(&"x".repeat(64), "");
    if let Some(at) = text.find(MEMBER) {
        let from = at + MEMBER.len();
        let to = from + text[from..].find('"').unwrap();
        text.replace_range(from..to, "");
    }
    text
}
