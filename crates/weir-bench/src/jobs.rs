//! `weir-bench jobs`: loads a server that speaks the Faktory protocol, Weir or any other.
//!
//! It checks what it gets: every push accepted, every job back exactly once, the server's own count of the
//! queue in agreement. Whatever does not hold counts in `errors`, and the command exits with 1.

mod batch_drain;
mod compare;
pub(crate) mod connect;
mod drain;
mod ledger;
pub(crate) mod payload;
mod phase;
mod push;
mod reply;
mod report;
mod role;
mod scenario;
pub(crate) mod server_url;
mod settings;
mod tallies;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::compare::CompareFlags;
use self::phase::Target;
use self::server_url::ServerUrl;
use self::settings::LoadFlags;
use crate::output::Output;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct JobsFlags {
    #[command(subcommand)]
    command: Option<JobsCommand>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// Run the same load on several servers in turn and print medians and ratios as a markdown table.
    Compare(CompareFlags),
}

#[derive(Debug, Args)]
struct RunFlags {
    /// tcp://[:password@]host:port
    #[arg(long, default_value = "tcp://127.0.0.1:7419")]
    url: ServerUrl,
    #[arg(long, default_value_t = 10)]
    connections: usize,
    /// Process whose CPU and memory to read, with all its descendants; repeatable.
    #[arg(long = "server-pid")]
    server_pids: Vec<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
}

/// Returns whether no errors were found.
pub(crate) fn run(flags: &JobsFlags, output: &mut Output) -> Result<bool> {
    if let Some(JobsCommand::Compare(flags)) = &flags.command {
        return compare::run(flags, output);
    }
    let flags = &flags.run;
    let settings = flags.load.validate(flags.connections)?;
    let target = Target { url: flags.url.clone(), pids: flags.server_pids.clone() };
    let outcome = scenario::run(&target, &settings)?;
    let envelope = report::envelope(&outcome, &target, &settings);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}
