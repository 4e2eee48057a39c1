//! `weir jobs quarantine`: sets jobs apart under a name, and takes them back.

use clap::{Args, Subcommand};
use serde_json::json;
use weir_jobs::handle::{StepAction, StepQuery};
use weir_jobs::quarantine::{self, Quarantine};
use weir_jobs::view::QueueView;

use super::query;
use super::task::{self, MatchArguments, TaskOutcome};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// The verbs of `weir jobs quarantine`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsQuarantineCommand {
    /// Set jobs apart in paused queues quarantine.NAME.QUEUE
    Add(JobsQuarantineAddArgs),
    /// List quarantines with their numbers of jobs
    List(JobsQuarantineListArgs),
    /// Move the jobs of a quarantine back to their queues
    TakeBack(JobsQuarantineTakeBackArgs),
}

/// `weir jobs quarantine add`.
#[derive(Debug, Args)]
pub(crate) struct JobsQuarantineAddArgs {
    #[command(flatten)]
    target: Target,
    /// Name of the quarantine: letters, digits, _ and -
    name: String,
    /// A queue, or one of the sets scheduled, retries and dead
    #[arg(long, value_name = "PLACE")]
    from: String,
    #[command(flatten)]
    matching: MatchArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs quarantine list`.
#[derive(Debug, Args)]
pub(crate) struct JobsQuarantineListArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs quarantine take-back`.
#[derive(Debug, Args)]
pub(crate) struct JobsQuarantineTakeBackArgs {
    #[command(flatten)]
    target: Target,
    /// Name of the quarantine
    name: String,
    /// Only jobs whose JSON matches this glob; plain text matches anywhere in it
    #[arg(long, value_name = "GLOB")]
    search: Option<String>,
    /// Only jobs of this type
    #[arg(long)]
    jobtype: Option<String>,
    /// Print the number of the task that the server runs, and do not wait for it
    #[arg(long)]
    detach: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &JobsQuarantineCommand) -> anyhow::Result<Exit> {
    match command {
        JobsQuarantineCommand::Add(arguments) => add(arguments).await,
        JobsQuarantineCommand::List(arguments) => list(arguments).await,
        JobsQuarantineCommand::TakeBack(arguments) => take_back(arguments).await,
    }
}

async fn add(arguments: &JobsQuarantineAddArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let action = StepAction::Quarantine(arguments.name.clone());
    let first = arguments.matching.query(&arguments.from, action);
    let place = first.place.clone();
    let outcome = task::run(&mut client, first, arguments.matching.running.detach).await?;
    if outcome.task().changed == 0 {
        query::reject_unknown(&mut client, &place).await?;
    }
    report(&outcome, arguments.json, &format!("quarantined as {}", arguments.name))
}

async fn list(arguments: &JobsQuarantineListArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let queues: Vec<QueueView> = client.get("/v1/jobs/queues").await?;
    let found = queues.iter().filter_map(|queue| {
        quarantine::parts(&queue.name).map(|(name, origin)| (name, origin, queue))
    });
    if arguments.json {
        let row = |(name, origin, queue): (&str, &str, &QueueView)| json!({ "name": name, "queue": origin, "jobs": queue.depth, "paused": queue.paused });
        output::json(&found.map(row).collect::<Vec<_>>())?;
        return Ok(Exit::Fine);
    }
    let row = |(name, origin, queue): (&str, &str, &QueueView)| {
        let state = if queue.paused { "paused" } else { "RUNNING" };
        vec![name.to_owned(), origin.to_owned(), queue.depth.to_string(), state.to_owned()]
    };
    let rows: Vec<_> = found.map(row).collect();
    output::table(&["QUARANTINE", "QUEUE", "JOBS", "STATE"], &rows);
    Ok(Exit::Fine)
}

async fn take_back(arguments: &JobsQuarantineTakeBackArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    Quarantine::named(&arguments.name)?;
    let query = StepQuery {
        place: format!("quarantine:{}", arguments.name),
        search: arguments.search.clone(),
        jobtype: arguments.jobtype.clone(),
        action: StepAction::TakeBack,
        cursor: None,
    };
    let outcome = task::run(&mut client, query, arguments.detach).await?;
    report(&outcome, arguments.json, &format!("taken back from {}", arguments.name))
}

fn report(outcome: &TaskOutcome, json: bool, done: &str) -> anyhow::Result<Exit> {
    Ok(if outcome.report(json, done)? { Exit::Fine } else { Exit::Failed })
}
