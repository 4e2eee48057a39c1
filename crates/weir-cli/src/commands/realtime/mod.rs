//! `weir realtime ..`: one file per verb.

mod channels;
mod disconnect;
mod path;
mod publish;
pub(crate) mod shards;
mod users;

use clap::Subcommand;

use crate::admin_client;
use crate::exit::Exit;

/// The verbs of `weir realtime`.
#[derive(Debug, Subcommand)]
pub(crate) enum RealtimeCommand {
    /// Publish one event
    Publish(publish::RealtimePublishArgs),
    /// List channels, those with the most subscribers first
    Channels(channels::RealtimeChannelsArgs),
    /// List the users of a presence channel
    Users(users::RealtimeUsersArgs),
    /// Close all connections of a user, or one connection
    Disconnect(disconnect::RealtimeDisconnectArgs),
}

pub(crate) fn run(command: RealtimeCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            RealtimeCommand::Publish(arguments) => publish::run(&arguments).await,
            RealtimeCommand::Channels(arguments) => channels::run(&arguments).await,
            RealtimeCommand::Users(arguments) => users::run(&arguments).await,
            RealtimeCommand::Disconnect(arguments) => disconnect::run(&arguments).await,
        }
    })
}
