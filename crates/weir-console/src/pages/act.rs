//! Actions on one job, on a selection, or on all matches. An action that cannot be undone, or that
//! affects all matches, is confirmed on a page that shows the number of affected jobs.

use std::time::Duration;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use weir_access::NotAChange;
use weir_jobs::handle::{self, StepAction, StepQuery, TaskRequest, Which};
use weir_jobs::store::Action;
use weir_jobs::view::TaskState;

use super::frame::{PageFrame, Section, html};
use super::request::{FormRequest, PageRequest, PageResult};
use super::tasks;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::form::CheckedForm;
use crate::job_location::JobLocation;
use crate::metrics::ConsoleLimit;
use crate::page_error::PageError;

/// The actions on a job in a set or queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobAction {
    Requeue,
    Kill,
    Discard,
}

impl JobAction {
    /// Returns the actions that are possible at a location.
    pub(crate) const fn possible_at(location: &JobLocation) -> &'static [Self] {
        match location {
            JobLocation::Scheduled | JobLocation::Retries => {
                &[Self::Requeue, Self::Kill, Self::Discard]
            }
            JobLocation::Dead => &[Self::Requeue, Self::Discard],
            JobLocation::Queue(_) => &[Self::Kill, Self::Discard],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Kill => "kill",
            Self::Discard => "discard",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Requeue, Self::Kill, Self::Discard].into_iter().find(|it| it.name() == name)
    }

    /// Returns the label of its button.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Requeue => "Run now",
            Self::Kill => "Move to dead",
            Self::Discard => "Delete",
        }
    }

    /// Returns the label of the button that confirms it, for `jobs` such as `3 jobs`.
    pub(crate) fn order(self, jobs: &str) -> String {
        match self {
            Self::Requeue => format!("Run {jobs} now"),
            Self::Kill => format!("Move {jobs} to the dead set"),
            Self::Discard => format!("Delete {jobs}"),
        }
    }

    pub(crate) const fn is_dangerous(self) -> bool {
        matches!(self, Self::Kill | Self::Discard)
    }

    /// Returns the address of the confirmation for all matches.
    pub(crate) fn confirm_address(self, location: &JobLocation, fields: &[(&str, &str)]) -> String {
        let location = location.name();
        let target_fields = [("place", location.as_str()), ("action", self.name())];
        address("/jobs/confirm", &[&target_fields, fields].concat())
    }

    const fn step(self) -> StepAction {
        match self {
            Self::Requeue => StepAction::Requeue,
            Self::Kill => StepAction::Kill,
            Self::Discard => StepAction::Discard,
        }
    }

    const fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Kill => Action::Kill,
            Self::Discard => Action::Discard,
        }
    }
}

/// The word for an action that is not finished.
const CONTINUES: &str = "on";

/// Returns the flash message about a finished action. The texts are fixed, so a forged address
/// cannot inject others.
pub(crate) fn flash_message(name: &str, count: Option<u64>) -> Option<String> {
    let count = count.unwrap_or(0);
    let jobs = figures::counted(count, "job");
    let were = if count == 1 { "was" } else { "were" };
    match name {
        "none" => Some("No jobs were selected. Select jobs first.".to_owned()),
        CONTINUES => Some(
            "The action continues in the background. Reload the page to see its progress."
                .to_owned(),
        ),
        "requeue" => Some(format!(
            "{jobs} {were} moved to {}.",
            if count == 1 { "its queue" } else { "their queues" }
        )),
        "kill" => Some(format!("{jobs} {were} moved to the dead set.")),
        "discard" => Some(format!("{jobs} {were} deleted.")),
        _ => None,
    }
}

