//! Runs tasks, step by step.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use weir_base::backoff::Backoff;
use weir_base::shutdown::ShutdownToken;

use super::record::{LiveTask, TaskPart, TaskRecord};
use crate::handle::{HandleError, StepAction};
use crate::model::{EntryKey, JobLocation};
use crate::server::JobService;
use crate::server::parsing::{parse_filter, parse_key, parse_location};
use crate::server::steps::{self, Plan, StepCursor, StepPage};
use crate::store::{Filter, ScanRequest, Store, StoreError};
use crate::view::TaskState;

/// The pause after a step is as long as the step, within these limits.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The time between two attempts while the store can't be reached.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// A step that changes nothing is saved only if the file is older.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Runs all tasks that are to run, until the server ends.
pub(in crate::server) async fn supervise<S: Store>(
    service: Rc<JobService<S>>,
    shutdown: ShutdownToken,
) {
    loop {
        let changed = service.tasks.changed.notified();
        for id in begin_all(&service) {
            shutdown.spawn_local(run(Rc::clone(&service), id, shutdown.clone()));
        }
        tokio::select! {
            biased;
            () = shutdown.requested() => return,
            () = changed => {}
        }
    }
}

/// Returns the tasks that are to run and do not yet.
fn begin_all<S>(service: &JobService<S>) -> Vec<u64> {
    let kept = service.tasks.kept.borrow();
    let mut live = service.tasks.live.borrow_mut();
    let running = kept.tasks.iter().filter(|task| task.state == TaskState::Running);
    let begun: Vec<u64> = running.map(|task| task.id).filter(|id| !live.contains_key(id)).collect();
    live.extend(begun.iter().map(|id| (*id, LiveTask::default())));
    begun
}

async fn run<S: Store>(service: Rc<JobService<S>>, id: u64, shutdown: ShutdownToken) {
    let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX, fastrand::Rng::new());
    while !shutdown.is_requested() {
        let changed = service.tasks.changed.notified();
        if is_to_stop(&service, id) {
            end(&service, id, TaskState::Stopped, None).await;
            break;
        }
        match turn(&service, id, &shutdown).await {
            Ok(StepOutcome::More) => backoff.reset(),
            Ok(StepOutcome::Done) => {
                end(&service, id, TaskState::Done, None).await;
                break;
            }
            Err(error) if is_closed(&error) => break,
            Err(error) if is_passing(&error) => {
                service.tasks.set_waiting(id, Some(error.to_string()));
                tracing::warn!(id, %error, "a task waits");
                tokio::select! {
                    () = shutdown.requested() => {}
                    () = changed => {}
                    () = tokio::time::sleep(backoff.next_delay()) => {}
                }
            }
            Err(error) => {
                end(&service, id, TaskState::Failed, Some(error.to_string())).await;
                break;
            }
        }
    }
    service.tasks.live.borrow_mut().remove(&id);
    // A resumed one may run again only now.
    service.tasks.changed.notify_waiters();
}

const fn is_closed(error: &HandleError) -> bool {
    matches!(error, HandleError::Store(StoreError::Closed))
}

/// Returns whether the same step may succeed later, without an operator's change to the task.
const fn is_passing(error: &HandleError) -> bool {
    matches!(
        error,
        HandleError::TaskNotSaved(_)
            | HandleError::Store(
                StoreError::Unavailable(_)
                    | StoreError::Uncertain(_)
                    | StoreError::Full(_)
                    | StoreError::DiskFull
                    | StoreError::Failed(_)
            )
    )
}

async fn end<S: Store>(service: &JobService<S>, id: u64, state: TaskState, reason: Option<String>) {
    let now = service.clock.now();
    let tasks = &service.tasks;
    tasks.end(id, state, reason, now);
    tasks.read(id, |task| {
        let TaskRecord { examined, changed, reason, .. } = task;
        tracing::info!(id, %state, examined, changed, reason, "a task has ended");
    });
    tasks.forget_ended(service.settings().limits.ended_tasks_max, &service.metrics);
    if let Err(error) = tasks.save(now).await {
        // After a restart it goes on from the last step that was saved, and finds no more jobs to change.
        tracing::warn!(id, %error, "the end of a task is not saved");
    }
}

/// Whether more steps follow.
enum StepOutcome {
    More,
    Done,
}

fn is_to_stop<S>(service: &JobService<S>, id: u64) -> bool {
    service.tasks.read(id, |task| task.is_stopping).unwrap_or(true)
}

