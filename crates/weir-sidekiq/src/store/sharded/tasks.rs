//! What the sharded store does by itself: serve FETCHes that wait, probe shards that are away,
//! empty those that drain. Each shard's own tasks do the rest.

use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::sharded_core::ShardedCore;
use crate::store::settings::RedisStoreSettings;

/// Polls without a job make the next ones rarer, up to this factor.
const IDLE_FACTOR_MAX: u32 = 5;
/// The sleep of the serving task while no FETCH waits.
const IDLE_SLEEP: Duration = Duration::from_secs(60);
/// Between two probes of a shard that is away, reduced by up to half at random. The link to it makes
/// attempts to connect rarer.
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// Between two steps of the task that empties the sets of shards that drain.
const EVACUATE_EVERY: Duration = Duration::from_secs(1);

/// Starts the tasks. They end with the store.
pub(super) fn spawn(core: &Rc<ShardedCore>, settings: &RedisStoreSettings) -> Vec<JoinHandle<()>> {
    let weak = || Rc::downgrade(core);
    let mut tasks = vec![tokio::task::spawn_local(serve_waiting(weak(), settings.poll_interval))];
    for (place, shard) in core.shards.iter().enumerate() {
        tasks.push(tokio::task::spawn_local(probe(weak(), place)));
        if shard.drains {
            tasks.push(tokio::task::spawn_local(evacuate(weak(), place)));
        }
    }
    tasks
}

/// Serves FETCHes whenever work has arrived, and polls for what others push.
async fn serve_waiting(core: Weak<ShardedCore>, poll_interval: Duration) {
    let mut idle = 1;
    loop {
        let Some((arrived, waits)) =
            core.upgrade().map(|core| (Rc::clone(&core.work_arrived), !core.line.is_empty()))
        else {
            return;
        };
        let sleep = if waits { poll_interval * idle } else { IDLE_SLEEP };
        tokio::select! {
            () = tokio::time::sleep(sleep) => idle = (idle + 1).min(IDLE_FACTOR_MAX),
            () = arrived.notified() => idle = 1,
        }
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        if !core.line.is_empty() {
            // While all shards are away, the FETCHes themselves report it.
            drop(core.serve().await);
        }
    }
}

/// Probes a shard while it can't be used.
async fn probe(core: Weak<ShardedCore>, place: usize) {
    loop {
        tokio::time::sleep(jittered(PROBE_EVERY)).await;
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        let shard = &core.shards[place];
        if !shard.is_usable() {
            shard.probe().await;
            if shard.is_usable() {
                core.wake_waiting_fetches();
            }
        }
    }
}

/// Moves jobs from the sets of a shard that drains.
async fn evacuate(core: Weak<ShardedCore>, place: usize) {
    loop {
        tokio::time::sleep(jittered(EVACUATE_EVERY)).await;
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        if let Err(error) = core.evacuate(place).await {
            let shard = &core.shards[place].name;
            tracing::debug!(shard, %error, "the sets of a shard that drains are not empty yet");
        }
    }
}

fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.5 + fastrand::f64() / 2.0)
}
