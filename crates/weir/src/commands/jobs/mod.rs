//! `weir jobs ..`: one file per verb.

mod act;
mod clear;
mod damage;
mod export;
mod import;
mod list;
mod pause;
mod push;
mod query;
mod salvage;
mod show;
mod verify;
mod workers;
mod working;

use clap::Subcommand;

use crate::admin_client;
use crate::exit::Exit;

/// The verbs of `weir jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// Push one job
    Push(push::Arguments),
    /// List queues, or the jobs of a place
    List(list::Arguments),
    /// Show one job with its payload and its failure
    Show(show::Arguments),
    /// Put scheduled, failed or dead jobs into their queues now
    Retry(act::Arguments),
    /// Move scheduled or failed jobs to the dead set
    Kill(act::Arguments),
    /// Forget scheduled, failed or dead jobs
    Delete(act::Arguments),
    /// Forget all jobs of a place
    Clear(clear::Arguments),
    /// List the workers that are connected by Faktory's protocol, or tell them to be quiet or to end
    Workers(Box<workers::Arguments>),
    /// List the jobs that are being worked on, the longest first
    Working(working::Arguments),
    /// Stop serving queues; jobs wait in them
    Pause(pause::Arguments),
    /// Serve paused queues again
    Resume(pause::Arguments),
    /// Write jobs as JSON lines
    Export(export::Arguments),
    /// Read JSON lines: exported ones, or plain jobs
    Import(import::Arguments),
    /// Check every checksum of the job store, while no Weir runs on it; changes nothing
    Verify(verify::Arguments),
    /// List damage to the job store that nobody has acknowledged, or acknowledge it
    Damage(damage::Arguments),
    /// Print the jobs in what was set aside of a damaged job store, for `weir jobs import`
    Salvage(salvage::Arguments),
}

pub(crate) fn run(command: JobsCommand) -> anyhow::Result<Exit> {
    use act::Verb;
    admin_client::block_on(async {
        match command {
            JobsCommand::Push(arguments) => push::run(&arguments).await,
            JobsCommand::List(arguments) => list::run(&arguments).await,
            JobsCommand::Show(arguments) => show::run(&arguments).await,
            JobsCommand::Retry(arguments) => act::run(&arguments, Verb::Retry).await,
            JobsCommand::Kill(arguments) => act::run(&arguments, Verb::Kill).await,
            JobsCommand::Delete(arguments) => act::run(&arguments, Verb::Delete).await,
            JobsCommand::Clear(arguments) => clear::run(&arguments).await,
            JobsCommand::Workers(arguments) => workers::run(&arguments).await,
            JobsCommand::Working(arguments) => working::run(&arguments).await,
            JobsCommand::Pause(arguments) => pause::run(&arguments, pause::Verb::Pause).await,
            JobsCommand::Resume(arguments) => pause::run(&arguments, pause::Verb::Resume).await,
            JobsCommand::Export(arguments) => export::run(&arguments).await,
            JobsCommand::Import(arguments) => import::run(&arguments).await,
            JobsCommand::Verify(arguments) => verify::run(&arguments),
            JobsCommand::Damage(arguments) => damage::run(&arguments).await,
            JobsCommand::Salvage(arguments) => salvage::run(&arguments),
        }
    })
}

/// `1 job`, `5 jobs`.
fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}
