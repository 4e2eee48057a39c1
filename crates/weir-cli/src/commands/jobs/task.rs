//! Starts an action on all matching jobs as a task of the server, and shows its progress.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use weir_base::clock::Clock;
use weir_jobs::handle::{StepAction, StepQuery, TaskRequest};
use weir_jobs::view::{TaskState, TaskView};

use super::query;
use crate::admin_client::AdminClient;
use crate::operator::operator;
use crate::output;

pub(super) const PATH: &str = "/v1/jobs/tasks";

/// The time between two requests for the progress. The first ones are sooner, for tasks that end at once.
const POLL_MIN: Duration = Duration::from_millis(20);
const POLL_MAX: Duration = Duration::from_millis(500);
/// A Weir that is being restarted is asked again so often.
const FAILED_POLLS_MAX: u32 = 120;

/// The jobs that an action is about, and how it is run.
#[derive(Clone, Debug, Args)]
pub(super) struct MatchArguments {
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB")]
    pub(super) search: Option<String>,
    /// Only jobs of this type
    #[arg(long)]
    pub(super) jobtype: Option<String>,
    #[command(flatten)]
    pub(super) running: TaskArguments,
}

/// How an action on all matching jobs is run.
#[derive(Clone, Debug, Args)]
pub(super) struct TaskArguments {
    /// Print the number of the task that the server runs, and do not wait for it
    #[arg(long, requires = "from")]
    pub(super) detach: bool,
    /// Continue behind the cursor that an earlier version printed (replaced by `weir jobs tasks resume`)
    #[arg(long, requires = "from", hide = true)]
    pub(super) cursor: Option<String>,
}

impl MatchArguments {
    /// Returns the task of `action` in a place.
    pub(super) fn query(&self, place: &str, action: StepAction) -> StepQuery {
        StepQuery {
            place: query::place_name(place),
            search: self.search.clone(),
            jobtype: self.jobtype.clone(),
            action,
            cursor: self.running.cursor.clone(),
        }
    }
}

/// How a task was run.
#[derive(Debug)]
pub(super) enum TaskOutcome {
    /// It runs in the background.
    Detached(TaskView),
    /// It has ended.
    Ended(TaskView),
}

impl TaskOutcome {
    pub(super) const fn task(&self) -> &TaskView {
        match self {
            Self::Detached(task) | Self::Ended(task) => task,
        }
    }

    /// Returns the members of its JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        let task = self.task();
        let is_complete = task.state == TaskState::Done;
        serde_json::json!({ "count": task.changed, "complete": is_complete, "task": task.id })
    }

    /// Prints it: `done` is said of the jobs that were changed. Returns whether the task has done all.
    pub(super) fn report(&self, json: bool, done: &str) -> anyhow::Result<bool> {
        match self {
            _ if json => output::json(&self.json())?,
            Self::Detached(task) => output::line(&task.id.to_string()),
            Self::Ended(task) => {
                output::line(&format!("{} {done}", output::count(task.changed, "job")));
            }
        }
        Ok(matches!(self, Self::Detached(_)) || self.task().state == TaskState::Done)
    }
}

/// Starts a task, and waits for its end unless it is detached.
pub(super) async fn run(
    client: &mut AdminClient,
    query: StepQuery,
    detach: bool,
) -> anyhow::Result<TaskOutcome> {
    if query.cursor.is_some() {
        output::note(
            "--cursor will be removed: an action is a task of the server now, which `weir jobs tasks resume` continues",
        );
    }
    let request = TaskRequest { query, by: Some(operator()) };
    if detach {
        let task: TaskView = client.post(PATH, &request).await?;
        output::note(&format!(
            "task {0} runs in the server; `weir jobs tasks show {0}` shows its progress",
            task.id
        ));
        return Ok(TaskOutcome::Detached(task));
    }
    follow(client, PATH, &request).await
}

