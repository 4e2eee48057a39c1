//! The loop: sample, decide, carry out or advise, and keep the journal.

mod acts;
mod begin;
mod change_over;
mod commands;
mod database_window;
mod lease_keeper;
mod log;
mod normal_values;
mod publish;
mod slow_changes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_control::{Decision, History, Settings as Rules, State, decide};

use self::change_over::ChangeOver;
use self::database_window::DatabaseWindow;
use self::lease_keeper::{LeaseKeeper, RELEASE_TIMEOUT};
use self::log::Log;
use crate::handle::{AutopilotHandle, Command};
use crate::in_force::InForce;
use crate::lease::LeaseClaim;
use crate::metrics::AutopilotMetrics;
use crate::mode::{JobSystem, Mode};
use crate::roster::LiveRoster;
use crate::sampler::Sampler;
use crate::settings::AutopilotSettings;
use crate::sources::{Actuator, DatabaseSource, JobSource, LeaseStore};
use crate::state_file::{KeptState, StateFile};
use crate::thread_groups::steps;

/// Seconds by which the wall clock differs from the rules' clock between two rounds if it was set. Less is the
/// correction of a clock that runs too fast or too slow.
const CLOCK_STEP_MIN: f64 = 1.0;

/// What an autopilot is made of.
pub struct AutopilotParts {
    /// `[autopilot]`.
    pub settings: AutopilotSettings,
    /// The folder of the journal and of what survives a restart; made when missing.
    pub directory: PathBuf,
    /// The clock of the journal and of times that operators see.
    pub clock: Clock,
    /// The metrics.
    pub metrics: AutopilotMetrics,
    /// The job system, and what can be limited in it.
    pub system: JobSystem,
    /// Its state.
    pub jobs: Box<dyn JobSource>,
    /// How often that is new, if not each time that it is read.
    pub jobs_interval: Duration,
    /// The database; `None`: none is configured.
    pub database: Option<Box<dyn DatabaseSource>>,
    /// What carries limits out, or why nothing can.
    pub actuator: Result<Box<dyn Actuator>, String>,
    /// Where the lease is that lets one of several autopilots act. `None`: there is no place, and none acts.
    pub lease: Option<Box<dyn LeaseStore>>,
    /// The name of the machine, for the holder of the lease.
    pub machine: String,
}

impl std::fmt::Debug for AutopilotParts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { settings, directory, .. } = self;
        let mut shown = formatter.debug_struct("AutopilotParts");
        shown.field("settings", settings).field("directory", directory).finish_non_exhaustive()
    }
}

/// A running autopilot.
pub struct Autopilot {
    settings: AutopilotSettings,
    rules: Rules,
    clock: Clock,
    started: Instant,
    /// The wall clock's time when the rules' clock was 0, as of the last round.
    clock_offset: f64,
    metrics: AutopilotMetrics,
    handle: AutopilotHandle,
    commands: mpsc::Receiver<Command>,
    system: JobSystem,
    jobs: Box<dyn JobSource>,
    change_over: ChangeOver,
    has_database: bool,
    window: DatabaseWindow,
    actuator: Result<Box<dyn Actuator>, String>,
    lease: LeaseKeeper,
    log: Log,
    state_file: StateFile,
    kept: KeptState,
    mode: Mode,
    sampler: Sampler,
    history: History,
    in_force: InForce,
    /// Limits are, or may be, in force that must end.
    must_end: bool,
    /// The decision whose outcome is awaited, by its number in the journal.
    awaited: Option<(u64, Decision)>,
    /// Advice that was given recently: by class and whether it tightens, when and to which value.
    advised: BTreeMap<(Option<usize>, bool), (f64, Option<u32>)>,
    problem: Option<String>,
    /// What is wrong with the limits of classes, as the journal has it.
    class_problem: Option<String>,
    /// Whether a sample of this process has shown the static plan.
    has_plan: bool,
    waiting: u64,
    busy: u32,
    /// When normal values were stored.
    normal_at_seconds: f64,
}

