//! `weir sidekiq ..`: acting on a Sidekiq that Weir does not run.

mod limited;
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
    /// List the queues of job types that an autopilot limits, or move their jobs back
    Limited(Box<limited::SidekiqLimitedArgs>),
}

pub(crate) fn run(command: SidekiqCommand) -> anyhow::Result<Exit> {
    match command {
        SidekiqCommand::SetAside(arguments) => {
            block_on(async { Box::pin(set_aside::run(&arguments)).await })
        }
        SidekiqCommand::Limited(arguments) => {
            block_on(async { Box::pin(limited::run(&arguments)).await })
        }
    }
}
