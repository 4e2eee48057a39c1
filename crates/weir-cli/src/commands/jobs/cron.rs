//! `weir jobs cron`: jobs that are enqueued at the times of a schedule.

use clap::{Args, Subcommand};
use serde_json::json;
use weir_admin::jobs::{ActOnCron, JobCount};
use weir_jobs::handle::CronAction;
use weir_jobs::view::CronView;

use super::show::time;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;

/// The verbs of `weir jobs cron`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCronCommand {
    /// List the cron jobs with their next times
    List(JobsCronListArgs),
    /// Enqueue the job of a cron job now; its times do not change
    Run(JobsCronActArgs),
    /// Pause a cron job: its times pass without a job
    Pause(JobsCronActArgs),
    /// Resume a paused cron job
    Resume(JobsCronActArgs),
}

/// `weir jobs cron list`.
#[derive(Debug, Args)]
pub(crate) struct JobsCronListArgs {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir jobs cron run|pause|resume`.
#[derive(Debug, Args)]
pub(crate) struct JobsCronActArgs {
    #[command(flatten)]
    target: Target,
    /// Name of the cron job
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &JobsCronCommand) -> anyhow::Result<Exit> {
    match command {
        JobsCronCommand::List(arguments) => list(arguments).await,
        JobsCronCommand::Run(arguments) => act(arguments, CronAction::Run, "enqueued").await,
        JobsCronCommand::Pause(arguments) => act(arguments, CronAction::Pause, "paused").await,
        JobsCronCommand::Resume(arguments) => act(arguments, CronAction::Resume, "resumed").await,
    }
}

async fn list(arguments: &JobsCronListArgs) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let crons: Vec<CronView> = client.get("/v1/jobs/cron").await?;
    if arguments.json {
        output::json(&crons)?;
        return Ok(Exit::Fine);
    }
    let row = |cron: &CronView| {
        vec![
            output::printable(&cron.name),
            cron.schedule.clone(),
            cron.timezone.clone(),
            output::printable(&cron.jobtype),
            cron.queue.clone(),
            match cron.next_at {
                _ if cron.paused => "paused".to_owned(),
                next => next.map(time).unwrap_or_default(),
            },
        ]
    };
    let rows: Vec<Vec<String>> = crons.iter().map(row).collect();
    output::table(&["NAME", "SCHEDULE", "TIME ZONE", "JOBTYPE", "QUEUE", "NEXT"], &rows);
    Ok(Exit::Fine)
}

async fn act(arguments: &JobsCronActArgs, action: CronAction, done: &str) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let body = ActOnCron { name: arguments.name.clone(), action };
    let _: JobCount = client.post("/v1/jobs/cron/act", &body).await?;
    if arguments.json {
        output::json(&json!({ "name": arguments.name }))?;
    } else {
        output::line(&format!("{} {done}", output::printable(&arguments.name)));
    }
    Ok(Exit::Fine)
}
