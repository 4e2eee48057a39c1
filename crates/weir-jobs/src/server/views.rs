//! Converts the server's state into the plain data of [`crate::view`].

use memchr::memmem;
use serde::Deserialize;
use weir_base::clock::Timestamp;
use weir_log::SegmentInfo;

use super::JobService;
use crate::job_class::job_class;
use crate::model::{FailureState, SetName};
use crate::settings::{Fsync, JobServerSettings, StoreKind};
use crate::stamp::rfc3339;
use crate::store::{
    BackupPoint, CallbackJob, Counts, ExportedFeatures, JobState, QueueCounts, Reserved,
    ShardState, Storage, Store, StoreCondition, StoredJob,
};
use crate::view;

/// Returns the overview of the server.
pub(super) async fn overview<S: Store>(service: &JobService<S>) -> view::JobServerOverview {
    let now = service.clock.now();
    let settings = service.settings();
    let counts = service.store.counts().await;
    let storage = service.store.storage().await;
    let open = counts.queues.iter().filter(|queue| !queue.paused);
    view::JobServerOverview {
        now: now.as_secs_f64(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: now.since(service.started).as_secs_f64(),
        store: settings.store.name().to_owned(),
        fsync: fsync_name(&settings).to_owned(),
        processed_total: counts.processed_total,
        failed_total: counts.failed_total,
        pushed_total: counts.pushed_total,
        enqueued: counts.queues.iter().map(|queue| queue.depth).sum(),
        working: counts.reserved,
        scheduled: counts.scheduled,
        retries: counts.retries,
        dead: counts.dead,
        queues: counts.queues.len() as u64,
        workers: service.workers.borrow().len() as u64,
        connections: service.connections.len() as u64,
        fetches_waiting: service.waiting_fetches.get() as u64,
        latency_seconds_max: open.map(|queue| latency(queue, now)).fold(0.0, f64::max),
        log: log(storage),
        limits_hit: service.metrics.limit_hits(),
        age_seconds: counts.age.as_secs_f64(),
        stores: service.metrics.stores(now),
        limits_lowered_until: counts.limits_lowered_until.map(Timestamp::as_secs_f64),
    }
}

const fn fsync_name(settings: &JobServerSettings) -> &'static str {
    match settings.fsync {
        _ if matches!(settings.store, StoreKind::External) => "",
        Fsync::Always => "always",
        Fsync::EverySecond => "everysec",
        Fsync::Never => "never",
    }
}

fn latency(queue: &QueueCounts, now: Timestamp) -> f64 {
    queue.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64())
}

fn log(storage: Storage) -> view::StorageView {
    let (state, problem) = match storage.condition {
        StoreCondition::Ok => ("ok", None),
        StoreCondition::Low => ("low", Some("disk nearly full: pushes are refused".to_owned())),
        StoreCondition::Full => ("full", Some("disk full: nothing can be written".to_owned())),
        StoreCondition::Failed(problem) => ("failed", Some(problem)),
        StoreCondition::Degraded(problem) => ("degraded", Some(problem)),
        StoreCondition::Unavailable(problem) => ("unavailable", Some(problem)),
    };
    view::StorageView {
        segments: storage.segments,
        bytes: storage.bytes,
        damages: storage.damages,
        state: state.to_owned(),
        problem,
        sync_seconds_p50: storage.sync_seconds_p50,
        sync_seconds_p99: storage.sync_seconds_p99,
        shards: storage.shards.into_iter().map(shard).collect(),
        nodes: storage.nodes.into_iter().map(Into::into).collect(),
        sidekiq_queues: storage.sidekiq_queues,
    }
}

fn shard(shard: ShardState) -> view::ShardView {
    view::ShardView {
        name: shard.name,
        address: shard.address,
        drains: shard.drains,
        away_since: shard.away_since.map(Timestamp::as_secs_f64),
        problem: shard.problem,
        enqueued: shard.enqueued,
        working: shard.reserved,
        scheduled: shard.scheduled,
        retries: shard.retries,
        dead: shard.dead,
        memory_bytes: shard.memory_bytes,
    }
}

/// Converts a damaged range of the log.
pub(super) fn damage(damage: weir_log::Damage) -> view::Damage {
    let weir_log::Damage { file, offset, bytes, set_aside, why } = damage;
    view::Damage { file, offset: offset.into(), bytes, set_aside, why }
}

/// Converts a state of the log to copy.
pub(super) fn backup_point(point: BackupPoint) -> view::BackupPoint {
    let segment = |info: &SegmentInfo| view::BackupSegment {
        number: info.number,
        bytes: info.bytes,
        sealed: info.sealed,
    };
    view::BackupPoint {
        log_id: format!("{:016x}", point.log_id),
        at_ms: point.at.as_millis(),
        segment: point.position.segment,
        offset: point.position.offset,
        marked_second: point.marked_second,
        segments: point.segments.iter().map(segment).collect(),
    }
}

/// Returns all queues, sorted by name.
pub(super) async fn queues<S: Store>(service: &JobService<S>) -> Vec<view::QueueView> {
    let now = service.clock.now();
    let settings = service.settings();
    let counts = service.store.counts().await;
    let in_force = service.store.limit_states(0);
    let mut queues: Vec<_> = counts
        .queues
        .iter()
        .map(|queue| {
            let view = queue_view(service, &settings, &counts, queue, now);
            let concurrency_in_force = in_force.concurrency(&queue.name).or(view.concurrency);
            view::QueueView { concurrency_in_force, ..view }
        })
        .collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    queues
}

