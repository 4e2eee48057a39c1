//! `weir-bench front`: HTTP requests to an app of several workers, behind Weir or any other server.
//!
//! Who serves how much is told by the answers themselves (`X-Worker`), how long a worker is busy by the requests
//! (`?us=`): the same sequence for all servers, drawn from the seed. What has no answer in time, or another one than
//! 200, counts in `errors`, and the command exits with 1.

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
    /// 4 by default; in an open loop 2000, of which as many are used as requests are under way.
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
    /// Weir's program for --self-hosted; the one beside this program by default.
    #[arg(long)]
    weir: Option<PathBuf>,
    #[command(flatten)]
    load: LoadFlags,
}

/// Whether everything was answered.
pub(crate) fn run(flags: &FrontFlags, output: &mut Output) -> Result<bool> {
    if let Some(FrontCommand::Compare(flags)) = &flags.command {
        return compare::run(flags, output);
    }
    let flags = &flags.run;
    let settings = flags.load.checked(flags.connections)?;
    let hosted = flags.host()?;
    let url = flags.target.clone().or_path(scenario::PATH);
    let there = || Target { url, pids: flags.server_pids.clone() };
    let target = hosted.as_ref().map_or_else(there, Hosted::target);
    let outcome = scenario::run(&target, &settings)?;
    let envelope = report::envelope(&outcome, &target, &settings);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}

impl RunFlags {
    fn host(&self) -> Result<Option<Hosted>> {
        let hosting = self.hosting.checked()?;
        if !self.hosting.self_hosted {
            return Ok(None);
        }
        let workers = self.load.workers.context("--self-hosted wants --workers")?;
        Hosted::start(&hosting, workers, self.weir.as_deref()).map(Some)
    }
}
