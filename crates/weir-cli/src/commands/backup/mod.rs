//! `weir backup ..`: makes a backup, lists or checks backups.

mod list;
mod make;
mod verify;

use clap::{Args, Subcommand};

use crate::exit::Exit;

/// `weir backup`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    verb: Option<BackupVerb>,
    #[command(flatten)]
    make: make::MakeArguments,
}

/// The verbs of `weir backup`.
#[derive(Debug, Subcommand)]
enum BackupVerb {
    /// List the backups in a folder, and the times to which each can be restored
    List(list::ListArguments),
    /// Read all files of backups and compare their checksums; read-only
    Verify(verify::VerifyArguments),
}

pub(crate) fn run(arguments: &BackupArguments) -> anyhow::Result<Exit> {
    match &arguments.verb {
        None => make::run(&arguments.make),
        Some(BackupVerb::List(arguments)) => list::run(arguments),
        Some(BackupVerb::Verify(arguments)) => verify::run(arguments),
    }
}
