//! The command line: parses it and runs one command.
//!
//! - `cli`, `commands`: one definition and one file per verb.
//! - `admin_client`: how commands talk to a running Weir; `target`: to which.
//! - [`data_dir`]: the folder that commands and services share, and its locks.
//! - [`output`]: what is printed; [`Exit`]: how a command ends.
//!
//! The processes of `weir up` are the binary's: it hands their start over as [`ServiceCommands`].

mod admin_client;
mod cli;
mod commands;
pub mod data_dir;
mod exit;
pub mod output;
mod service;
mod target;

use std::process::ExitCode;

pub use self::commands::up::UpArguments;
pub use self::exit::Exit;
pub use self::service::ServiceCommands;
pub use self::target::SettingsArguments;
use crate::cli::Cli;

/// Runs the command that this process was started with.
#[must_use]
pub fn run(service: ServiceCommands) -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(asked) => {
            // Help and version are errors to clap, but not to whoever asked for them.
            let exit = if asked.use_stderr() { Exit::Usage } else { Exit::Fine };
            let _ = asked.print();
            return exit.into();
        }
    };
    match cli.run(service) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            Exit::of(&error).into()
        }
    }
}
