//! `weir-bench realtime`: many WebSocket clients of a server that speaks the Pusher protocol or Centrifugo's.
//!
//! Every event carries its number, so each client knows whether it got all events of its channel, once, and in
//! the order of all others. What does not hold counts in `errors`, and the command exits with 1.

mod centrifugo;
mod client;
pub(crate) mod close_reason;
pub(crate) mod codec;
mod compare;
mod connection_stats;
mod fanout;
mod floor;
pub(crate) mod frame;
mod ledger;
mod members;
mod meter;
mod order;
mod payload;
mod pool;
mod presence;
mod publisher;
mod publishing_thread;
pub(crate) mod pusher;
mod report;
mod scenario;
mod schedule;
mod settings;
mod shared_state;
mod signature;
mod slow;
mod socket;
mod source;
mod storm;
pub(crate) mod target;
mod waker;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::compare::CompareFlags;
use self::floor::WriterFlags;
use self::settings::LoadFlags;
use self::target::{App, Protocol, ServerUrl, Target};
use crate::output::Output;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct RealtimeFlags {
    #[command(subcommand)]
    command: Option<RealtimeCommand>,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Subcommand)]
enum RealtimeCommand {
    /// Run the same load on several servers in turn and print medians and ratios as a markdown table.
    Compare(Box<CompareFlags>),
    /// The plain write loop of scenario floor: a process of its own, so that its CPU time is its own.
    #[command(hide = true)]
    FloorWriter(WriterFlags),
}

#[derive(Debug, Args)]
struct RunFlags {
    /// ws://host:port, or ws://host:port+host:port.. for the nodes of one deployment
    #[arg(long, default_value = "ws://127.0.0.1:8080")]
    url: ServerUrl,
    /// id:key:secret; for Centrifugo the secret is the API key.
    #[arg(long, default_value = "app:key:secret")]
    app: App,
    #[arg(long, value_enum, default_value = "pusher")]
    protocol: Protocol,
    /// Process whose CPU and memory to read, with all its descendants; repeatable.
    #[arg(long = "server-pid")]
    server_pids: Vec<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
    #[arg(long, default_value_t = 1000)]
    clients: usize,
}

/// Returns whether no errors were found.
pub(crate) fn run(flags: &RealtimeFlags, output: &mut Output) -> Result<bool> {
    match &flags.command {
        Some(RealtimeCommand::Compare(flags)) => return compare::run(flags, output),
        Some(RealtimeCommand::FloorWriter(flags)) => return floor::write(flags, output),
        None => {}
    }
    let flags = &flags.run;
    let settings = flags.load.validate(flags.clients)?;
    let target = Target {
        url: flags.url.clone(),
        app: flags.app.clone(),
        protocol: flags.protocol,
        pids: flags.server_pids.clone(),
    };
    let outcome = scenario::run(&target, &settings)?;
    let envelope = report::envelope(&outcome, &target, &settings);
    let text = if flags.json { envelope.to_json_line() + "\n" } else { envelope.to_text() };
    output.print(&text)?;
    Ok(envelope.errors == 0)
}
