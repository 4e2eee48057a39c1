//! Sidekiq for the autopilot: its load as the observer samples it, and the threads of groups of workers as the parent runs
//! them.

mod class_limiter;
mod class_mover;
mod groups;
mod limiter;
mod load;
mod thread_limiter;

use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_admin::observed::Observed;
use weir_admin::workers::ParentCommands;
use weir_advisor::observation::{Fact, Missing, SidekiqObservation};
use weir_autopilot::load::JobsLoad;
use weir_autopilot::metrics::AutopilotMetrics;
use weir_autopilot::sources::JobSource;
use weir_base::clock::{Clock, Timestamp};
use weir_config::Settings;

use self::class_limiter::ClassLimiter;
use self::class_mover::{ClassMover, MoverParts};
use self::groups::NOT_REPORTED;
pub(super) use self::groups::WorkerGroups;
pub(super) use self::limiter::SidekiqLimiter;
use self::load::SidekiqLoad;
use self::thread_limiter::ThreadLimiter;

/// Samples that may be late before that is an error.
const INTERVALS_MAX: u32 = 4;

/// Reads what the observer has sampled last. It asks Redis nothing.
#[derive(Debug)]
pub(super) struct SidekiqReader {
    observed: Observed,
    groups: WorkerGroups,
    /// The time between two samples.
    interval: Duration,
    clock: Clock,
    /// The last sample that was read.
    seen: Option<Timestamp>,
    load: SidekiqLoad,
}

impl SidekiqReader {
    pub(super) fn new(
        observed: Observed,
        groups: WorkerGroups,
        interval: Duration,
        clock: Clock,
    ) -> Self {
        Self { observed, groups, interval, clock, seen: None, load: SidekiqLoad::default() }
    }

    fn read(&mut self) -> Result<Option<JobsLoad>, String> {
        let Some(snapshot) = self.observed.latest() else {
            return Err("it has not been sampled yet".to_owned());
        };
        let age = self.clock.now().since(snapshot.at);
        if age > self.interval.saturating_mul(INTERVALS_MAX) {
            return Err(format!("the last sample is {} s old", age.as_secs()));
        }
        let jobs = known(&snapshot.observation.jobs)?;
        if self.seen == Some(snapshot.at) {
            return Ok(None);
        }
        // After an upgrade, the parent sends its state anew.
        if !self.groups.are_reported() {
            return Err(NOT_REPORTED.to_owned());
        }
        self.seen = Some(snapshot.at);
        let workers = self.groups.of(&jobs.processes);
        if self.groups.has_names() && !workers.has_processes() {
            return Err(format!(
                "none of its processes is one of {}: they have no heartbeat in the Redis of [[observe.redis]]",
                self.groups.names().join(", ")
            ));
        }
        self.groups.note_threads(&workers);
        let load = self.load.add(snapshot.at.as_secs_f64(), jobs, &workers);
        Ok(load.map(|load| JobsLoad { age_seconds: age.as_secs_f64(), ..load }))
    }
}

impl JobSource for SidekiqReader {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<JobsLoad>, String>> {
        let read = self.read();
        Box::pin(async { read })
    }
}

/// Returns what carries out the limits for groups of workers.
pub(super) fn limiter(
    settings: &Settings,
    metrics: &AutopilotMetrics,
    groups: &WorkerGroups,
    parent: &ParentCommands,
    clock: &Clock,
) -> SidekiqLimiter {
    let sources = settings.observe.sources();
    let refusal = match (settings.autopilot.move_jobs, sources.redis.len()) {
        (false, _) => Some("autopilot.move_jobs is off".to_owned()),
        (true, 2..) => Some(
            "autopilot.move_jobs works with one Redis, and [[observe.redis]] has several"
                .to_owned(),
        ),
        (true, _) => None,
    };
    // What an earlier process has left is brought back also if it is off now.
    let mover = match sources.redis.as_slice() {
        [redis] => Some(ClassMover::new(MoverParts {
            endpoint: redis.clone(),
            limits: sources.limits,
            interval: settings.autopilot.limits.move_interval,
            steps_max: settings.autopilot.limits.move_steps_max,
            groups: groups.clone(),
            metrics: metrics.clone(),
        })),
        _ => None,
    };
    let (parent, clock) = (parent.clone(), clock.clone());
    let threads = ThreadLimiter::new(groups.clone(), parent.clone(), clock.clone());
    let classes = ClassLimiter::new(groups.clone(), parent, clock, mover, refusal);
    SidekiqLimiter::new(threads, classes)
}

fn known(jobs: &Fact<SidekiqObservation>) -> Result<&SidekiqObservation, String> {
    match jobs {
        Fact::Known(jobs) => Ok(jobs),
        Fact::Unknown(Missing { what, reason, remedy, .. }) => {
            let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            Err(format!("{what}: {reason}{remedy}"))
        }
        Fact::NotAsked => Err("weir.toml has no [[observe.redis]]".to_owned()),
    }
}
