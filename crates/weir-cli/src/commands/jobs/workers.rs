//! `weir jobs workers`: the processes that fetch jobs by Faktory's protocol, whoever started them.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use weir_admin::jobs::{JobCount, SignalWorkers};
use weir_base::clock::Clock;
use weir_jobs::handle::WorkerSignal;
use weir_jobs::view::JobWorkerView;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;
use weir_config::suggestion;

/// Queues of a worker that a row shows.
const QUEUES_SHOWN: usize = 4;

/// `weir jobs workers`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct JobsWorkersArgs {
    #[command(subcommand)]
    command: Option<WorkersCommand>,
    #[command(flatten)]
    list: ListArguments,
}

/// The verbs of `weir jobs workers`.
#[derive(Debug, Subcommand)]
enum WorkersCommand {
    /// List workers (the default)
    List(ListArguments),
    /// Make workers stop fetching jobs and finish those in progress
    Quiet(SignalArguments),
    /// Make workers finish their jobs in progress and terminate
    Terminate(SignalArguments),
}

#[derive(Debug, Args)]
struct ListArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["worker", "all"]))]
struct SignalArguments {
    #[command(flatten)]
    target: Target,
    /// Ids of workers, from `weir jobs workers`
    worker: Option<String>,
    /// Every worker
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PATH: &str = "/v1/jobs/workers";

pub(super) async fn run(arguments: &JobsWorkersArgs) -> anyhow::Result<Exit> {
    match &arguments.command {
        Some(WorkersCommand::Quiet(arguments)) => signal(arguments, WorkerSignal::Quiet).await,
        Some(WorkersCommand::Terminate(arguments)) => {
            signal(arguments, WorkerSignal::Terminate).await
        }
        Some(WorkersCommand::List(arguments)) => list(arguments).await,
        None => list(&arguments.list).await,
    }
}

async fn list(arguments: &ListArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let workers: Vec<JobWorkerView> = client.get(PATH).await?;
    if arguments.json {
        output::json(&workers)?;
        return Ok(Exit::Fine);
    }
    let now = Clock::system().now().as_secs_f64();
    let rows: Vec<Vec<String>> = workers.iter().map(|worker| row(worker, now)).collect();
    let columns = ["WORKER", "HOST", "PID", "STATE", "BUSY", "LAST BEAT", "STARTED", "QUEUES"];
    output::table(&columns, &rows);
    Ok(Exit::Fine)
}

fn row(worker: &JobWorkerView, now: f64) -> Vec<String> {
    let ago = |at: f64| format!("{} ago", seconds((now - at).max(0.0)));
    vec![
        output::printable(&worker.wid),
        output::printable(&worker.hostname),
        worker.pid.to_string(),
        worker.state.clone(),
        worker.busy.to_string(),
        ago(worker.last_beat_at),
        ago(worker.started_at),
        queues(worker),
    ]
}

fn queues(worker: &JobWorkerView) -> String {
    let shown: Vec<_> = worker.queues.iter().take(QUEUES_SHOWN).map(String::as_str).collect();
    let more = worker.queues_total.saturating_sub(shown.len() as u64);
    match (shown.join(","), more) {
        (text, _) if text.is_empty() => "-".to_owned(),
        (text, 0) => text,
        (text, more) => format!("{text} and {more} more"),
    }
}

async fn signal(arguments: &SignalArguments, signal: WorkerSignal) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    if let Some(wid) = &arguments.worker {
        let known: Vec<JobWorkerView> = client.get(PATH).await?;
        if !known.iter().any(|worker| worker.wid == *wid) {
            let hint = suggestion(wid, known.iter().map(|worker| worker.wid.as_str()));
            bail!("there is no worker {wid:?}{hint}; `weir jobs workers` lists the workers");
        }
    }
    let body = SignalWorkers { wid: arguments.worker.clone(), signal };
    let JobCount { count } = client.post(&format!("{PATH}/signal"), &body).await?;
    if arguments.json {
        output::json(&json!({ "count": count }))?;
        return Ok(Exit::Fine);
    }
    let noun = if count == 1 { "worker" } else { "workers" };
    output::line(&match signal {
        WorkerSignal::Quiet => format!("{count} {noun} will fetch no more jobs"),
        WorkerSignal::Terminate => format!("{count} {noun} will finish and terminate"),
    });
    Ok(Exit::Fine)
}
