//! The command line: parses the arguments and runs one command.
//!
//! - `cli`, `commands`: one definition and one file per verb.
//! - `admin_client`: requests to a running Weir; `target`: which Weir.
//! - `backup`: the folder of backups, what is in them, and restores.
//! - [`data_dir`]: the data directory that commands and services share, and its locks.
//! - [`output`]: printing; [`invocation`]: how this program was started; [`Exit`]: exit codes.
//!
//! The processes of `weir up` are in the binary, which passes their entry points as
//! [`ServiceCommands`].

mod admin_client;
mod backup;
mod cli;
mod commands;
pub mod data_dir;
#[cfg(test)]
mod documented_commands;
mod exit;
pub mod invocation;
mod operator;
pub mod output;
mod service;
mod target;

use std::process::ExitCode;

pub use self::commands::demo::DemoArguments;
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
            // clap treats help and version as errors, but they are requested output.
            let exit = if asked.use_stderr() { Exit::Usage } else { Exit::Fine };
            let _ = asked.print();
            return exit.into();
        }
    };
    match cli.run(service) {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            Exit::from_error(&error).into()
        }
    }
}
