//! Requests about tasks: start, list, stop, resume.

use std::collections::VecDeque;
use std::time::Duration;

use super::record::{TaskPart, TaskRecord};
use super::store_text;
use crate::handle::{HandleError, STARTED_BY_BYTES_MAX, TaskCall, TaskRequest};
use crate::metrics::JobServerLimit;
use crate::model::JobLocation;
use crate::quarantine::Quarantine;
use crate::server::JobService;
use crate::server::parsing::parse_location;
use crate::server::replies::send_reply;
use crate::server::steps::{self, Plan};
use crate::server::walk;
use crate::store::Store;
use crate::view::{TaskState, TaskView};

/// How long a request to stop waits for the end of the step in progress. It ends later, if the store takes longer.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Processes a request.
pub(in crate::server) async fn process<S: Store>(service: &JobService<S>, call: TaskCall) {
    match call {
        TaskCall::Start(request, reply) => send_reply(reply, start(service, request).await),
        TaskCall::List(reply) => send_reply(reply, Ok(service.tasks.views(service.clock.now()))),
        // The file is written to the end, also if the client has gone.
        TaskCall::Stop(id, reply) => send_reply(reply, stop(service, id).await),
        TaskCall::Resume(id, reply) => send_reply(reply, resume(service, id).await),
    }
}

async fn start<S: Store>(
    service: &JobService<S>,
    request: TaskRequest,
) -> Result<TaskView, HandleError> {
    let TaskRequest { query, by } = request;
    let settings = service.settings();
    let places = places(service, &query.place).await?;
    for place in &places {
        Plan::new(place, &query.action, &settings.limits)?;
    }
    check_running(service)?;
    let now = service.clock.now();
    let (mut parts, mut total) = (VecDeque::new(), 0);
    for place in places {
        let cursor = match &query.cursor {
            Some(text) => steps::parse_cursor(text)?,
            None => steps::first_cursor(service, &place).await?,
        };
        total += walk::total(service, &place).await;
        let after = cursor.after.map(|key| key.to_string());
        parts.push_back(TaskPart { place: place.to_string(), start: cursor.start, after });
    }
    // Another one may have begun during the waits.
    check_running(service)?;
    let mut by = by.filter(|by| !by.is_empty()).unwrap_or_else(|| "admin API".to_owned());
    by.truncate(by.floor_char_boundary(STARTED_BY_BYTES_MAX));
    let id = {
        let kept = &mut service.tasks.kept.borrow_mut();
        kept.last_id += 1;
        let id = kept.last_id;
        kept.tasks.push(TaskRecord {
            id,
            by,
            store: store_text(&settings),
            place: query.place,
            search: query.search.filter(|text| !text.is_empty()),
            jobtype: query.jobtype.filter(|text| !text.is_empty()),
            action: query.action,
            state: TaskState::Running,
            is_stopping: false,
            reason: None,
            began_at_us: now.as_micros(),
            ended_at_us: None,
            total,
            examined: 0,
            changed: 0,
            unchanged: 0,
            parts,
            pending: Vec::new(),
        });
        id
    };
    if let Err(error) = service.tasks.save(now).await {
        service.tasks.kept.borrow_mut().tasks.retain(|task| task.id != id);
        return Err(error);
    }
    log(service, id, "a task began");
    service.tasks.changed.notify_waiters();
    service.tasks.view(id, now)
}

/// Returns the places of a task.
async fn places<S: Store>(
    service: &JobService<S>,
    text: &str,
) -> Result<Vec<JobLocation>, HandleError> {
    let Some(name) = text.strip_prefix("quarantine:") else {
        return Ok(vec![parse_location(text, service)?]);
    };
    let invalid = |text: String| HandleError::Invalid(text);
    let quarantine = Quarantine::named(name).map_err(|error| invalid(error.to_string()))?;
    let queues = service.store.counts().await.queues.into_iter().map(|queue| queue.name);
    let places: Vec<JobLocation> = queues
        .filter(|queue| quarantine.origin(queue.as_str()).is_some())
        .map(JobLocation::Queue)
        .collect();
    if places.is_empty() {
        return Err(invalid(format!(
            "there is no quarantine {name:?}; `weir jobs quarantine list` shows them"
        )));
    }
    Ok(places)
}

fn check_running<S: Store>(service: &JobService<S>) -> Result<(), HandleError> {
    let max = service.settings().limits.tasks_max;
    if service.tasks.running() < max {
        return Ok(());
    }
    service.metrics.limit_hit(JobServerLimit::TasksMax);
    Err(HandleError::TooManyTasks(max))
}

async fn stop<S: Store>(service: &JobService<S>, id: u64) -> Result<TaskView, HandleError> {
    let tasks = &service.tasks;
    let mark = |task: &mut TaskRecord| task.is_stopping = task.state == TaskState::Running;
    tasks.change(id, mark).ok_or(HandleError::NoSuchTask(id))?;
    // Saved before the reply, so that the task does not go on after a crash.
    tasks.save(service.clock.now()).await?;
    tasks.changed.notify_waiters();
    let ended = async {
        loop {
            let changed = tasks.changed.notified();
            if tasks.read(id, |task| task.state != TaskState::Running).unwrap_or(true) {
                return;
            }
            changed.await;
        }
    };
    // The view says whether it has ended.
    let _ = tokio::time::timeout(STOP_WAIT, ended).await;
    tasks.view(id, service.clock.now())
}

async fn resume<S: Store>(service: &JobService<S>, id: u64) -> Result<TaskView, HandleError> {
    let tasks = &service.tasks;
    let now = service.clock.now();
    match tasks.read(id, |task| task.state) {
        None => return Err(HandleError::NoSuchTask(id)),
        Some(TaskState::Running) => return tasks.view(id, now),
        Some(TaskState::Done) => {
            let text = format!("task {id} is done: it has examined all jobs from before it began");
            return Err(HandleError::TaskState(text));
        }
        Some(TaskState::Stopped | TaskState::Failed) => check_store(service, id)?,
    }
    check_running(service)?;
    let ended = tasks.change(id, |task| {
        let ended = (task.state, task.reason.take(), task.ended_at_us.take());
        task.state = TaskState::Running;
        ended
    });
    if let Err(error) = tasks.save(now).await {
        if let Some(ended) = ended {
            tasks.change(id, |task| (task.state, task.reason, task.ended_at_us) = ended);
        }
        return Err(error);
    }
    log(service, id, "a task was resumed");
    tasks.changed.notify_waiters();
    tasks.view(id, now)
}

/// Returns an error if the task is about the jobs of another store.
fn check_store<S: Store>(service: &JobService<S>, id: u64) -> Result<(), HandleError> {
    let store = store_text(&service.settings());
    let other = service.tasks.read(id, |task| task.store.clone()).filter(|kept| *kept != store);
    other.map_or(Ok(()), |other| {
        let text = format!("task {id} is about the jobs of another store ({other})");
        Err(HandleError::TaskState(text))
    })
}

fn log<S: Store>(service: &JobService<S>, id: u64, event: &'static str) {
    service.tasks.read(id, |task| {
        let TaskRecord { place, action, by, total, .. } = task;
        tracing::info!(id, place, %action, by, total, "{event}");
    });
}
