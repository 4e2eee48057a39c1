//! Periodic tasks: reaping workers, sampling totals, reporting the node and its workers.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use weir_base::clock::Timestamp;

use crate::metrics::{JobServerLimit, MetricsSnapshot, QueueSnapshot};
use crate::model::{QueueName, WorkerEnd};
use crate::server::rates::SAMPLE_INTERVAL;
use crate::server::service::OwedRelease;
use crate::server::{JobService, leased_limits, node_report};
use crate::store::{Counts, QueueCounts, QueueTraffic, Store, StoreError, WORKER_REPORT_EVERY};

/// Maximum interval at which the reaper reads the clock, because the machine may sleep or its clock
/// may be set, and at which it tries again to release jobs.
const REAP_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// If the reaper slept for longer, the process was paused.
const REAP_PAUSE_MIN: Duration = Duration::from_secs(10);
/// The interval at which the metrics' snapshot is published.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Reaps each worker once its last BEAT is `limits.heartbeat_timeout` ago.
pub(crate) async fn reap_workers<S: Store>(service: Rc<JobService<S>>) {
    let mut looked_at = None;
    let mut are_beats_shared = true;
    loop {
        let limit = service.settings().limits.heartbeat_timeout;
        let now = service.clock.now();
        // After a pause of this process itself, the heartbeats of living workers are in their sockets.
        if looked_at.is_some_and(|last| now.since(last) > REAP_PAUSE_MIN) {
            service.workers.borrow_mut().renew(now);
        }
        let were_shared =
            std::mem::replace(&mut are_beats_shared, share_beats(&service, now).await);
        // While the store was away, living workers may have sent their BEATs to nodes that could not share them.
        if are_beats_shared && !were_shared {
            service.workers.borrow_mut().renew(now);
        }
        // Without the store, no job could be returned either.
        if are_beats_shared {
            reap(&service, now, limit);
        }
        release_owed(&service).await;
        leased_limits::end_lapsed(&service);
        looked_at = Some(service.clock.now());
        let next = service.workers.borrow().next_reap(limit);
        let wait = next.map_or(REAP_INTERVAL_MAX, |next| next.since(now)).min(REAP_INTERVAL_MAX);
        // New settings may shorten the timeout.
        let _ = timeout(wait, service.reloaded.notified()).await;
    }
}

/// Shares the BEATs that this node received with the other nodes of the store, and asks for those of workers that have
/// sent none to this node for `heartbeat_timeout`: the connections of a worker may be spread over the nodes, and a BEAT
/// reaches one of them. Returns whether the store could be used.
async fn share_beats<S: Store>(service: &JobService<S>, now: Timestamp) -> bool {
    let limit = service.settings().limits.heartbeat_timeout;
    let (received, overdue) = {
        let mut workers = service.workers.borrow_mut();
        (workers.take_unshared_beats(now), workers.overdue(now, limit))
    };
    if !service.store.capabilities().shared || (received.is_empty() && overdue.is_empty()) {
        return true;
    }
    match service.store.exchange_beats(&received, &overdue).await {
        Ok(beats) => {
            let mut workers = service.workers.borrow_mut();
            beats.iter().for_each(|(wid, age)| workers.record_remote_beat(wid, now - *age));
            true
        }
        Err(error) => {
            tracing::debug!(%error, "heartbeats of workers could not be shared with the other nodes");
            let wids = received.into_iter().map(|(wid, _)| wid);
            service.workers.borrow_mut().restore_unshared_beats(wids);
            false
        }
    }
}

/// Gives up the workers that sent no BEAT for `limit`.
fn reap<S: Store>(service: &JobService<S>, now: Timestamp, limit: Duration) {
    let reaped = service.workers.borrow_mut().reap(now, limit);
    for (wid, end) in reaped {
        service.metrics.limit_hit(JobServerLimit::HeartbeatTimeout);
        service.metrics.tasks().worker_reaped();
        tracing::warn!(%wid, "worker stopped beating: its jobs return");
        service.owe_release(wid, end);
    }
}