/// Starts or resumes a task by a request, and shows its progress until it ends, or until an operator leaves it in the
/// background.
pub(super) async fn follow(
    client: &mut AdminClient,
    path: &str,
    request: &impl Serialize,
) -> anyhow::Result<TaskOutcome> {
    // Before the task starts: a Ctrl-C that ended this process would leave the task running without a word.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut task: TaskView = client.post(path, request).await?;
    let mut progress = Progress::new()?;
    let (mut wait, mut failed) = (POLL_MIN, 0);
    while task.state == TaskState::Running {
        progress.show(&task);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = interrupts.recv() => {
                progress.bar.suspend(|| ());
                if !wants_to_stop(task.id, &mut interrupts).await {
                    progress.bar.finish_and_clear();
                    output::note(&left_running(task.id));
                    return Ok(TaskOutcome::Detached(task));
                }
                let path = format!("{PATH}/{}/stop", task.id);
                task = client.post(&path, &serde_json::json!({})).await?;
                continue;
            }
        }
        wait = (wait * 2).min(POLL_MAX);
        match client.get(&format!("{PATH}/{}", task.id)).await {
            Ok(view) => (task, failed) = (view, 0),
            Err(error) if failed >= FAILED_POLLS_MAX => {
                return Err(error).with_context(|| left_running(task.id));
            }
            Err(_) => failed += 1,
        }
    }
    progress.bar.finish_and_clear();
    note_end(&task)?;
    Ok(TaskOutcome::Ended(task))
}

fn left_running(id: u64) -> String {
    format!(
        "task {id} goes on in the server: `weir jobs tasks show {id}` shows it, `weir jobs tasks stop {id}` stops it"
    )
}

/// Says on standard error what is not in the result.
fn note_end(task: &TaskView) -> anyhow::Result<()> {
    let done = output::count(task.changed, "job");
    if task.unchanged > 0 {
        let unchanged = output::count(task.unchanged, "job");
        let place = &task.place;
        output::note(&format!(
            "{unchanged} not changed: no longer in {place}, or there is nothing to change"
        ));
    }
    match task.state {
        TaskState::Running | TaskState::Done => Ok(()),
        TaskState::Stopped => {
            output::note(&format!(
                "stopped after {done}; continue with `weir jobs tasks resume {}`",
                task.id
            ));
            Ok(())
        }
        TaskState::Failed => {
            let reason = task.reason.as_deref().unwrap_or("for an unknown reason");
            anyhow::bail!("task {} failed after {done}: {}", task.id, output::printable(reason))
        }
    }
}

/// Asks whether Ctrl-C stops the task. Without a terminal, and if it is pressed again, it does.
async fn wants_to_stop(id: u64, interrupts: &mut Signal) -> bool {
    if !std::io::stdin().is_terminal() {
        return true;
    }
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "\nStop task {id}? Otherwise it goes on in the server. [Y/n] ");
    let _ = stderr.flush();
    let (sender, answer) = oneshot::channel();
    // A thread of its own, since the runtime would wait for its blocked ones at the end.
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(line);
    });
    tokio::select! {
        line = answer => !matches!(line.unwrap_or_default().trim(), "n" | "N" | "no"),
        _ = interrupts.recv() => true,
    }
}

/// The line with the progress.
struct Progress {
    bar: ProgressBar,
    waits_for: Option<String>,
}

impl Progress {
    fn new() -> anyhow::Result<Self> {
        let style = ProgressStyle::with_template("{bar:30} {msg} ({elapsed})")?;
        Ok(Self { bar: ProgressBar::new(0).with_style(style), waits_for: None })
    }

    fn show(&mut self, task: &TaskView) {
        self.bar.set_length(task.total.max(task.examined));
        self.bar.set_position(task.examined);
        self.bar.set_message(summary(task));
        if task.waits_for != self.waits_for {
            self.waits_for.clone_from(&task.waits_for);
            if let Some(reason) = &task.waits_for {
                let text = format!("task {} waits: {}", task.id, output::printable(reason));
                self.bar.suspend(|| output::note(&text));
            }
        }
    }
}

/// Returns the progress of a task in a phrase.
pub(super) fn summary(task: &TaskView) -> String {
    let changed = output::count(task.changed, "job");
    let examined = format!("{changed} changed, {} of {} examined", task.examined, task.total);
    match task.seconds_left {
        Some(seconds) => {
            let per_second = task.per_second.round();
            format!("{examined}, {per_second}/s, {} left", output::seconds(seconds))
        }
        None => examined,
    }
}

/// Returns the time since `at`.
pub(super) fn age(at: f64) -> String {
    output::seconds((Clock::system().now().as_secs_f64() - at).max(0.0))
}
