//! `weir sidekiq ..`: acting on a Sidekiq that Weir does not run.

mod set_aside;

use clap::Subcommand;

use crate::admin_client::block_on;
use crate::exit::Exit;

/// The verbs of `weir sidekiq`.
#[derive(Debug, Subcommand)]
pub(crate) enum SidekiqCommand {
    /// Let new jobs of a queue run at once, and its backlog when nothing else is to do
    SetAside(Box<set_aside::Arguments>),
}

pub(crate) fn run(command: SidekiqCommand) -> anyhow::Result<Exit> {
    match command {
        SidekiqCommand::SetAside(arguments) => {
            block_on(async { Box::pin(set_aside::run(&arguments)).await })
        }
    }
}