/// Runs one step, and pauses for as long as it took, so that clients of the store are served.
async fn turn<S: Store>(
    service: &JobService<S>,
    id: u64,
    shutdown: &ShutdownToken,
) -> Result<StepOutcome, HandleError> {
    let _alone = service.tasks.steps.lock().await;
    // It may have waited for the steps of other tasks.
    if shutdown.is_requested() || is_to_stop(service, id) {
        return Ok(StepOutcome::More);
    }
    let began = service.clock.now();
    let outcome = step(service, id).await?;
    let now = service.clock.now();
    let examined = service.tasks.read(id, |task| task.examined).unwrap_or_default();
    if let Some(live) = service.tasks.live.borrow_mut().get_mut(&id) {
        live.waits_for = None;
        live.sample(examined, now);
    }
    if matches!(outcome, StepOutcome::More) {
        tokio::select! {
            () = shutdown.requested() => {}
            () = tokio::time::sleep(now.since(began).clamp(PAUSE_MIN, PAUSE_MAX)) => {}
        }
    }
    Ok(outcome)
}

/// What a step needs to know of its task.
struct Step {
    part: TaskPart,
    place: JobLocation,
    cursor: StepCursor,
    filter: Filter,
    action: StepAction,
    pending: Vec<String>,
}

impl Step {
    /// Returns the next step. `None`: there is none.
    fn next<S: Store>(service: &JobService<S>, id: u64) -> Result<Option<Self>, HandleError> {
        let task = service.tasks.read(id, |task| {
            let part = task.parts.front().cloned()?;
            let filter = parse_filter(task.search.as_deref(), task.jobtype.clone());
            Some((part, filter, task.action.clone(), task.pending.clone()))
        });
        let Some((part, filter, action, pending)) = task.flatten() else { return Ok(None) };
        let place = parse_location(&part.place, service)?;
        let after = part.after.as_deref().map(parse_key).transpose()?;
        let cursor = StepCursor { start: part.start, after };
        Ok(Some(Self { part, place, cursor, filter, action, pending }))
    }
}

async fn step<S: Store>(service: &JobService<S>, id: u64) -> Result<StepOutcome, HandleError> {
    let tasks = &service.tasks;
    let Some(step) = Step::next(service, id)? else { return Ok(StepOutcome::Done) };
    if !step.pending.is_empty() {
        settle(service, id, &step).await?;
    }
    let settings = service.settings();
    let plan = Plan::new(&step.place, &step.action, &settings.limits)?;
    let StepPage { mut jobs, next, mut scanned, missing } =
        steps::examine(service, &step.place, step.filter, &step.cursor).await?;
    check_complete(missing)?;
    let found = jobs.len();
    jobs.retain(|job| plan.changes(job));
    // Mostly those that it has changed itself, and meets again.
    scanned -= (found - jobs.len()) as u64;
    let now = service.clock.now();
    let matched = jobs.len() as u64;
    if matched > 0 && !plan.is_nothing() {
        let keys = jobs.iter().map(|job| job.key.to_string()).collect();
        tasks.change(id, |task| task.pending = keys);
        tasks.save(now).await?;
    } else if now.since(tasks.saved_at.get()) > SAVE_EVERY {
        tasks.save(now).await?;
    }
    let changed = plan.run(service, &step.place, jobs, &settings.limits).await?;
    let is_done = tasks.change(id, |task| {
        task.count(scanned, matched, changed);
        task.go_on(next.as_ref());
        task.parts.is_empty()
    });
    Ok(if is_done.unwrap_or(true) { StepOutcome::Done } else { StepOutcome::More })
}

/// Jobs that can't be read now would be left out.
fn check_complete(missing: Option<String>) -> Result<(), HandleError> {
    missing.map_or(Ok(()), |text| Err(StoreError::Unavailable(text).into()))
}

/// Counts what an interrupted step has changed: those of its jobs that are no longer in their place.
async fn settle<S: Store>(
    service: &JobService<S>,
    id: u64,
    step: &Step,
) -> Result<(), HandleError> {
    let keys: Result<HashSet<EntryKey>, _> =
        step.pending.iter().map(|key| parse_key(key)).collect();
    let mut gone = keys?;
    let last = gone.iter().map(|key| key.order).max().unwrap_or_default();
    let limits = &service.settings().limits;
    let mut request = ScanRequest {
        place: step.place.clone(),
        after: step.cursor.after.clone(),
        newest_first: false,
        limit: limits.page_jobs_max,
        scan_max: limits.scan_jobs_max,
        filter: Filter {
            jids: gone.iter().map(|key| key.jid.to_string()).collect(),
            ..Filter::default()
        },
    };
    loop {
        let page = service.store.scan(request.clone()).await?;
        check_complete(page.missing)?;
        for job in page.jobs {
            gone.remove(&job.key);
        }
        match page.next {
            Some(next) if next.order <= last => request.after = Some(next),
            _ => break,
        }
    }
    let changed = gone.len() as u64;
    tracing::info!(id, place = step.part.place, changed, "an interrupted step had changed jobs");
    service.tasks.change(id, |task| task.count(changed, changed, changed));
    Ok(())
}
