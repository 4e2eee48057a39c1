//! The latency of job queues, for the front's rules that shed requests while a queue is behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use weir_front::Apps;
use weir_jobs::handle::Handle;

/// Interval of latency samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Updates the apps with their queues' latencies, until `stopping`.
pub(super) async fn run(apps: Arc<Apps>, jobs: Handle, stopping: CancellationToken) {
    let watched_queues = apps.watched_queues();
    if watched_queues.is_empty() {
        return;
    }
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopping.cancelled() => return,
        }
        apps.update_shed_rules(&latencies(&jobs, &watched_queues).await);
    }
}

/// Returns the latency of each queue. An empty queue has none, and that of an unreachable job
/// server is unknown.
async fn latencies(jobs: &Handle, watched_queues: &BTreeSet<String>) -> BTreeMap<String, Duration> {
    let queues = match jobs.queues().await {
        Ok(queues) => queues,
        Err(error) => {
            tracing::warn!(%error, "cannot read the queues; the rules of front.apps.shed are not applied");
            return BTreeMap::new();
        }
    };
    let watched_queues = queues.into_iter().filter(|queue| watched_queues.contains(&queue.name));
    watched_queues
        .filter_map(|queue| {
            let latency = Duration::try_from_secs_f64(queue.latency_seconds).ok()?;
            Some((queue.name, latency))
        })
        .collect()
}
