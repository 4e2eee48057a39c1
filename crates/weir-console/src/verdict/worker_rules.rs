//! Rules about workers.

use weir_jobs::view;

use super::queue_rules::UNSERVED_SECONDS;
use super::{Finding, JobFacts, Level};
use crate::fetchers::is_running;
use crate::figures::{counted, duration};
use crate::visible::visible;

/// Jobs wait, and no worker process is connected at all.
pub(super) fn nobody_works(facts: &JobFacts<'_>) -> Vec<Finding> {
    let overview = facts.overview;
    let is_served = overview.workers > 0 || overview.working > 0 || overview.fetches_waiting > 0;
    let is_moving = facts.trend.processed_per_second > 0.0;
    let waiting: u64 = facts.queues.iter().filter(|queue| !queue.paused).map(|q| q.depth).sum();
    if is_served || is_moving || waiting == 0 {
        return Vec::new();
    }
    vec![Finding {
        level: Level::Critical,
        what: format!("No worker is connected and {}", waits(waiting)),
        todo: format!("Start your workers and point them at {}.", facts.jobs_url),
        link: "/workers".to_owned(),
        jobs: waiting,
    }]
}

fn waits(jobs: u64) -> String {
    format!("{} {}", counted(jobs, "job"), if jobs == 1 { "waits" } else { "wait" })
}

/// Workers are there, but all of them were told to take no more jobs.
pub(super) fn all_are_leaving(facts: &JobFacts<'_>) -> Vec<Finding> {
    let waiting: u64 = facts.queues.iter().filter(|queue| !queue.paused).map(|q| q.depth).sum();
    let is_long = facts.overview.latency_seconds_max >= UNSERVED_SECONDS;
    if !are_all_leaving(facts) || waiting == 0 || !is_long {
        return Vec::new();
    }
    vec![Finding {
        level: Level::Critical,
        what: format!(
            "No worker takes jobs and {}: {} {} told to take no more",
            waits(waiting),
            counted(facts.workers.len() as u64, "worker"),
            if facts.workers.len() == 1 { "was" } else { "were" },
        ),
        todo: "Start new workers, or restart these: a worker that is quiet stays so until it ends."
            .to_owned(),
        link: "/workers".to_owned(),
        jobs: waiting,
    }]
}

/// Whether there are workers and none takes jobs.
pub(super) fn are_all_leaving(facts: &JobFacts<'_>) -> bool {
    !facts.workers.is_empty() && !facts.workers.iter().any(is_running)
}

/// Clients beat every 15 s by the protocol; two beats missed are worth a word.
pub(crate) const SILENT_SECONDS: f64 = 32.0;

/// A worker that holds jobs has stopped beating.
pub(super) fn worker_is_silent(facts: &JobFacts<'_>) -> Vec<Finding> {
    let gone_after = facts.limits.heartbeat_timeout.as_secs_f64();
    let find = |worker: &view::JobWorkerView| {
        let silence = facts.overview.now - worker.last_beat_at;
        (silence >= SILENT_SECONDS && worker.busy > 0).then(|| Finding {
            level: Level::Warning,
            what: format!(
                "Worker {} on {} is silent for {} with {} in hand",
                visible(&worker.wid),
                visible(&worker.hostname),
                duration(silence),
                counted(worker.busy, "job"),
            ),
            todo: format!(
                "Look at its process {}; after {} without a beat its jobs go back to their queues.",
                worker.pid,
                duration(gone_after)
            ),
            link: "/workers".to_owned(),
            jobs: worker.busy,
        })
    };
    facts.workers.iter().filter_map(find).collect()
}