impl std::fmt::Debug for Autopilot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Autopilot").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Autopilot {
    /// Prepares an autopilot: opens its files. Blocks on the disk.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn open(parts: AutopilotParts) -> std::io::Result<(Self, AutopilotHandle)> {
        let AutopilotParts { settings, directory, clock, metrics, jobs, database, .. } = parts;
        let AutopilotParts { actuator, lease, machine, system, jobs_interval, .. } = parts;
        let limits = &settings.limits;
        let log = Log::open(&directory, limits, clock.clone(), metrics.clone())?;
        let state_file = StateFile::within(&directory);
        let kept = state_file.read()?;
        let (handle, commands) = AutopilotHandle::new();
        let roster =
            LiveRoster::new(limits.queues_max, limits.classes_max, system.limits_classes());
        let rules = rules(&settings, system, jobs_interval);
        let mode = kept.mode_in_force(settings.mode);
        let started = Instant::now();
        // Without the store of the lease, nothing is done for longer than without data.
        let lifetime = limits.lease.min(settings.hold_for);
        let claim = LeaseClaim::new(&machine, &data_dir(&directory), lifetime);
        let lease = LeaseKeeper::new(lease, claim, started, limits.sample_timeout);
        let mut autopilot = Self {
            rules,
            clock_offset: clock.now().as_secs_f64(),
            clock,
            started,
            metrics,
            handle: handle.clone(),
            commands,
            system,
            jobs,
            change_over: ChangeOver::default(),
            has_database: database.is_some(),
            window: DatabaseWindow::new(database, &settings),
            actuator,
            lease,
            log,
            state_file,
            kept,
            mode,
            sampler: Sampler::new(roster, settings.default_target.as_secs_f64()),
            history: History::default(),
            in_force: InForce::default(),
            must_end: false,
            awaited: None,
            advised: BTreeMap::new(),
            problem: None,
            class_problem: None,
            has_plan: false,
            waiting: 0,
            busy: 0,
            normal_at_seconds: 0.0,
            settings,
        };
        autopilot.restore_normal_values();
        autopilot.publish();
        Ok((autopilot, handle))
    }

    /// Runs until `stop`. What is in force then ends by itself, unless another process continues it.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut sampling = JoinSet::new();
        if let Some(task) = self.window.take_task() {
            sampling.spawn(task);
        }
        let mut keeping = JoinSet::new();
        if let Some(task) = self.lease.take_task() {
            keeping.spawn(task);
        }
        let mut acting = JoinSet::new();
        if let Some(task) = self.actuator.as_mut().ok().and_then(|actuator| actuator.take_task()) {
            acting.spawn(task);
        }
        self.begin().await;
        let mut ticks = interval(self.settings.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(command) = self.commands.recv() => self.execute(command).await,
                _ = ticks.tick() => self.round().await,
            }
            self.publish();
        }
        self.save_at_the_end();
        self.lease.set_wanted(false);
        drop(self);
        let _ = tokio::time::timeout(RELEASE_TIMEOUT, keeping.join_next()).await;
        keeping.shutdown().await;
        sampling.shutdown().await;
        acting.shutdown().await;
    }

    /// Returns the time on the clock of the rules, which never steps.
    fn now_seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the wall clock's time.
    fn now(&self) -> f64 {
        self.clock.now().as_secs_f64()
    }

    /// Moves what ends at a time of the wall clock if that was set.
    fn follow_clock(&mut self) {
        let offset = self.now() - self.now_seconds();
        let step = offset - std::mem::replace(&mut self.clock_offset, offset);
        if step.abs() < CLOCK_STEP_MIN {
            return;
        }
        tracing::info!(seconds = step, "autopilot: the clock was set; ends of limits move with it");
        self.in_force.follow_clock(step);
        self.save_or_log();
    }

    /// Returns why nothing can be changed here.
    fn cannot_act(&self) -> Option<String> {
        if let Some(reason) = self.cannot_read() {
            return Some(reason.to_owned());
        }
        if self.settings.manage.is_empty() {
            let example = match self.system {
                JobSystem::JobServer => "jobs",
                JobSystem::Sidekiq => "workers.sidekiq",
            };
            return Some(format!(
                "autopilot.manage is empty: \"on\" may change only what it lists, such as manage = [\"{example}\"]"
            ));
        }
        if self.lease.store.is_none() {
            let reason = "\"on\" needs a lease, so that only one autopilot acts: weir.toml has neither [observe.redis] nor \
                 [observe.postgres]";
            return Some(reason.to_owned());
        }
        self.actuator.as_ref().err().cloned()
    }

    /// Returns why nothing can be advised here.
    fn cannot_read(&self) -> Option<&'static str> {
        let reason =
            "the autopilot reads the database of [observe.postgres], which weir.toml does not have";
        (!self.has_database).then_some(reason)
    }

    async fn round(&mut self) {
        self.follow_clock();
        self.end_expired_overrides().await;
        if self.mode == Mode::Off {
            self.end_what_must_end().await;
            return;
        }
        self.sample().await;
        self.note_outcome();
        self.note_lease();
        self.note_change_over();
        self.note_class_limits();
        self.end_limit_of_nothing().await;
        let decision = self.with_state(|state| decide(state, &self.rules, &self.history));
        let decision = decision.filter(|decision| self.may_change_now(decision));
        match (self.mode, decision) {
            (Mode::On, decision) if !self.lease.may_act(self.now_seconds()) => {
                self.stand_by(decision).await;
            }
            (Mode::On, Some(decision)) => self.carry_out(decision).await,
            (Mode::Advise | Mode::Off, Some(decision)) => self.advise(&decision),
            (_, None) => {}
        }
        self.advise_by_hand();
        self.end_without_data().await;
        self.renew().await;
        self.save_normal_values();
    }

    fn with_state<T>(&self, read: impl FnOnce(&State<'_>) -> T) -> T {
        let thread_steps = steps(&self.sampler.groups);
        read(&State {
            now_seconds: self.now_seconds(),
            roster: self.sampler.roster.roster(),
            controls: &self.in_force.controls,
            static_threads: self.sampler.workers(),
            thread_steps: &thread_steps,
        })
    }

    async fn sample(&mut self) {
        let within = self.settings.limits.sample_timeout;
        let loaded = timeout(within, self.jobs.load()).await;
        let name = self.system.name();
        let jobs = match loaded {
            Ok(Ok(Some(jobs))) => jobs,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return self.problem = Some(format!("{name}: {error}")),
            Err(_) => {
                let error = format!("{name} did not reply within {within:?}");
                return self.problem = Some(error);
            }
        };
        let activities = self.window.take();
        self.problem = activities.is_empty().then(|| self.window.problem());
        self.waiting = jobs.queues.iter().map(|queue| queue.waiting).sum();
        self.busy = jobs.busy;
        self.sampler.set_groups(&jobs.groups);
        self.has_plan = true;
        let (now, limit) = (self.now_seconds(), self.in_force.controls.threads);
        let at_seconds = (now - jobs.age_seconds).max(0.0);
        if let Some(sample) = self.sampler.sample(at_seconds, &jobs, &activities, limit) {
            self.history.record(sample, self.sampler.roster.roster(), &self.rules);
        }
    }

    /// Returns how long limits hold without being renewed.
    fn lifetime(&self) -> Duration {
        self.settings.hold_for
    }
}

/// Returns the rules' constants for a job system.
fn rules(settings: &AutopilotSettings, system: JobSystem, jobs_interval: Duration) -> Rules {
    let rules = Rules {
        interval_seconds: settings.interval.as_secs_f64(),
        hold_for_seconds: settings.hold_for.as_secs_f64(),
        ..Rules::default()
    };
    if system == JobSystem::JobServer {
        return rules;
    }
    // There is nothing new between two samples, so recent values and outcomes need two or three of them.
    let interval_seconds = settings.interval.max(jobs_interval).as_secs_f64();
    let (least, most) = rules.judged_after_seconds;
    Rules {
        interval_seconds,
        recent_seconds: rules.recent_seconds.max(2.0 * interval_seconds),
        longer_seconds: rules.longer_seconds.max(4.0 * interval_seconds),
        judged_after_seconds: (least.max(3.0 * interval_seconds), most.max(6.0 * interval_seconds)),
        ..rules
    }
}

/// Returns the data directory of the folder of an autopilot, as everybody on this machine names it.
fn data_dir(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    folder.parent().unwrap_or(&folder).display().to_string()
}

#[cfg(test)]
mod slow_changes_tests;
#[cfg(test)]
mod tests;
