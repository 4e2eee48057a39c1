//! `weir-bench front`: HTTP requests to an app of several workers, behind Weir or any other server.
//!
//! Responses name their worker (`X-Worker`). Requests state how long the worker is busy (`?us=`): the same sequence
//! for all servers, drawn from the seed. Requests without a response in time, and responses other than 200, count in
//! `errors`, and the command exits with 1.

mod compare;
mod hosted;
mod hosting;
mod load;
mod report;
mod scenario;
mod service_times;
mod settings;
mod shares;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use self::compare::CompareFlags;
use self::hosted::Hosted;
use self::hosting::HostingFlags;
use self::settings::LoadFlags;
use crate::http::{HttpUrl, Target};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct FrontFlags {
    #[command(subcommand)]
    command: Option<FrontCommand>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Subcommand)]
enum FrontCommand {
    /// Run the same load on several servers in turn and print medians as a markdown table.
    Compare(CompareFlags),
}

#[derive(Debug, Args)]
struct RunFlags {
    /// http://host:port[/path]
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    target: HttpUrl,
    /// 4 by default; 2000 in an open loop, which uses as many as there are requests in flight.
    #[arg(long)]
    connections: Option<usize>,
    /// Process whose CPU and memory to read, with all its descendants; repeatable.
    #[arg(long = "server-pid")]
    server_pids: Vec<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hosting: HostingFlags,
    /// Weir's program for --self-hosted; by default the one in this program's folder.
    #[arg(long)]
    weir: Option<PathBuf>,
    #[command(flatten)]
    load: LoadFlags,
}

/// Returns whether all requests succeeded.
pub(crate) fn run(flags: &FrontFlags, output: &mut Output) -> Result<bool> {
    if let Some(FrontCommand::Compare(flags)) = &flags.command {
        return compare::run(flags, output);
    }
    let flags = &flags.run;
    let settings = flags.load.validate(flags.connections)?;
    let hosted = flags.start_hosted()?;
    let url = flags.target.clone().with_default_path(scenario::PATH);
    let remote = || Target { url, pids: flags.server_pids.clone() };
    let target = hosted.as_ref().map_or_else(remote, Hosted::target);
    let outcome = scenario::run(&target, &settings)?;
    let envelope = report::envelope(&outcome, &target, &settings);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}

impl RunFlags {
    fn start_hosted(&self) -> Result<Option<Hosted>> {
        let hosting = self.hosting.validate()?;
        if !self.hosting.self_hosted {
            return Ok(None);
        }
        let workers = self.load.workers.context("--self-hosted wants --workers")?;
        Hosted::start(&hosting, workers, self.weir.as_deref()).map(Some)
    }
}
