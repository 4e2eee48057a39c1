//! What the store does by itself: serve FETCHes that wait, move due jobs, keep the lease, return
//! the jobs of dead nodes, write what Sidekiq's pages show.

use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use weir_jobs::store::StoreError;

use super::server_figures::FIGURES_EVERY;
use super::settings::RedisStoreSettings;
use super::store_core::StoreCore;
use super::tracks::send_notes;

/// Polls without a job make the next ones rarer, up to this factor.
const IDLE_FACTOR_MAX: u32 = 5;
/// The sleep of the serving task while no FETCH waits.
const IDLE_SLEEP: Duration = Duration::from_secs(60);

/// The lease is renewed, and dead nodes are looked for, this often in its time.
const RENEWALS_PER_LEASE: u32 = 6;
const REAPS_PER_LEASE: u32 = 12;

/// How often nodes of a cluster that are away are tried again. Attempts become rarer.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// How often Sidekiq's counters and the metrics of classes are written, as by Sidekiq.
const STATISTICS_EVERY: Duration = Duration::from_secs(10);

/// Starts the tasks. They end with the store.
pub(super) fn spawn(core: &Rc<StoreCore>, settings: &RedisStoreSettings) -> Vec<JoinHandle<()>> {
    let weak = || Rc::downgrade(core);
    let lease = core.lease;
    let mut tasks = vec![
        tokio::task::spawn_local(serve_waiting(weak(), settings.poll_interval)),
        tokio::task::spawn_local(send_notes(weak())),
        tokio::task::spawn_local(repeat(weak(), settings.schedule_interval, Duty::Due)),
        tokio::task::spawn_local(repeat(weak(), lease / RENEWALS_PER_LEASE, Duty::Renew)),
        tokio::task::spawn_local(repeat(weak(), lease / REAPS_PER_LEASE, Duty::Reap)),
        tokio::task::spawn_local(repeat(weak(), STATISTICS_EVERY, Duty::Statistics)),
        tokio::task::spawn_local(repeat(weak(), FIGURES_EVERY, Duty::Figures)),
        tokio::task::spawn_local(repeat(weak(), PROBE_EVERY, Duty::ProbeNodes)),
    ];
    if core.link.uses_sentinels() {
        let checking = repeat(weak(), settings.sentinel_interval, Duty::CheckPrimary);
        tasks.push(tokio::task::spawn_local(checking));
    }
    tasks
}

/// Why the serving task goes on.
enum WakeUp {
    Time,
    Work,
    /// A FETCH waits, and none did before.
    FirstWait,
}

/// Serves FETCHes whenever work has arrived, polls for what others push, and wakes queues whose next job may start.
async fn serve_waiting(core: Weak<StoreCore>, poll_interval: Duration) {
    let mut idle = 1;
    loop {
        let Some(waits) = core.upgrade().map(|core| !core.waiting.is_empty()) else { return };
        let sleep = if waits { poll_interval * idle } else { IDLE_SLEEP };
        match wake_up(&core, waits, Instant::now() + sleep).await {
            WakeUp::Time => idle = (idle + 1).min(IDLE_FACTOR_MAX),
            WakeUp::Work => idle = 1,
            WakeUp::FirstWait => {
                idle = 1;
                continue;
            }
        }
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        // While Redis is away, the FETCHes themselves report it.
        drop(core.ready().await);
        if !core.waiting.is_empty() {
            drop(core.serve().await);
        }
    }
}

/// Waits for work, for the time of the next poll, or until a queue wakes.
async fn wake_up(core: &Weak<StoreCore>, waits: bool, poll_at: Instant) -> WakeUp {
    loop {
        let Some((arrived, began, slept, wakes_in)) = core.upgrade().map(|core| {
            let (arrived, began) = (Rc::clone(&core.work_arrived), Rc::clone(&core.wait_began));
            (arrived, began, Rc::clone(&core.sleep_began), core.wakes_in())
        }) else {
            return WakeUp::Time;
        };
        let wakes_at = wakes_in.filter(|_| waits).map(|wakes_in| Instant::now() + wakes_in);
        tokio::select! {
            () = tokio::time::sleep_until(wakes_at.map_or(poll_at, |it| it.min(poll_at))) => {
                return WakeUp::Time;
            }
            () = arrived.notified() => return WakeUp::Work,
            () = began.notified(), if !waits => return WakeUp::FirstWait,
            // Perhaps it wakes before the next poll.
            () = slept.notified(), if waits => {}
        }
    }
}

/// A duty that every node does at its own pace.
#[derive(Clone, Copy, Debug)]
enum Duty {
    Due,
    Renew,
    Reap,
    Statistics,
    Figures,
    ProbeNodes,
    CheckPrimary,
}

impl Duty {
    async fn run(self, core: &Rc<StoreCore>) -> Result<(), StoreError> {
        match self {
            Self::Due => core.run_due().await,
            Self::Renew => core.renew_lease().await,
            Self::Reap => {
                let mut connection = core.ready().await?;
                core.reap_if_needed(&mut connection).await
            }
            Self::CheckPrimary => {
                core.link.check_primary().await;
                Ok(())
            }
            Self::ProbeNodes => {
                core.link.probe_nodes().await;
                Ok(())
            }
            Self::Statistics => {
                let mut connection = core.ready().await?;
                core.flush_statistics(&mut connection).await?;
                core.flush_class_metrics(&mut connection).await
            }
            Self::Figures => core.publish_server_figures().await,
        }
    }
}

async fn repeat(core: Weak<StoreCore>, interval: Duration, duty: Duty) {
    let mut failing_since: Option<Instant> = None;
    loop {
        // Nodes that were started together do not stay in step.
        tokio::time::sleep(interval.mul_f64(0.75 + fastrand::f64() / 4.0)).await;
        let Some(core) = core.upgrade() else { return };
        if core.closed.get() {
            return;
        }
        match duty.run(&core).await {
            Ok(()) => failing_since = None,
            // The link has logged it.
            Err(_) if core.link.absence_text().is_some() => {}
            Err(error) if failing_since.is_none() => {
                failing_since = Some(Instant::now());
                tracing::warn!(%error, ?duty, "Redis can't be used; trying again");
            }
            Err(_) => {}
        }
    }
}
