//! Samples the database in a task of its own, so that a slow one delays nothing. The loop takes what has been sampled
//! since the last round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::load::DatabaseActivity;
use crate::settings::AutopilotSettings;
use crate::sources::DatabaseSource;

/// Samples that wait for the loop.
const SAMPLES_MAX: usize = 64;
/// After an error the next samples are further apart, up to this factor.
const SLOWER_MAX: u32 = 8;

/// The samples since the last round.
pub(super) struct DatabaseWindow {
    shared: Arc<Shared>,
    task: Option<BoxFuture<'static, ()>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_wanted: AtomicBool,
    samples: Mutex<Samples>,
}

#[derive(Debug, Default)]
struct Samples {
    activities: Vec<DatabaseActivity>,
    error: Option<String>,
}

impl DatabaseWindow {
    pub(super) fn new(
        database: Option<Box<dyn DatabaseSource>>,
        settings: &AutopilotSettings,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (every, within) = (settings.limits.sample_interval, settings.limits.sample_timeout);
        let task = database.map(|database| {
            let task = sample(database, Arc::clone(&shared), every, within);
            Box::pin(task) as BoxFuture<'static, ()>
        });
        Self { shared, task }
    }

    /// Returns the task that samples.
    pub(super) fn take_task(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.task.take()
    }

    /// Starts or stops sampling.
    pub(super) fn set_wanted(&self, is_wanted: bool) {
        self.shared.is_wanted.store(is_wanted, Ordering::Relaxed);
    }

    /// Returns the samples since the last call.
    pub(super) fn take(&self) -> Vec<DatabaseActivity> {
        std::mem::take(&mut self.shared.lock().activities)
    }

    /// Returns why there are none.
    pub(super) fn problem(&self) -> String {
        let error = self.shared.lock().error.clone();
        error.unwrap_or_else(|| "the database has not replied yet".to_owned())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sample(
    mut database: Box<dyn DatabaseSource>,
    shared: Arc<Shared>,
    every: Duration,
    within: Duration,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut slower, mut skipped, mut is_open) = (1, 0, false);
    loop {
        ticks.tick().await;
        if !shared.is_wanted.load(Ordering::Relaxed) {
            if std::mem::take(&mut is_open) {
                database.close().await;
            }
            continue;
        }
        skipped += 1;
        if skipped < slower {
            continue;
        }
        skipped = 0;
        is_open = true;
        let sampled = timeout(within, database.activity()).await;
        let sampled = sampled.unwrap_or_else(|_| Err(format!("no reply within {within:?}")));
        let mut samples = shared.lock();
        match sampled {
            Ok(activity) => {
                slower = 1;
                samples.error = None;
                if samples.activities.len() >= SAMPLES_MAX {
                    samples.activities.remove(0);
                }
                samples.activities.push(activity);
            }
            Err(error) => {
                slower = (slower * 2).min(SLOWER_MAX);
                samples.error = Some(format!("the database: {error}"));
            }
        }
    }
}
