//! `weir jobs ..`: one file per verb.

mod act;
mod batches;
mod cancel;
mod clear;
mod cron;
mod damage;
mod export;
mod export_file;
mod import;
mod import_input;
mod import_progress;
mod limits;
mod list;
mod move_jobs;
mod pause;
mod push;
mod quarantine;
mod query;
mod reschedule;
mod salvage;
mod show;
mod task;
mod tasks;
mod type_details;
mod types;
mod verify;
mod workers;
mod working;
mod xray;

use clap::Subcommand;

use crate::admin_client;
use crate::exit::Exit;

/// The verbs of `weir jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Push one job
    Push(push::JobsPushArgs),
    /// List queues, or the jobs of a queue or set
    List(list::JobsListArgs),
    /// List the limits of queues, tenants and shared resources, and the jobs that they hold back
    Limits(limits::JobsLimitsArgs),
    /// Show what the jobs of a queue or set consist of: types, errors, ages, sizes, keys
    Xray(xray::JobsXrayArgs),
    /// List the types of jobs: how many started and failed, how long they waited and ran
    Types(types::JobsTypesArgs),
    /// Show one type of job: its errors, its queues and its course over the last hour
    Type(type_details::JobsTypeArgs),
    /// Show one job with its payload and its last error
    Show(show::JobsShowArgs),
    /// Enqueue scheduled, failed or dead jobs now
    Retry(act::JobsActArgs),
    /// Move scheduled or failed jobs to the dead set
    Kill(act::JobsActArgs),
    /// Delete scheduled, failed or dead jobs
    Delete(act::JobsActArgs),
    /// Change when scheduled jobs and retries are due
    Reschedule(reschedule::JobsRescheduleArgs),
    /// Move jobs to another queue
    Move(move_jobs::JobsMoveArgs),
    /// Set jobs apart in paused queues under a name, and take them back
    #[command(subcommand)]
    Quarantine(quarantine::JobsQuarantineCommand),
    /// List, show, stop and resume tasks: actions on all matching jobs, which run in the background
    #[command(subcommand)]
    Tasks(tasks::JobsTasksCommand),
    /// Delete all jobs of a queue or set
    Clear(clear::JobsClearArgs),
    /// List the workers that are connected by the Faktory protocol, or make them stop fetching or
    /// terminate
    Workers(Box<workers::JobsWorkersArgs>),
    /// List the jobs in progress, the longest-running first
    Working(working::JobsWorkingArgs),
    /// Ask workers to end jobs in progress, and do not retry these
    Cancel(cancel::JobsCancelArgs),
    /// Pause queues: their jobs are not fetched
    Pause(pause::JobsPauseArgs),
    /// Resume paused queues
    Resume(pause::JobsPauseArgs),
    /// List the cron jobs of the settings, run one now, pause or resume one
    #[command(subcommand)]
    Cron(cron::JobsCronCommand),
    /// List the batches of jobs with callbacks, or show one
    #[command(subcommand)]
    Batches(batches::JobsBatchesCommand),
    /// Export jobs as JSON lines
    Export(export::JobsExportArgs),
    /// Import jobs from JSON lines: exported ones, or plain jobs
    Import(import::JobsImportArgs),
    /// Check every checksum of the job store, while Weir is stopped; read-only
    Verify(verify::JobsVerifyArgs),
    /// List unacknowledged damage to the job store, or acknowledge it
    Damage(damage::JobsDamageArgs),
    /// Print the jobs in damaged records of the job store, for `weir jobs import`
    Salvage(salvage::JobsSalvageArgs),
}

pub(crate) fn run(command: JobsCommand) -> anyhow::Result<Exit> {
    use act::Verb;
    admin_client::block_on(async {
        match command {
            JobsCommand::Push(arguments) => push::run(&arguments).await,
            JobsCommand::List(arguments) => list::run(&arguments).await,
            JobsCommand::Limits(arguments) => limits::run(&arguments).await,
            JobsCommand::Xray(arguments) => xray::run(&arguments).await,
            JobsCommand::Types(arguments) => types::run(&arguments).await,
            JobsCommand::Type(arguments) => type_details::run(&arguments).await,
            JobsCommand::Show(arguments) => show::run(&arguments).await,
            JobsCommand::Retry(arguments) => act::run(&arguments, &Verb::Retry).await,
            JobsCommand::Kill(arguments) => act::run(&arguments, &Verb::Kill).await,
            JobsCommand::Delete(arguments) => act::run(&arguments, &Verb::Delete).await,
            JobsCommand::Reschedule(arguments) => reschedule::run(&arguments).await,
            JobsCommand::Move(arguments) => move_jobs::run(&arguments).await,
            JobsCommand::Quarantine(command) => quarantine::run(&command).await,
            JobsCommand::Tasks(command) => tasks::run(&command).await,
            JobsCommand::Clear(arguments) => clear::run(&arguments).await,
            JobsCommand::Workers(arguments) => workers::run(&arguments).await,
            JobsCommand::Working(arguments) => working::run(&arguments).await,
            JobsCommand::Cancel(arguments) => cancel::run(&arguments).await,
            JobsCommand::Pause(arguments) => pause::run(&arguments, pause::Verb::Pause).await,
            JobsCommand::Resume(arguments) => pause::run(&arguments, pause::Verb::Resume).await,
            JobsCommand::Cron(command) => cron::run(&command).await,
            JobsCommand::Batches(command) => batches::run(&command).await,
            JobsCommand::Export(arguments) => export::run(&arguments).await,
            JobsCommand::Import(arguments) => import::run(&arguments).await,
            JobsCommand::Verify(arguments) => verify::run(&arguments),
            JobsCommand::Damage(arguments) => damage::run(&arguments).await,
            JobsCommand::Salvage(arguments) => salvage::run(&arguments),
        }
    })
}
