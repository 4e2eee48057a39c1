//! `weir gems ..`: one file per verb.
//!
//! What takes long (`import`, `verify`, and `mirror` where no running Weir mirrors already) works on the
//! store itself, whether or not Weir runs: stores are made for several processes. All else asks the
//! running Weir.

mod import;
mod info;
mod key;
mod list;
mod mirror;
mod rebaseline;
mod store;
mod verify;
mod yank;

use clap::Subcommand;

use crate::admin_client;
use crate::exit::Exit;

/// The verbs of `weir gems`.
#[derive(Debug, Subcommand)]
pub(crate) enum GemsCommand {
    /// List the names of gems
    List(list::Arguments),
    /// Show a gem with its releases, the newest first
    Info(info::Arguments),
    /// Take a release out of the index, for good; its file stays on the disk
    Yank(yank::Arguments),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Add releases from a file of JSON lines; works whether or not Weir runs
    Import(import::Arguments),
    /// Bring what another index has here: all of it, then only what has changed. A running Weir that
    /// mirrors is asked to do it now; otherwise this command does it itself
    Mirror(Box<mirror::Arguments>),
    /// Compute everything in the index anew from the releases, and compare; works whether or not Weir
    /// runs
    Verify(verify::Arguments),
    /// Begin /versions and /names anew: shorter, but every client fetches all of them once
    Rebaseline(rebaseline::Arguments),
}

pub(crate) fn run(command: GemsCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            GemsCommand::List(arguments) => list::run(&arguments).await,
            GemsCommand::Info(arguments) => info::run(&arguments).await,
            GemsCommand::Yank(arguments) => yank::run(&arguments).await,
            GemsCommand::Key(command) => key::run(command).await,
            GemsCommand::Import(arguments) => import::run(&arguments).await,
            GemsCommand::Mirror(arguments) => mirror::run(&arguments).await,
            GemsCommand::Verify(arguments) => verify::run(&arguments).await,
            GemsCommand::Rebaseline(arguments) => rebaseline::run(&arguments).await,
        }
    })
}

/// `1 gem`, `5 gems`.
fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
