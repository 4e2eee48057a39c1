//! The latency of job queues, for the front's rules that shed requests while a queue is behind.
//!
//! A task for each server reads the queues once a second; another one judges the rules by the latest
//! figures. So a server that does not reply delays nothing, and its figures are out of date in time.

mod latest;
mod sidekiq;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use weir_base::shutdown::ShutdownToken;
use weir_config::Settings;
use weir_front::{Apps, WatchedQueue};
use weir_jobs::handle::Handle;

use self::latest::{LatestFigures, QueueServer};
use self::sidekiq::ObservedQueues;

/// Interval of latency samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The latest figures. A std lock, never held across an await.
#[derive(Clone)]
struct SharedFigures(Arc<Mutex<LatestFigures>>);

impl SharedFigures {
    fn lock(&self) -> MutexGuard<'_, LatestFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts to apply the shed rules of the apps, until `stopping`. `jobs`: the job server, if it is in
/// this process.
pub(super) fn start(
    settings: &Settings,
    apps: &Arc<Apps>,
    jobs: Option<Handle>,
    (tasks, stopping): (&ShutdownToken, &CancellationToken),
) {
    let watched_queues = apps.watched_queues();
    if watched_queues.is_empty() {
        return;
    }
    let sources = settings.observe.sources();
    let configured = settings.jobs.settings.queues.keys().map(ToString::to_string);
    let latest = LatestFigures::new(
        watched_queues,
        jobs.is_some().then(|| configured.collect()),
        sources.redis.len(),
        Instant::now(),
    );
    let latest = SharedFigures(Arc::new(Mutex::new(latest)));
    if let Some(jobs) = jobs {
        tasks.spawn(until(stopping.clone(), sample_jobs(jobs, latest.clone())));
    }
    for (place, endpoint) in sources.redis.into_iter().enumerate() {
        let queues = ObservedQueues::new(endpoint, sources.limits);
        tasks.spawn(until(stopping.clone(), sample_redis(queues, place, latest.clone())));
    }
    let (apps, stopping) = (Arc::clone(apps), stopping.clone());
    tasks.spawn(async move {
        until(stopping, judge(&apps, &latest)).await;
        apps.end_shedding();
    });
}

async fn until(stopping: CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = task => {}
        () = stopping.cancelled() => {}
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Reads the queues of Weir's job server.
async fn sample_jobs(jobs: Handle, latest: SharedFigures) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let queues = jobs.queues().await.map_err(|error| error.to_string());
        let latencies = queues.map(|queues| {
            let latency = |seconds| Duration::try_from_secs_f64(seconds).ok();
            let queues = queues.into_iter();
            queues.map(|queue| (queue.name, latency(queue.latency_seconds))).collect()
        });
        latest.lock().set(QueueServer::Weir, latencies, Instant::now());
    }
}

/// Reads the queues of a Redis that are watched there.
async fn sample_redis(mut queues: ObservedQueues, place: usize, latest: SharedFigures) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        let names = latest.lock().queues_of_sidekiq();
        if names.is_empty() {
            continue;
        }
        let latencies = queues.latencies(&names).await;
        latest.lock().set(QueueServer::Redis(place), latencies, Instant::now());
    }
}

/// Applies the latest figures to the rules.
async fn judge(apps: &Apps, latest: &SharedFigures) {
    let (mut ticks, mut log) = (ticks(), ShedLog::default());
    loop {
        ticks.tick().await;
        let (latest, now) = (latest.lock(), Instant::now());
        apps.update_shed_rules(|queue| latest.samples(queue, now));
        log.log_changes(&apps.queues_of_unknown_latency(), &latest);
    }
}

/// What was logged, to log changes only.
#[derive(Debug, Default)]
struct ShedLog {
    unknown: BTreeSet<WatchedQueue>,
    owners: BTreeMap<WatchedQueue, &'static str>,
}

impl ShedLog {
    fn log_changes(&mut self, unknown: &BTreeSet<WatchedQueue>, latest: &LatestFigures) {
        for (queue, owner) in latest.owners() {
            if self.owners.insert(queue.clone(), owner) != Some(owner) {
                let queue = &queue.name;
                tracing::info!(queue, "front.apps.shed: applies to the queue of {owner}");
            }
        }
        for queue in unknown.difference(&self.unknown) {
            let (queue, why) = (&queue.name, latest.problem(queue));
            tracing::warn!(
                queue,
                why,
                "front.apps.shed: the latency of the queue is not known, so all requests pass"
            );
        }
        for queue in self.unknown.difference(unknown) {
            let queue = &queue.name;
            tracing::info!(queue, "front.apps.shed: the latency of the queue is known again");
        }
        self.unknown.clone_from(unknown);
    }
}