/// Releases what workers had reserved when they were given up. What can't be released now is tried again with the next
/// call, and keeps no other worker's jobs.
async fn release_owed<S: Store>(service: &JobService<S>) {
    let owed = std::mem::take(&mut *service.owed_releases.borrow_mut());
    let (mut left, mut failed) = (0_u64, None);
    for (wid, OwedRelease { mark, end }) in owed {
        match service.store.release_until(&wid, &mark, end).await {
            Ok(jobs) => {
                let is_counted = end == WorkerEnd::Killed;
                tracing::info!(%wid, jobs, is_counted, "jobs returned");
            }
            Err(error @ StoreError::Closed) => tracing::debug!(%wid, %error, "worker not released"),
            Err(error) => {
                left += 1;
                failed = Some(error);
                let mut owed = service.owed_releases.borrow_mut();
                // It may have been given up again: the later mark includes these reservations.
                let again = owed.entry(wid).or_insert(OwedRelease { mark, end });
                again.end = again.end.after(Some(end));
            }
        }
    }
    if let Some(error) = failed {
        tracing::error!(workers = left, %error, "workers' jobs can't be released; trying again");
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
        // While they can't be read, the last ones and the traffic since then are the best estimate.
        let is_current = counts.age.is_zero();
        if is_current {
            service.sampled_depths.sample(traffic, &counts.queues);
        }
        if is_current {
            service.recent.borrow_mut().sample(now, &counts.queues);
        }
        // The first seconds are no basis for a rate unless they are sampled more often.
        let is_short = service.rates.borrow().measured() < SAMPLE_INTERVAL;
        if is_current && (is_short || sampled.is_none_or(|last| now.since(last) >= SAMPLE_INTERVAL))
        {
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

/// Returns for how many seconds limits are still lower, rounded up.
fn lowered_seconds(counts: &Counts, now: Timestamp) -> u64 {
    let left = counts.limits_lowered_until.map(|until| until.since(now));
    left.map_or(0, |left| left.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX))
}

async fn snapshot<S: Store>(
    service: &JobService<S>,
    counts: &Counts,
    now: Timestamp,
) -> MetricsSnapshot {
    let storage = service.store.storage().await;
    let (settings, in_force) = (service.settings(), service.store.limit_states(0));
    let queues = counts.queues.iter().map(|queue| {
        let set = settings.queues.get(&queue.name).and_then(|queue| queue.concurrency);
        let concurrency = in_force.concurrency(&queue.name).or(set);
        QueueSnapshot { concurrency, ..queue_snapshot(service, queue, now) }
    });
    MetricsSnapshot {
        queues: queues.collect(),
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
        batches_waiting: counts.batches_waiting,
        batch_bytes: counts.batch_bytes,
        buffered_bytes: service.buffers.used_bytes() as u64,
        running_tasks: service.tasks.running() as u64,
        log_segments: storage.segments,
        log_bytes: storage.bytes,
        log_damages: storage.damages,
        shards: storage.shards,
        nodes: storage.nodes,
        resources: counts.resources.clone(),
        limits_lowered_seconds: lowered_seconds(counts, now),
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

fn queue_snapshot<S: Store>(
    service: &JobService<S>,
    queue: &QueueCounts,
    now: Timestamp,
) -> QueueSnapshot {
    QueueSnapshot {
        name: queue.name.to_string(),
        depth: queue.depth,
        latency_seconds: queue.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
        drain: service.rates.borrow().forecast(queue.name.as_str(), queue.depth),
        concurrency: None,
        working: queue.reserved,
        pushed_total: queue.pushed_total,
        processed_total: queue.processed_total,
        failed_total: queue.failed_total,
        lanes: queue.lanes,
        blocked: queue.blocked,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::LocalSet;
    use weir_base::clock::Clock;

    use super::*;
    use crate::faktory::Signal;
    use crate::job::JobBatch;
    use crate::memory::MemoryStore;
    use crate::metrics::JobsMetrics;
    use crate::model::Wid;
    use crate::settings::JobServerSettings;
    use crate::store::{BatchSize, FetchRequest};
    use crate::workers::{ConnectionEnd, Profile};

    const SECOND: Duration = Duration::from_secs(1);
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<JobService<MemoryStore>>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let (settings, metrics) = (JobServerSettings::default(), JobsMetrics::detached());
            let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
            let store = MemoryStore::open(&settings, clock.clone(), metrics.clone());
            let service = Rc::new(JobService::new(Rc::new(store), settings, clock, metrics));
            service.watch_workers();
            test(service).await;
        });
    }

    fn connect(service: &JobService<MemoryStore>) -> Rc<Signal> {
        let signal = Rc::<Signal>::default();
        let (wid, now) = (Wid::new("w1"), service.clock.now());
        let mut workers = service.workers.borrow_mut();
        workers.hello(&wid, Profile::default(), Rc::clone(&signal), now, 10).unwrap();
        signal
    }

    async fn push(service: &JobService<MemoryStore>, jid: &str) {
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[],"reserve_for":60}}"#);
        let (mut batch, settings) = (JobBatch::new(), service.settings());
        let now = service.clock.now();
        let job = batch.parse_one(json.as_bytes(), now, &settings.limits).unwrap();
        service.store.push(&[job]).await.unwrap();
    }

    async fn fetch(service: &JobService<MemoryStore>) -> Option<Box<str>> {
        let wid = Wid::new("w1");
        let queues = [QueueName::parse("default", &service.settings().limits).unwrap()];
        let (max, wait) = (BatchSize::ONE, Duration::ZERO);
        let request = FetchRequest { wid: Some(&wid), queues: &queues, max, wait };
        service.store.fetch(request).await.unwrap().pop().map(|delivery| delivery.jid)
    }

    #[test]
    fn a_worker_that_returns_at_once_keeps_what_it_fetches() {
        run(async |service| {
            connect(&service);
            push(&service, "first-job").await;
            push(&service, "second-job").await;
            assert_eq!(fetch(&service).await.as_deref(), Some("first-job"));
            service.clock.advance(TIMEOUT);
            reap(&service, service.clock.now(), TIMEOUT);
            connect(&service);
            assert_eq!(fetch(&service).await.as_deref(), Some("second-job"));
            release_owed(&service).await;
            assert_eq!(service.store.busy(&Wid::new("w1")), 1);
            assert_eq!(fetch(&service).await.as_deref(), Some("first-job"));
            release_owed(&service).await;
            assert_eq!(service.store.busy(&Wid::new("w1")), 2, "it is released once");
        });
    }

    #[test]
    fn a_worker_that_was_killed_and_ends_in_order_before_its_jobs_return_was_killed() {
        run(async |service| {
            push(&service, "first-job").await;
            for _ in 0..service.settings().limits.returns_max {
                assert_eq!(fetch(&service).await.as_deref(), Some("first-job"));
                service.owe_release(Wid::new("w1"), WorkerEnd::Killed);
                service.owe_release(Wid::new("w1"), WorkerEnd::Stopped);
                release_owed(&service).await;
            }
            assert_eq!(service.store.counts().await.dead, 1);
        });
    }

    /// Lets the reaper read the clock.
    async fn wake(service: &JobService<MemoryStore>) {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        service.set_settings(JobServerSettings::clone(&service.settings()));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn workers_outlive_a_pause_of_weir() {
        run(async |service| {
            let reaper = tokio::task::spawn_local(reap_workers(Rc::clone(&service)));
            connect(&service);
            push(&service, "first-job").await;
            assert_eq!(fetch(&service).await.as_deref(), Some("first-job"));
            let until = service.clock.now() + 10 * TIMEOUT;
            service.store.extend("first-job", until).await.unwrap();
            wake(&service).await;
            service.clock.advance(2 * TIMEOUT);
            wake(&service).await;
            assert_eq!(service.workers.borrow().len(), 1, "its heartbeat may be in the socket");
            assert_eq!(service.store.busy(&Wid::new("w1")), 1);
            for _ in 0..12 {
                service.clock.advance(5 * SECOND);
                wake(&service).await;
            }
            assert_eq!(service.workers.borrow().len(), 0, "it sends none");
            assert_eq!(service.store.busy(&Wid::new("w1")), 0);
            reaper.abort();
        });
    }

    #[test]
    fn the_store_knows_which_workers_are_lost() {
        run(async |service| {
            let signal = connect(&service);
            push(&service, "first-job").await;
            for is_lost in [true, false] {
                assert_eq!(fetch(&service).await.as_deref(), Some("first-job"));
                if is_lost {
                    let wid = Wid::new("w1");
                    service.workers.borrow_mut().disconnect(&wid, &signal, ConnectionEnd::Cut);
                }
                service.clock.advance(TIMEOUT);
                service.store.tick();
                let counts = service.store.counts().await;
                assert_eq!((counts.retries, counts.reserved), (u64::from(!is_lost), 0));
                connect(&service);
            }
        });
    }
}
