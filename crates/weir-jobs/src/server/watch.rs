//! Periodic tasks: reaping workers, sampling totals, reporting the node and its workers.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use weir_base::clock::Timestamp;

use crate::metrics::{JobServerLimit, MetricsSnapshot, QueueSnapshot};
use crate::model::{QueueName, Wid, WorkerEnd};
use crate::server::rates::SAMPLE_INTERVAL;
use crate::server::{JobService, node_report};
use crate::store::{Counts, QueueCounts, QueueTraffic, Store, StoreError, WORKER_REPORT_EVERY};

/// Maximum interval at which the reaper reads the clock, because the machine may sleep or its clock
/// may be set.
const REAP_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// If the reaper was away for longer, the process was paused, or it waited for the store.
const REAP_PAUSE_MIN: Duration = Duration::from_secs(10);
/// The interval at which the metrics' snapshot is published.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before a failed release is retried.
const RELEASE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Reaps each worker once its last BEAT is `limits.heartbeat_timeout` ago.
pub(crate) async fn reap_workers<S: Store>(service: Rc<JobService<S>>) {
    let mut looked_at = None;
    loop {
        let limit = service.settings().limits.heartbeat_timeout;
        let now = service.clock.now();
        // After a pause of this process itself, the heartbeats of all workers are late.
        let was_paused = looked_at.is_some_and(|last| now.since(last) > REAP_PAUSE_MIN);
        let reaped = service.workers.borrow_mut().reap(now, limit);
        for (wid, end) in reaped {
            service.metrics.limit_hit(JobServerLimit::HeartbeatTimeout);
            service.metrics.tasks().worker_reaped();
            let end = if was_paused { WorkerEnd::Stopped } else { end };
            release(&service, &wid, end).await;
        }
        looked_at = Some(service.clock.now());
        let next = service.workers.borrow().next_reap(limit);
        let wait = next.map_or(REAP_INTERVAL_MAX, |next| next.since(now)).min(REAP_INTERVAL_MAX);
        // New settings may shorten the timeout.
        let _ = timeout(wait, service.reloaded.notified()).await;
    }
}

async fn release<S: Store>(service: &JobService<S>, wid: &Wid, end: WorkerEnd) {
    loop {
        match service.store.release(wid, end).await {
            Ok(jobs) => {
                let is_counted = end == WorkerEnd::Killed;
                tracing::warn!(%wid, jobs, is_counted, "worker stopped beating: its jobs return");
                return;
            }
            Err(error @ StoreError::Closed) => {
                tracing::debug!(%wid, %error, "worker not released");
                return;
            }
            Err(error) => {
                tracing::error!(%wid, %error, "worker's jobs can't be released; trying again");
                sleep(RELEASE_RETRY_DELAY).await;
            }
        }
    }
}

/// Publishes the metrics' snapshot and samples the totals for the rates, periodically.
pub(crate) async fn sample_totals<S: Store>(service: Rc<JobService<S>>) {
    let mut ticks = interval(PUBLISH_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sampled = None;
    loop {
        ticks.tick().await;
        let now = service.clock.now();
        // Before the depths are read: so a job that is pushed meanwhile may count twice, but never not at all.
        let traffic = limited_traffic(&service);
        let counts = service.store.counts().await;
        service.sampled_depths.sample(traffic, &counts.queues);
        // The first seconds are no basis for a rate unless they are sampled more often.
        let is_short = service.rates.borrow().measured() < SAMPLE_INTERVAL;
        if is_short || sampled.is_none_or(|last| now.since(last) >= SAMPLE_INTERVAL) {
            let left = |queue: &str| service.sampled_depths.left(queue);
            service.rates.borrow_mut().sample(now, &counts.queues, left);
            sampled = Some(now);
        }
        service.metrics.sample_stores(now);
        service.metrics.types().tick(now);
        service.metrics.publish(snapshot(&service, &counts, now).await);
    }
}

/// Returns the queues with a limit whose depths are sampled, with what this node has done to them. A store that knows
/// depths at any time needs no samples.
fn limited_traffic<S: Store>(service: &JobService<S>) -> Vec<(QueueName, QueueTraffic)> {
    let settings = service.settings();
    let limited = settings.queues.iter().filter(|(name, queue)| {
        queue.jobs_max.is_some() && service.store.depth(name.as_str()).is_none()
    });
    limited.map(|(name, _)| (name.clone(), service.store.traffic(name.as_str()))).collect()
}

async fn snapshot<S: Store>(
    service: &JobService<S>,
    counts: &Counts,
    now: Timestamp,
) -> MetricsSnapshot {
    let storage = service.store.storage().await;
    MetricsSnapshot {
        queues: counts.queues.iter().map(|queue| queue_snapshot(queue, now)).collect(),
        scheduled: counts.scheduled,
        retries: counts.retries,
        dead: counts.dead,
        working: counts.reserved,
        pushed_total: counts.pushed_total,
        processed_total: counts.processed_total,
        failed_total: counts.failed_total,
        connections: service.connections.len() as u64,
        workers: service.workers.borrow().len() as u64,
        fetches_waiting: service.waiting_fetches.get() as u64,
        unique_locks: counts.unique_locks,
        tracked: counts.tracked,
        batches: counts.batches,
        batch_bytes: counts.batch_bytes,
        buffered_bytes: service.buffers.used_bytes() as u64,
        log_segments: storage.segments,
        log_bytes: storage.bytes,
        log_damages: storage.damages,
        shards: storage.shards,
        nodes: storage.nodes,
        resources: counts.resources.clone(),
    }
}

/// Reports the node and its workers to those who share the store's data, and passes on the directives
/// that they left.
pub(crate) async fn exchange_reports<S: Store>(service: Rc<JobService<S>>) {
    let mut ticks = interval(WORKER_REPORT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let reports = service.workers.borrow().reports(|wid| service.store.busy(wid));
        let node = node_report::of(&service, &reports).await;
        let directives = service.store.exchange_reports(node, reports).await;
        let mut workers = service.workers.borrow_mut();
        for (wid, directive) in directives {
            workers.send_directive(Some(wid.as_str()), directive);
        }
    }
}

fn queue_snapshot(queue: &QueueCounts, now: Timestamp) -> QueueSnapshot {
    QueueSnapshot {
        name: queue.name.to_string(),
        depth: queue.depth,
        latency_seconds: queue.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
        working: queue.reserved,
        pushed_total: queue.pushed_total,
        processed_total: queue.processed_total,
        failed_total: queue.failed_total,
        lanes: queue.lanes,
        blocked: queue.blocked,
    }
}
