//! Enqueues cron jobs at their times, and serves what operators do with them.
//!
//! Nodes that share a store all do so. The store's time decides what is due, whatever the clocks of the nodes say, and
//! the first node that handles a time is the only one.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;
use weir_base::clock::Timestamp;

use super::JobService;
use crate::cron::{self, CronRunOutcome, CronSettings, CronState, CronStates};
use crate::handle::{CronAction, HandleError};
use crate::job::JobBatch;
use crate::metrics::CronRunResult;
use crate::stamp::rfc3339;
use crate::store::{Store, StoreError};
use crate::view;

/// Maximum sleep, because the system clock may be set.
const SLEEP_MAX: Duration = Duration::from_secs(30);

/// Delay before a pass that failed is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Enqueues the jobs of `[[jobs.cron]]` at their times.
pub(crate) async fn run_cron<S: Store>(service: Rc<JobService<S>>) {
    loop {
        let sleep = match pass(&service).await {
            Ok(next) => next.unwrap_or(SLEEP_MAX).min(SLEEP_MAX),
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "cron jobs wait");
                RETRY
            }
        };
        // New settings may have other times.
        let _ = timeout(sleep, service.reloaded.notified()).await;
    }
}

/// Handles everything that is due. Returns how long it is until the next time of any job.
pub(crate) async fn pass<S: Store>(
    service: &JobService<S>,
) -> Result<Option<Duration>, StoreError> {
    let settings = service.settings();
    let capabilities = service.store.capabilities();
    // Those of others are their own, where nodes share a store.
    if settings.cron.is_empty() && (capabilities.shared || !capabilities.cron) {
        return Ok(None);
    }
    let names: Vec<&str> = settings.cron.iter().map(|cron| cron.name.as_str()).collect();
    let CronStates { now, by_name } = service.store.cron_register(&names).await?;
    let (began, mut next, mut failed) = (service.clock.now(), None, None);
    for (cron, state) in settings.cron.iter().filter_map(|it| Some((it, by_name.get(&it.name)?))) {
        let last = match handle_due(service, cron, state, now).await {
            Ok(last) => last,
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            // Other cron jobs do not wait for it.
            Err(error) => {
                if error.is_of_one_job() {
                    tracing::warn!(%error, cron = cron.name, "a cron job waits");
                    next = [next, Some(now + RETRY)].into_iter().flatten().min();
                } else {
                    failed = failed.or(Some(error));
                }
                continue;
            }
        };
        let following = cron.schedule.next_after(last, &cron.timezone.0);
        next = [next, following].into_iter().flatten().min();
    }
    let now = now + service.clock.now().since(began);
    failed.map_or(Ok(next.map(|next: Timestamp| next.since(now))), Err)
}

/// Returns the last time that is handled now.
async fn handle_due<S: Store>(
    service: &JobService<S>,
    cron: &CronSettings,
    state: &CronState,
    now: Timestamp,
) -> Result<Timestamp, StoreError> {
    let Some(run) = cron::due(cron, state.last, now) else { return Ok(state.last) };
    if state.paused || run.is_skipped {
        if service.store.cron_run(&cron.name, run.at, None).await? == CronRunOutcome::Handled {
            let (at, paused) = (rfc3339(run.at), state.paused);
            tracing::info!(cron = cron.name, at, paused, "skipped");
            let result = if paused { CronRunResult::Paused } else { CronRunResult::Missed };
            service.metrics.cron_run(result);
        }
    } else {
        let seconds = run.at.as_micros() / 1_000_000;
        let json = cron.job.json(&format!("cron-{}-{seconds}", cron.name));
        let mut batch = JobBatch::new();
        match batch.parse_one(json.as_bytes(), now, &service.settings().limits) {
            Ok(job) => {
                let stored = service.store.cron_run(&cron.name, run.at, Some(job)).await;
                let result = match stored {
                    Err(_) => Some(CronRunResult::Failed),
                    // By another node, which counts it.
                    Ok(CronRunOutcome::HandledBefore) => None,
                    Ok(CronRunOutcome::Paused) => Some(CronRunResult::Paused),
                    Ok(_) if now.since(run.at) > cron::LATE => Some(CronRunResult::Late),
                    Ok(_) => Some(CronRunResult::Enqueued),
                };
                result.into_iter().for_each(|result| service.metrics.cron_run(result));
                stored?;
            }
            Err(error) => {
                tracing::error!(%error, cron = cron.name, "a cron job can't be stored");
                service.metrics.cron_run(CronRunResult::Failed);
                service.store.cron_run(&cron.name, run.at, None).await?;
            }
        }
    }
    Ok(run.at)
}

