//! Tasks: actions on all matching jobs that the server runs in the background.

use askama::Template;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;
use weir_jobs::view::{TaskState, TaskView};

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::request::{FormRequest, PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::guard::form_access::FormAccess;
use crate::job_location::JobLocation;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "tasks.html")]
struct TasksPage {
    frame: PageFrame,
    live: LiveSection,
}

#[derive(Template)]
#[template(path = "tasks_live.html")]
struct TasksLive {
    /// The newest first.
    rows: Vec<TaskRow>,
    forms: FormAccess,
}

struct TaskRow {
    id: u64,
    title: String,
    /// The list of its jobs, if it is one.
    place_address: Option<String>,
    place: String,
    conditions: String,
    by: String,
    state: &'static str,
    state_class: &'static str,
    /// What it waits for, or why it has failed.
    problem: Option<String>,
    is_running: bool,
    is_resumable: bool,
    examined: u64,
    total: u64,
    progress: String,
    changed: String,
    unchanged: Option<String>,
    time_left: Option<String>,
    began: String,
    ended: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TaskFlash {
    done: Option<String>,
    id: Option<u64>,
}

/// Returns the address of the page after a task has begun.
pub(crate) fn started_address(id: u64) -> String {
    address("/tasks", &[("done", "started"), ("id", &id.to_string())])
}

/// `GET /tasks`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let tasks = TasksLive::read(&request).await?;
    let flash: TaskFlash = request.query()?;
    request.live_response(tasks.render(), &[], |live| {
        let frame = request.frame(Section::Tasks, "Tasks").with_flash(flash.flash_message());
        Ok(html(&TasksPage { frame: frame.refreshed(), live }))
    })
}

/// `POST /tasks/act`
pub(crate) async fn act(FormRequest { console, form, .. }: FormRequest) -> PageResult {
    let id = form.get("id").and_then(|id| id.parse().ok());
    let id: u64 = id.ok_or_else(|| PageError::Invalid("the form names no task".to_owned()))?;
    let handle = &console.jobs()?.handle;
    let done = match form.get("action") {
        Some("stop") => match handle.stop_task(id).await?.state {
            TaskState::Running => "stopping",
            TaskState::Stopped => "stopped",
            TaskState::Done | TaskState::Failed => "ended",
        },
        Some("resume") => {
            handle.resume_task(id).await?;
            "resumed"
        }
        _ => return Err(PageError::Invalid("the action must be stop or resume".to_owned())),
    };
    tracing::info!(id, done, "console: acted on a task");
    let fields = [("done", done), ("id", &id.to_string())];
    Ok(Redirect::to(&address("/tasks", &fields)).into_response())
}

impl TaskFlash {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn flash_message(&self) -> Option<String> {
        let id = self.id?;
        match self.done.as_deref()? {
            "started" => Some(format!("Task {id} continues in the background.")),
            "stopping" => Some(format!("Task {id} will stop after the step that is in progress.")),
            "ended" => Some(format!("Task {id} had ended before it could be stopped.")),
            "stopped" => Some(format!("Task {id} is stopped. It can be resumed.")),
            "resumed" => Some(format!("Task {id} continues.")),
            _ => None,
        }
    }
}

impl TasksLive {
    async fn read(request: &PageRequest) -> Result<Self, PageError> {
        let console = &request.console;
        let now = console.deps.clock.now().as_secs_f64();
        let tasks = console.jobs()?.handle.tasks().await?;
        let mut rows: Vec<TaskRow> =
            tasks.into_iter().map(|task| TaskRow::new(task, now)).collect();
        rows.sort_by_key(|row| (!row.is_running, std::cmp::Reverse(row.id)));
        Ok(Self { rows, forms: request.visitor.forms() })
    }
}

impl TaskRow {
    fn new(task: TaskView, now: f64) -> Self {
        let text = |text: &str| visible(&figures::shortened(text, 200)).into_owned();
        let (state, state_class) = state(&task);
        let location = JobLocation::parse(&task.place);
        let search = task.search.as_deref().map(|it| format!("that contain {}", text(it)));
        let jobtype = task.jobtype.as_deref().map(|it| format!("of the type {}", text(it)));
        let conditions: Vec<String> = search.into_iter().chain(jobtype).collect();
        Self {
            id: task.id,
            title: text(&task.action.to_string()),
            place_address: location.map(|location| location.address(&[])),
            place: text(&task.place),
            conditions: conditions.join(" and "),
            by: text(&task.by),
            state,
            state_class,
            problem: task.waits_for.as_deref().or(task.reason.as_deref()).map(text),
            is_running: task.state == TaskState::Running,
            is_resumable: matches!(task.state, TaskState::Stopped | TaskState::Failed),
            examined: task.examined.min(task.total),
            total: task.total,
            progress: format!(
                "{} of {}",
                figures::count(task.examined),
                figures::counted(task.total, "job")
            ),
            changed: figures::count(task.changed),
            unchanged: (task.unchanged > 0).then(|| figures::count(task.unchanged)),
            time_left: task.seconds_left.map(figures::duration),
            began: figures::relative(now, task.began_at),
            ended: task.ended_at.map(|at| figures::relative(now, at)),
        }
    }
}

/// Returns the state in a word, and its class.
const fn state(task: &TaskView) -> (&'static str, &'static str) {
    match task.state {
        TaskState::Running if task.is_stopping => ("stopping", "warning"),
        TaskState::Running if task.waits_for.is_some() => ("waiting", "warning"),
        TaskState::Running => ("running", ""),
        TaskState::Stopped => ("stopped", "warning"),
        TaskState::Done => ("done", ""),
        TaskState::Failed => ("failed", "critical"),
    }
}
