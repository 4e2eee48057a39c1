//! `weir-bench gems`: an index of gems of real size, and requests to a server of one.
//!
//! Names are drawn by the seed from the server's list (`/names`), so that every server of the same index gets the
//! same sequence. A response with an unexpected status or, where it is known, length counts in `errors`, and the
//! command exits with 1.

mod compare;
pub(crate) mod gem_file;
mod generate;
mod load;
mod push;
mod report;
mod scenario;
mod settings;
mod visibility;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::compare::CompareFlags;
use self::settings::LoadFlags;
use crate::http::{HttpUrl, Target};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("scenario", |scenario| scenario.required_unless_present("generate")))]
pub(crate) struct GemsFlags {
    #[command(subcommand)]
    command: Option<GemsCommand>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Subcommand)]
enum GemsCommand {
    /// Run the same load on several servers in turn and print medians as a markdown table.
    Compare(CompareFlags),
}

#[derive(Debug, Args)]
struct RunFlags {
    /// Write an index to this file (- for standard output) as JSON lines, the same for the same seed, and end.
    /// `weir gems import` takes it.
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    generate: Option<PathBuf>,
    /// How many gems --generate makes; they have some ten versions each on average.
    #[arg(long, default_value_t = 190_000)]
    gems: u32,
    /// http://host:port[/path]
    #[arg(long, default_value = "http://127.0.0.1:9292")]
    target: HttpUrl,
    /// 4 by default; 500 in an open loop, which uses as many as there are requests in flight.
    #[arg(long)]
    connections: Option<usize>,
    /// Process whose CPU and memory to read, with all its descendants; repeatable.
    #[arg(long = "server-pid")]
    server_pids: Vec<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
}

/// Returns whether all requests succeeded.
pub(crate) fn run(flags: &GemsFlags, output: &mut Output) -> Result<bool> {
    if let Some(GemsCommand::Compare(flags)) = &flags.command {
        return compare::run(flags, output);
    }
    let flags = &flags.run;
    if let Some(file) = &flags.generate {
        generate::run(file, flags.gems, flags.load.seed)?;
        return Ok(true);
    }
    let settings = flags.load.validate(flags.connections)?;
    let target = Target { url: flags.target.clone(), pids: flags.server_pids.clone() };
    let run = scenario::run(&target, &settings)?;
    let envelope = report::envelope(&run, &target, &settings);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}
