//! The autopilot in the service process: on a thread of its own, which no other thread waits for.

mod job_reader;
mod lease;
mod sidekiq;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_admin::observed::Observed;
use weir_admin::workers::{ParentCommands, Reported};
use weir_autopilot::load::{DatabaseActivity, SessionFigures};
use weir_autopilot::metrics::AutopilotMetrics;
use weir_autopilot::sources::{Actuator, CarriedLimits, DatabaseSource, JobSource};
use weir_autopilot::{Autopilot, AutopilotHandle, AutopilotParts, JobSystem};
use weir_base::clock::Clock;
use weir_base::node::hostname;
use weir_config::Settings;
use weir_jobs::handle::Handle;
use weir_jobs::settings::StoreKind;
use weir_jobs::temporary_limits::{RunningLimit, TemporaryLimits};
use weir_observe::{JobSession, JobSessionsReader, PostgresSource};

use self::job_reader::JobReader;
use self::sidekiq::{SidekiqReader, WorkerGroups, limiter};

/// The running autopilot.
#[derive(Debug)]
pub(super) struct RunningAutopilot {
    handle: AutopilotHandle,
    stop: CancellationToken,
    thread: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
}

/// The jobs that the autopilot watches.
pub(super) enum WatchedJobs {
    /// Those of the job server.
    JobServer(Handle),
    /// Those of the observed Sidekiq, and what is known of the processes that the parent runs.
    Sidekiq { observed: Observed, reported: Arc<Mutex<Reported>>, parent_commands: ParentCommands },
}

/// How a job system is read and limited.
struct JobsAccess {
    system: JobSystem,
    source: Box<dyn JobSource>,
    /// How often the source has something new, if not each time.
    interval: Duration,
    actuator: Result<Box<dyn Actuator>, String>,
}

impl RunningAutopilot {
    /// Starts the autopilot, also if it is off: operators may turn it on.
    pub(super) fn start(
        settings: &Settings,
        jobs: WatchedJobs,
        clock: &Clock,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let limits = &settings.autopilot.limits;
        let source = settings.observe.postgres().map(|mut source: PostgresSource| {
            let within = limits.sample_timeout;
            source.limits.statement_timeout = source.limits.statement_timeout.min(within);
            source.limits.connect_timeout = source.limits.connect_timeout.min(within);
            source
        });
        let lease = lease::store(settings, source.as_ref());
        let database = source.map(|source| {
            Box::new(JobSessionsOf(JobSessionsReader::new(source))) as Box<dyn DatabaseSource>
        });
        let metrics = AutopilotMetrics::register(registry);
        let JobsAccess { system, source, interval, actuator } =
            jobs.access(settings, &metrics, clock);
        let parts = AutopilotParts {
            settings: settings.autopilot.clone(),
            directory: settings.autopilot_folder(),
            clock: clock.clone(),
            metrics,
            system,
            jobs: source,
            jobs_interval: interval,
            database,
            actuator,
            lease,
            machine: hostname(),
        };
        let (autopilot, handle) =
            Autopilot::open(parts).context("the files of the autopilot (data_dir/autopilot)")?;
        let stop = CancellationToken::new();
        let running = autopilot.run(stop.clone());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (ended_sender, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("weir-autopilot".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(running);
            drop(ended_sender);
        });
        let thread = thread.context("the thread of the autopilot")?;
        Ok(Self { handle, stop, thread, ended })
    }

    pub(super) fn handle(&self) -> AutopilotHandle {
        self.handle.clone()
    }

    /// Stops it before the job server: the next process continues what is in force.
    pub(super) async fn finish(self) {
        self.stop.cancel();
        let _ = self.ended.await;
        if self.thread.join().is_err() {
            tracing::error!("the autopilot ended unexpectedly; please report this bug");
        }
    }
}

impl WatchedJobs {
    fn access(self, settings: &Settings, metrics: &AutopilotMetrics, clock: &Clock) -> JobsAccess {
        match self {
            Self::JobServer(jobs) => {
                let samples = settings.autopilot.limits.waiting_samples;
                JobsAccess {
                    system: JobSystem::JobServer,
                    source: Box::new(JobReader::new(jobs.clone(), samples)),
                    interval: Duration::ZERO,
                    actuator: job_limiter(settings.jobs.settings.store, jobs),
                }
            }
            Self::Sidekiq { observed, reported, parent_commands } => {
                let manage = settings.autopilot.manage.iter();
                let names = manage.filter_map(|it| it.group().map(str::to_owned)).collect();
                let groups = WorkerGroups::new(reported, names);
                let interval = settings.observe.interval;
                let limiter = limiter(settings, metrics, &groups, &parent_commands, clock);
                let source = SidekiqReader::new(observed, groups, interval, clock.clone());
                JobsAccess {
                    system: JobSystem::Sidekiq,
                    source: Box::new(source),
                    interval: interval.max(HEARTBEAT_INTERVAL),
                    actuator: match settings.autopilot.manage.is_empty() {
                        true => Err(NO_GROUP.to_owned()),
                        false => Ok(Box::new(limiter)),
                    },
                }
            }
        }
    }
}

/// Sidekiq's processes send a heartbeat every 10 seconds (every 5 before version 6.5).
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
const NO_GROUP: &str = "autopilot.manage is empty: \"on\" changes only the threads of groups that it lists, such as manage = \
     [\"workers.sidekiq\"]";

fn job_limiter(store: StoreKind, jobs: Handle) -> Result<Box<dyn Actuator>, String> {
    match store {
        StoreKind::External => {
            Err("\"on\" needs the embedded store; jobs.store is a Redis, whose \
             nodes would limit jobs against each other"
                .to_owned())
        }
        StoreKind::Embedded | StoreKind::Memory => Ok(Box::new(JobLimiter(jobs))),
    }
}

/// Reads the sessions of the database of `[observe.postgres]`.
#[derive(Debug)]
struct JobSessionsOf(JobSessionsReader);

impl DatabaseSource for JobSessionsOf {
    fn activity(&mut self) -> BoxFuture<'_, Result<DatabaseActivity, String>> {
        Box::pin(async {
            let read = self.0.read().await?;
            let figures = |session: JobSession| SessionFigures {
                pid: session.pid,
                comment: session.class,
                application_name: session.application_name,
                is_waiting: session.is_waiting,
                is_idle: session.is_idle,
                blocked_by: session.blocked_by,
            };
            Ok(DatabaseActivity {
                sessions: read.sessions.into_iter().map(figures).collect(),
                connections: read.connections,
                connections_max: read.connections_max,
            })
        })
    }

    fn close(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}

/// Limits jobs in the job server's dispatch.
#[derive(Debug)]
struct JobLimiter(Handle);

impl Actuator for JobLimiter {
    fn apply<'a>(
        &'a mut self,
        limits: &'a CarriedLimits,
        lease: Duration,
    ) -> BoxFuture<'a, Result<(), String>> {
        let running = limits
            .threads
            .map(|max| RunningLimit { max, queues: limits.queues.iter().cloned().collect() });
        let limits = TemporaryLimits { running, types: limits.classes.clone() };
        Box::pin(async move {
            let applied = self.0.limit_temporarily(limits, lease).await;
            applied.map_err(|error| error.to_string())
        })
    }
}
