//! `weir gems ..`: one file per verb.
//!
//! Long operations (`import`, `verify`, and `mirror` where no running Weir mirrors) open the store
//! themselves, whether or not Weir runs: stores support several processes. All others query the
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
    /// Remove a release from the index permanently; its file stays on the disk
    Yank(yank::Arguments),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Add releases from a file of JSON lines, whether or not Weir is running
    Import(import::Arguments),
    /// Synchronize with another index: everything at first, then only the changes. If the running
    /// Weir mirrors, it does so now; otherwise this command does
    Mirror(Box<mirror::Arguments>),
    /// Compute the index again from the releases and compare it, whether or not Weir is running
    Verify(verify::Arguments),
    /// Rewrite /versions and /names from scratch: they become shorter, but every client fetches
    /// them in full once
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
