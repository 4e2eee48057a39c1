//! `weir sidekiq ..`: acting on a Sidekiq that Weir does not run.

mod set_aside;

use clap::Subcommand;

use crate::admin_client::block_on;
use crate::exit::Exit;

/// The verbs of `weir sidekiq`.
#[derive(Debug, Subcommand)]
pub(crate) enum SidekiqCommand {
    /// Move the backlog of a queue aside, so that new jobs run at once and the backlog when workers
    /// are idle
    SetAside(Box<set_aside::SidekiqSetAsideArgs>),
}

pub(crate) fn run(command: SidekiqCommand) -> anyhow::Result<Exit> {
    match command {
        SidekiqCommand::SetAside(arguments) => {
            block_on(async { Box::pin(set_aside::run(&arguments)).await })
        }
    }
}
