//! `weir jobs tasks`: actions on all matching jobs that the server runs in the background.

use clap::{Args, Subcommand};
use serde_json::json;
use weir_jobs::view::{TaskState, TaskView};

use super::show::time;
use super::task::{self, PATH};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// The verbs of `weir jobs tasks`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsTasksCommand {
    /// List the tasks that run, and the last ones that ended
    List(JobsTasksListArgs),
    /// Show one task with its progress
    Show(JobsTaskArgs),
    /// Stop a task after the step in progress
    Stop(JobsTaskArgs),
    /// Continue a task that was stopped or has failed
    Resume(JobsTaskResumeArgs),
}

/// `weir jobs tasks list`.
#[derive(Debug, Args)]
pub(crate) struct JobsTasksListArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs tasks show|stop`.
#[derive(Debug, Args)]
pub(crate) struct JobsTaskArgs {
    #[command(flatten)]
    target: Target,
    /// Number of the task
    id: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs tasks resume`.
#[derive(Debug, Args)]
pub(crate) struct JobsTaskResumeArgs {
    #[command(flatten)]
    task: JobsTaskArgs,
    /// Do not wait for the end of the task
    #[arg(long)]
    detach: bool,
}

pub(super) async fn run(command: &JobsTasksCommand) -> anyhow::Result<Exit> {
    match command {
        JobsTasksCommand::List(arguments) => list(arguments).await,
        JobsTasksCommand::Show(arguments) => show(arguments).await,
        JobsTasksCommand::Stop(arguments) => stop(arguments).await,
        JobsTasksCommand::Resume(arguments) => resume(arguments).await,
    }
}

async fn list(arguments: &JobsTasksListArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let tasks: Vec<TaskView> = client.get(PATH).await?;
    if arguments.json {
        output::json(&tasks)?;
        return Ok(Exit::Fine);
    }
    let row = |task: &TaskView| {
        vec![
            task.id.to_string(),
            state(task),
            output::printable(&task.action.to_string()),
            output::printable(&task.place),
            task.changed.to_string(),
            format!("{} of {}", task.examined, task.total),
            format!("{} ago", task::age(task.began_at)),
        ]
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    output::table(&["TASK", "STATE", "ACTION", "PLACE", "CHANGED", "EXAMINED", "BEGAN"], &rows);
    Ok(Exit::Fine)
}

/// Returns the state in one word.
fn state(task: &TaskView) -> String {
    match task.state {
        TaskState::Running if task.is_stopping => "stopping".to_owned(),
        TaskState::Running if task.waits_for.is_some() => "waiting".to_owned(),
        state => state.to_string(),
    }
}

async fn show(arguments: &JobsTaskArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let task: TaskView = client.get(&format!("{PATH}/{}", arguments.id)).await?;
    print(&task, arguments.json)
}

async fn stop(arguments: &JobsTaskArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let path = format!("{PATH}/{}/stop", arguments.id);
    let task: TaskView = client.post(&path, &json!({})).await?;
    print(&task, arguments.json)
}

async fn resume(arguments: &JobsTaskResumeArgs) -> anyhow::Result<Exit> {
    let JobsTaskResumeArgs { task: JobsTaskArgs { target, id, json }, detach } = arguments;
    let mut client = AdminClient::connect(target).await?;
    let path = format!("{PATH}/{id}/resume");
    if *detach {
        let task: TaskView = client.post(&path, &json!({})).await?;
        return print(&task, *json);
    }
    let outcome = task::follow(&mut client, &path, &json!({})).await?;
    let is_complete = outcome.report(*json, "changed in all")?;
    Ok(if is_complete { Exit::Fine } else { Exit::Failed })
}

fn print(task: &TaskView, json: bool) -> anyhow::Result<Exit> {
    if json {
        output::json(task)?;
        return Ok(Exit::Fine);
    }
    let TaskView { id, action, place, .. } = task;
    let place = output::printable(place);
    let action = output::printable(&action.to_string());
    output::line(&format!("task {id}: {}", state(task)));
    let conditions = [("search", &task.search), ("jobtype", &task.jobtype)];
    let mut rows = vec![("action", action), ("place", place)];
    let given = |(name, value): (&'static str, &Option<String>)| {
        value.as_ref().map(|value| (name, output::printable(value)))
    };
    rows.extend(conditions.into_iter().filter_map(given));
    rows.push(("progress", task::summary(task)));
    rows.push(("began", format!("{}, by {}", time(task.began_at), output::printable(&task.by))));
    let texts = [("waits", &task.waits_for), ("reason", &task.reason)];
    rows.extend(texts.into_iter().filter_map(given));
    rows.extend(task.ended_at.map(|at| ("ended", time(at))));
    for (name, value) in rows {
        output::line(&format!("  {name:<9} {value}"));
    }
    Ok(Exit::Fine)
}