fn queue_view<S: Store>(
    service: &JobService<S>,
    settings: &JobServerSettings,
    counts: &Counts,
    queue: &QueueCounts,
    now: Timestamp,
) -> view::QueueView {
    let rates = service.rates.borrow();
    let (rate, drain) = (rates.rate(now, queue), rates.forecast(queue.name.as_str(), queue.depth));
    let queue_settings = settings.queues.get(&queue.name).cloned().unwrap_or_default();
    view::QueueView {
        name: queue.name.to_string(),
        depth: queue.depth,
        latency_seconds: latency(queue, now),
        paused: queue.paused,
        working: queue.reserved,
        blocked: queue.blocked.total(),
        blocked_by: view::BlockedView {
            concurrency: queue.blocked.concurrency,
            rate: queue.blocked.rate,
            resource: queue.blocked.resource,
        },
        pushed: queue.pushed_total,
        processed: queue.processed_total,
        failed: queue.failed_total,
        pushed_per_second: rate.pushed,
        arriving_per_second: rate.arriving,
        processed_per_second: rate.processed,
        drain,
        target_latency_seconds: queue_settings.target_latency.map(|target| target.as_secs_f64()),
        concurrency: queue_settings.concurrency,
        concurrency_in_force: None,
        rate: queue_settings.rate.map(|rate| rate.to_string()),
        fresh_lane: queue_settings.fresh_lane,
        recent: service.recent.borrow().rates(now, queue),
        resources: resources(settings, counts, queue),
    }
}

/// Returns the resources that all jobs of a queue use, or that jobs of it wait for.
fn resources(
    settings: &JobServerSettings,
    counts: &Counts,
    queue: &QueueCounts,
) -> Vec<view::ResourceView> {
    let views = counts.resources.iter().filter_map(|resource| {
        let waiting = queue.blocked_by_resource.iter().find(|(name, _)| *name == resource.name);
        let is_of_queue = || {
            let settings = settings.resources.get(&resource.name);
            settings.is_some_and(|it| it.queues.iter().any(|name| **name == *queue.name.as_str()))
        };
        if waiting.is_none() && !is_of_queue() {
            return None;
        }
        Some(view::ResourceView {
            name: resource.name.clone(),
            used: resource.used,
            concurrency: resource.concurrency,
            rate: resource.rate.clone(),
            blocked: waiting.map_or(0, |(_, jobs)| *jobs),
        })
    });
    views.collect()
}

/// Converts a job.
pub(super) fn job(job: StoredJob) -> view::JobView {
    let features = features(&job);
    let (state, wid) = match job.state {
        JobState::Enqueued => (view::JobViewState::Enqueued, None),
        JobState::Reserved { wid, .. } => (view::JobViewState::Working, wid),
        JobState::In(SetName::Scheduled) => (view::JobViewState::Scheduled, None),
        JobState::In(SetName::Retries) => (view::JobViewState::Retries, None),
        JobState::In(SetName::Dead) => (view::JobViewState::Dead, None),
    };
    view::JobView {
        jid: job.key.jid.to_string(),
        jobtype: job_class(&job.jobtype, &job.json).into_owned(),
        queue: job.queue.to_string(),
        state,
        at: job.at.as_secs_f64(),
        created_at: created_at(&job.json),
        retry: i64::from(job.retry),
        reserve_for_seconds: u64::from(job.reserve_for_seconds),
        failure: job.failure.map(failure),
        wid: wid.map(|wid| wid.to_string()),
        payload: String::from_utf8_lossy(&job.json).into_owned(),
        key: job.key.to_string(),
        features,
    }
}

/// Returns what an export contains beside the text. A job that asks for a lock and holds none has an
/// empty entry, because without one the import would give it a lock.
fn features(job: &StoredJob) -> Option<view::JobFeaturesView> {
    let ExportedFeatures { lock_until, has_failed, callback } = job.features;
    let asks_for_lock = || memmem::find(&job.json, b"unique_for").is_some();
    if job.features == ExportedFeatures::default() && !asks_for_lock() {
        return None;
    }
    Some(view::JobFeaturesView {
        lock_until: lock_until.map(rfc3339),
        failed: has_failed,
        callback: callback.map(|CallbackJob { batch, kind }| view::CallbackView {
            bid: batch.to_string(),
            kind: kind.as_str().to_owned(),
        }),
    })
}

fn created_at(json: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        created_at: Option<String>,
    }
    serde_json::from_slice::<Created>(json).ok()?.created_at
}

fn failure(failure: FailureState) -> view::FailureView {
    view::FailureView {
        retry_count: u64::from(failure.retry_count),
        remaining: u64::from(failure.remaining),
        failed_at: Some(rfc3339(failure.failed_at)),
        next_at: failure.next_at.map(rfc3339),
        message: failure.message,
        errtype: failure.errtype,
        backtrace: failure.backtrace,
    }
}

/// Converts a reservation.
pub(super) fn reservation(reserved: Reserved) -> view::ReservationView {
    view::ReservationView {
        jid: reserved.jid.into(),
        jobtype: reserved.jobtype.into(),
        queue: reserved.queue.to_string(),
        wid: reserved.wid.map(|wid| wid.to_string()),
        since: reserved.since.as_secs_f64(),
        expires_at: reserved.expires_at.as_secs_f64(),
    }
}