/// Returns all cron jobs in the order of the settings.
pub(super) async fn list<S: Store>(
    service: &JobService<S>,
) -> Result<Vec<view::CronView>, HandleError> {
    let settings = service.settings();
    if settings.cron.is_empty() {
        return Ok(Vec::new());
    }
    let CronStates { now, by_name: states } = service.store.cron_states().await?;
    let view = |cron: &CronSettings| {
        let state = states.get(&cron.name);
        let next = cron.schedule.next_after(now, &cron.timezone.0);
        view::CronView {
            name: cron.name.clone(),
            schedule: cron.schedule.to_string(),
            timezone: cron.timezone.to_string(),
            jobtype: cron.job.jobtype.clone(),
            queue: cron.job.queue.clone(),
            next_at: next.map(Timestamp::as_secs_f64),
            last_at: state.map(|state| state.last.as_secs_f64()),
            paused: state.is_some_and(|state| state.paused),
        }
    };
    Ok(settings.cron.iter().map(view).collect())
}

/// Takes over what another Weir remembers of a cron job. A time that this one has handled is not
/// handled again; that it has seen the cron job for the first time is no such time.
pub(super) async fn import_state<S: Store>(
    service: &JobService<S>,
    name: &str,
    mut state: CronState,
) -> Result<(), HandleError> {
    let settings = service.settings();
    let Some(cron) = settings.cron.iter().find(|cron| cron.name == name) else {
        return Err(HandleError::NoCronJob(name.to_owned()));
    };
    pass(service).await?;
    let CronStates { now, by_name } = service.store.cron_states().await?;
    // A time of a clock that is ahead would stop the job until then.
    state.last = state.last.min(now);
    if let Some(own) = by_name.get(name)
        && cron::is_time_of(cron, own.last)
    {
        state.last = state.last.max(own.last);
    }
    Ok(service.store.import_cron(name, state).await?)
}

/// Runs, pauses or resumes a cron job.
pub(super) async fn act<S: Store>(
    service: &JobService<S>,
    name: &str,
    action: CronAction,
) -> Result<(), HandleError> {
    let settings = service.settings();
    let Some(cron) = settings.cron.iter().find(|cron| cron.name == name) else {
        return Err(HandleError::NoCronJob(name.to_owned()));
    };
    match action {
        CronAction::Run => {
            let now = service.clock.now();
            let json = cron.job.json(&format!("cron-{name}-now-{}", now.as_micros()));
            let mut batch = JobBatch::new();
            let job = batch
                .parse_one(json.as_bytes(), now, &settings.limits)
                .map_err(|error| HandleError::Invalid(error.to_string()))?;
            service.store.push(&[job]).await.map_err(|error| match error {
                StoreError::NotUnique => HandleError::CronNotUnique(name.to_owned()),
                error => error.into(),
            })
        }
        CronAction::Pause | CronAction::Resume => {
            // A job that was just added has no state yet.
            pass(service).await?;
            Ok(service.store.cron_pause(name, action == CronAction::Pause).await?)
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::LocalSet;
    use weir_base::clock::Clock;

    use super::*;
    use crate::cron::MissedRuns;
    use crate::memory::MemoryStore;
    use crate::metrics::JobsMetrics;
    use crate::settings::JobServerSettings;

    /// Runs a service with the cron jobs `run` and `skip`, both of every hour. The clock begins at an hour.
    fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<JobService<MemoryStore>>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let mut settings = JobServerSettings::default();
            for (name, missed) in [("run", MissedRuns::RunOnce), ("skip", MissedRuns::Skip)] {
                let mut cron = CronSettings { missed, ..CronSettings::default() };
                cron.name = name.to_owned();
                cron.schedule = "0 * * * *".parse().unwrap();
                cron.job.jobtype = "T".to_owned();
                settings.cron.push(cron);
            }
            let metrics = JobsMetrics::detached();
            let clock =
                Clock::manual(Timestamp::from_millis(1_700_000_000_000 / 3_600_000 * 3_600_000));
            let store = MemoryStore::open(&settings, clock.clone(), metrics.clone());
            let service = Rc::new(JobService::new(Rc::new(store), settings, clock, metrics));
            pass(&service).await.unwrap();
            test(service).await;
        });
    }

    #[test]
    fn each_time_is_counted_by_its_result() {
        run(async |service| {
            use CronRunResult::{Enqueued, Late, Missed, Paused};
            let counts =
                || [Enqueued, Late, Missed, Paused].map(|it| service.metrics.cron_runs(it));
            assert_eq!(counts(), [0; 4], "no time has passed");
            service.clock.advance(Duration::from_secs(3_600));
            pass(&service).await.unwrap();
            assert_eq!(counts(), [2, 0, 0, 0]);
            service.clock.advance(Duration::from_secs(3_700));
            pass(&service).await.unwrap();
            assert_eq!(counts(), [2, 1, 1, 0], "one runs late, the other one is left out");
            service.store.cron_pause("run", true).await.unwrap();
            service.clock.advance(Duration::from_secs(3_500));
            pass(&service).await.unwrap();
            assert_eq!(counts(), [3, 1, 1, 1]);
        });
    }
}