#[derive(Template)]
#[template(path = "jobs_confirm.html")]
struct JobsConfirmPage {
    frame: PageFrame,
    action: JobAction,
    location: JobLocation,
    count: u64,
    order_text: String,
    keys: Vec<String>,
    search: String,
    jobtype: String,
    order: String,
    back: String,
    /// Why the visitor may not do it.
    missing_role: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JobsActionQuery {
    #[serde(rename = "place")]
    location: JobLocation,
    action: JobAction,
    #[serde(default)]
    search: String,
    #[serde(default)]
    jobtype: String,
    #[serde(default)]
    order: String,
}

/// `GET /jobs/confirm`: counts the jobs that an action on all matches would affect.
pub(crate) async fn confirm_all(request: PageRequest) -> PageResult {
    let target: JobsActionQuery = request.query()?;
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let query = handle::JobQuery {
        place: target.location.name(),
        search: non_empty(&target.search),
        jobtype: non_empty(&target.jobtype),
        ..handle::JobQuery::default()
    };
    let count = request.console.jobs()?.handle.count_matching(query).await?;
    let frame = request.frame(Section::None, target.action.label());
    Ok(confirm(frame, target, count, Vec::new()))
}

fn confirm(frame: PageFrame, target: JobsActionQuery, count: u64, keys: Vec<String>) -> Response {
    let JobsActionQuery { location, action, search, jobtype, order } = target;
    let scope = if keys.is_empty() { "all" } else { "" };
    let conditions = [("search", search.as_str()), ("jobtype", &jobtype)];
    let form = [&[("action", action.name()), ("scope", scope)], &conditions[..]].concat();
    let missing_role = frame.forms.missing_for("/jobs/act", &form);
    let fields = [("search", search.as_str()), ("jobtype", &jobtype), ("order", &order)];
    html(&JobsConfirmPage {
        frame,
        back: location.address(&fields),
        order_text: action.order(&figures::counted(count, "job")),
        action,
        location,
        count,
        keys,
        search,
        jobtype,
        order,
        missing_role,
    })
}

/// `POST /jobs/act`: acts on the selected jobs, or with `scope=all` (from the confirmation) starts a task for all
/// matches.
pub(crate) async fn act(request: FormRequest) -> PageResult {
    let FormRequest { console, visitor, form, .. } = request;
    let target = target(&form)?;
    let is_confirmed = form.get("confirmed").is_some();
    if form.get("scope") == Some("all") {
        if !is_confirmed {
            return Err(PageError::Invalid("an action on all jobs must be confirmed".into()));
        }
        return act_on_all(&console, &target).await;
    }
    let keys = form.all("key");
    if keys.is_empty() {
        return Ok(redirect_to_list(&target, "none", 0));
    }
    if target.action.is_dangerous() && !is_confirmed {
        let count = keys.len() as u64;
        let title = target.action.label().to_owned();
        let frame = PageFrame::new(&console, &visitor, Section::None, title);
        let mut response = confirm(frame, target, count, keys);
        response.extensions_mut().insert(NotAChange);
        return Ok(response);
    }
    act_on_selected(&console, &target, keys).await
}

async fn act_on_selected(
    console: &Console,
    target: &JobsActionQuery,
    keys: Vec<String>,
) -> PageResult {
    let location = target.location.name();
    let handle = &console.jobs()?.handle;
    let acting = handle.act(location.clone(), Which::Keys(keys), target.action.action());
    let acted = tokio::time::timeout(console.deps.settings.limits.action_wait, acting).await;
    let Ok(count) = acted else {
        // The job server finishes the action in any case.
        console.metrics().limit_hit(ConsoleLimit::ActionWait);
        tracing::info!(location, action = target.action.name(), "console: an action takes long");
        return Ok(redirect_to_list(target, CONTINUES, 0));
    };
    let count = count?;
    tracing::info!(location, action = target.action.name(), count, "console: acted on jobs");
    Ok(redirect_to_list(target, target.action.name(), count))
}

/// How long a task that has begun is waited for: the page of tasks shows the others with their progress.
const TASK_WAIT: Duration = Duration::from_secs(1);
const TASK_POLL: Duration = Duration::from_millis(20);

/// Starts a task. A short one is shown like an action on selected jobs.
async fn act_on_all(console: &Console, target: &JobsActionQuery) -> PageResult {
    let handle = &console.jobs()?.handle;
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let query = StepQuery {
        place: target.location.name(),
        search: non_empty(&target.search),
        jobtype: non_empty(&target.jobtype),
        action: target.action.step(),
        cursor: None,
    };
    let request = TaskRequest { query, by: Some("console".to_owned()) };
    let id = handle.start_task(request).await?.id;
    let ended = async {
        loop {
            let task = handle.task(id).await?;
            match task.state {
                TaskState::Done => return Ok(Some(task.changed)),
                TaskState::Running => tokio::time::sleep(TASK_POLL).await,
                TaskState::Stopped | TaskState::Failed => return Ok(None),
            }
        }
    };
    let wait = console.deps.settings.limits.action_wait.min(TASK_WAIT);
    let ended: Result<Result<Option<u64>, PageError>, _> = tokio::time::timeout(wait, ended).await;
    match ended {
        Ok(Ok(Some(count))) => Ok(redirect_to_list(target, target.action.name(), count)),
        Ok(Err(error)) => Err(error),
        Ok(Ok(None)) | Err(_) => Ok(Redirect::to(&tasks::started_address(id)).into_response()),
    }
}

fn target(form: &CheckedForm) -> Result<JobsActionQuery, PageError> {
    let location = form.get("place").and_then(JobLocation::parse);
    let action = form.get("action").and_then(JobAction::parse);
    let (Some(location), Some(action)) = (location, action) else {
        return Err(PageError::Invalid("the form names no queue or set, or no action".to_owned()));
    };
    let field = |name| form.get(name).unwrap_or_default().to_owned();
    Ok(JobsActionQuery {
        location,
        action,
        search: field("search"),
        jobtype: field("jobtype"),
        order: field("order"),
    })
}

/// Redirects to the list, which shows the flash message.
fn redirect_to_list(target: &JobsActionQuery, done: &str, count: u64) -> Response {
    let count = count.to_string();
    let fields = [
        ("search", target.search.as_str()),
        ("jobtype", &target.jobtype),
        ("order", &target.order),
        ("done", done),
        ("count", &count),
    ];
    Redirect::to(&target.location.address(&fields)).into_response()
}
