//! The binary: parses the command line and runs one command.
//!
//! - [`cli`], [`commands`]: one definition and one file per verb.
//! - [`config`]: `weir.toml` -> typed settings.
//! - [`parent`]: `weir up`, the process that stays: lock, listening sockets, supervision.
//! - [`run`], [`compose`]: the service process that is replaced: lifecycle, and who is joined to whom.
//! - [`turn`]: what two service processes can't both have while one replaces the other.
//! - [`alive`]: what the service tells its parent while it serves.
//! - [`front`]: what each core does with HTTP; [`gems`]: where the index of gems is.
//! - [`sockets`]: apps whose workers take connections themselves.
//! - [`admin_client`]: how the other commands talk to a running Weir.

mod admin_client;
mod alive;
mod cli;
mod commands;
mod compose;
mod exit;
mod front;
mod gems;
mod http;
mod logging;
mod output;
mod parent;
mod reload;
mod run;
mod sockets;
mod target;
mod turn;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::exit::Exit;

/// Jobs come and go in many sizes on one hot thread; mimalloc keeps that compact and quick.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(asked) => {
            // Help and version are errors to clap, but not to whoever asked for them.
            let exit = if asked.use_stderr() { Exit::Usage } else { Exit::Fine };
            let _ = asked.print();
            return exit.into();
        }
    };
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            Exit::of(&error).into()
        }
    }
}
