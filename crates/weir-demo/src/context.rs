//! What all tasks of the load share.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;

use crate::faktory::FaktoryError;
use crate::figures::Meter;
use crate::flood_jobs::FloodJobs;
use crate::traffic::Flood;

/// Pause before a connection that ended is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// How often rates are turned into jobs, events and requests.
const TICK: Duration = Duration::from_millis(20);

/// Where Weir is, and how much is sent to it.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The job server.
    pub jobs: SocketAddr,
    /// The front, which also serves realtime.
    pub front: SocketAddr,
    /// The socket of the admin API.
    pub admin: PathBuf,
    /// The secret of the realtime app.
    pub secret: String,
    /// Realtime clients.
    pub clients: usize,
    /// Time between reports.
    pub every: Duration,
    /// Whether reports include the autopilot.
    pub has_autopilot: bool,
}

/// What all tasks share.
#[derive(Debug)]
pub(crate) struct LoadContext {
    pub(crate) settings: LoadSettings,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    /// The worker process that all connections belong to.
    pub(crate) wid: String,
    /// The flood in progress, or the last one.
    flood: Mutex<Option<Flood>>,
    /// The jobs of that flood.
    flood_jobs: Mutex<FloodJobs>,
    shutdown: ShutdownToken,
}

impl LoadContext {
    pub(crate) fn new(settings: LoadSettings, shutdown: ShutdownToken) -> Arc<Self> {
        let wid = format!("demo-{:016x}", fastrand::u64(..));
        let (clock, meter, flood) = (Clock::system(), Meter::default(), Mutex::new(None));
        let flood_jobs = Mutex::new(FloodJobs::default());
        Arc::new(Self { settings, clock, meter, wid, flood, flood_jobs, shutdown })
    }

    /// Runs a task until it ends or the shutdown is requested.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.shutdown.spawn(async move {
            tokio::select! {
                () = shutdown.requested() => {}
                () = task => {}
            }
        });
    }

    /// Runs `session` again and again: each is one connection, which ends when Weir is replaced.
    pub(crate) async fn repeat<E, F>(&self, mut session: impl FnMut() -> F)
    where
        F: Future<Output = Result<(), E>>,
    {
        loop {
            if session().await.is_err() {
                self.meter.record(|counts| counts.reconnects += 1);
            }
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// Begins a flood, unless there is one.
    pub(crate) fn begin(&self, flood: Flood) -> Result<(), Flood> {
        let mut present = self.flood.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = present.filter(|present| flood.began < present.until) {
            return Err(present);
        }
        self.flood_jobs(FloodJobs::clear);
        *present = Some(flood);
        Ok(())
    }

    /// Returns the flood in progress.
    pub(crate) fn flood(&self) -> Option<Flood> {
        self.last_flood().filter(|flood| self.clock.now() < flood.until)
    }

    /// Returns the flood in progress, or the last one.
    pub(crate) fn last_flood(&self) -> Option<Flood> {
        *self.flood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the jobs of the flood.
    pub(crate) fn flood_jobs<T>(&self, access: impl FnOnce(&mut FloodJobs) -> T) -> T {
        access(&mut self.flood_jobs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the factor of all rates.
    pub(crate) fn factor(&self) -> f64 {
        self.flood().map_or(1.0, |flood| flood.factor(self.clock.now()))
    }
}

/// Ticks, and says how much time has passed since the last one.
#[derive(Debug)]
pub(crate) struct Ticks {
    interval: Interval,
    last: tokio::time::Instant,
}

impl Ticks {
    pub(crate) fn new() -> Self {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { interval, last: tokio::time::Instant::now() }
    }

    /// Waits for the next tick.
    pub(crate) async fn next(&mut self) -> Duration {
        self.interval.tick().await;
        let elapsed = self.last.elapsed();
        self.last += elapsed;
        elapsed
    }
}

/// The result of a session over the Faktory protocol.
pub(crate) type JobSession = Result<(), FaktoryError>;
