//! Rules about workers.

use weir_advisor::{Finding, Severity, VerdictFinding};
use weir_jobs::view;

use super::job_facts::JobFacts;
use super::queue_rules::{OLDEST_JOB, UNSERVED_SECONDS};
use crate::figures::{counted, duration, seconds};
use crate::visible::visible;

/// Finds waiting jobs without any connected worker process.
pub(super) fn no_worker_is_connected(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let overview = facts.overview;
    let is_served = overview.workers > 0 || overview.working > 0 || overview.fetches_waiting > 0;
    let is_moving = facts.trend.processed_per_second > 0.0;
    let waiting = jobs_without_sidekiq(facts);
    if is_served || is_moving || waiting == 0 {
        return Vec::new();
    }
    let problem = format!("No worker is connected and {}", waits(waiting));
    let finding = Finding::new("no-worker", Severity::Critical, "workers", problem)
        .since(seconds(facts.overview.latency_seconds_max), OLDEST_JOB);
    let remedy = format!("Start your workers and point them at {}.", facts.jobs_url);
    vec![VerdictFinding::new(finding, remedy, "/workers").affecting(waiting)]
}

/// Returns the number of jobs that wait for a worker of Weir: no process of Sidekiq fetches their queues.
fn jobs_without_sidekiq(facts: &JobFacts<'_>) -> u64 {
    let waiting = facts.queues.iter().filter(|queue| !queue.paused);
    waiting.filter(|queue| !facts.is_served_by_sidekiq(&queue.name)).map(|queue| queue.depth).sum()
}

fn waits(jobs: u64) -> String {
    format!("{} {}", counted(jobs, "job"), if jobs == 1 { "waits" } else { "wait" })
}

/// Finds workers that are all quiet or stopping.
pub(super) fn all_are_leaving(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let waiting = jobs_without_sidekiq(facts);
    let is_long = facts.overview.latency_seconds_max >= UNSERVED_SECONDS;
    if !facts.are_all_workers_leaving() || waiting == 0 || !is_long {
        return Vec::new();
    }
    let problem = format!(
        "No worker takes jobs and {}: {} {} quiet or stopping",
        waits(waiting),
        counted(facts.workers.len() as u64, "worker"),
        if facts.workers.len() == 1 { "is" } else { "are" },
    );
    let finding = Finding::new("workers-leaving", Severity::Critical, "workers", problem)
        .since(seconds(facts.overview.latency_seconds_max), OLDEST_JOB);
    let remedy = "Start new workers, or restart these: a quiet worker stays quiet until it stops.";
    vec![VerdictFinding::new(finding, remedy, "/workers").affecting(waiting)]
}

/// Clients send a heartbeat every 15 s by the protocol; two missing ones are reported.
pub(crate) const SILENT_SECONDS: f64 = 32.0;

/// Finds workers with jobs that send no heartbeats.
pub(super) fn worker_is_silent(facts: &JobFacts<'_>) -> Vec<VerdictFinding> {
    let gone_after = facts.limits.heartbeat_timeout.as_secs_f64();
    let find = |worker: &view::JobWorkerView| {
        let silence = facts.overview.now - worker.last_beat_at;
        if silence < SILENT_SECONDS || worker.busy == 0 {
            return None;
        }
        let wid = visible(&worker.wid);
        let problem = format!(
            "Worker {wid} on {} has sent no heartbeat for {} with {} in progress",
            visible(&worker.hostname),
            duration(silence),
            counted(worker.busy, "job"),
        );
        let subject = format!("worker {wid}");
        let finding = Finding::new("silent-worker", Severity::Warning, subject, problem)
            .since(seconds(silence), "its last heartbeat");
        let remedy = format!(
            "Check its process {}. After {} without a heartbeat its jobs return to their queues.",
            worker.pid,
            duration(gone_after)
        );
        Some(VerdictFinding::new(finding, remedy, "/workers").affecting(worker.busy))
    };
    facts.workers.iter().filter_map(find).collect()
}
