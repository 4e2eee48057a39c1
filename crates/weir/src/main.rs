//! The binary: the processes of `weir up`, and who is joined to whom. All other commands are weir-cli's.
//!
//! - [`up`], [`parent`]: the process that stays: lock, listening sockets, supervision.
//! - [`run`], [`compose`]: the service process that is replaced: lifecycle, and the composition root.
//! - [`alive`]: what the service tells its parent while it serves; [`reload`]: SIGHUP.
//! - [`front`]: what each core does with HTTP; [`gems`]: where the index of gems is.
//! - [`http`]: HTTP on the listeners of the admin API and the console; [`logging`]: the log.
//! - [`sockets`]: apps whose workers take connections themselves.

mod alive;
mod compose;
mod front;
mod gems;
mod http;
mod logging;
mod parent;
mod reload;
mod run;
mod sockets;
mod up;

use std::process::ExitCode;

use weir_cli::ServiceCommands;

/// Jobs come and go in many sizes on one hot thread; mimalloc keeps that compact and quick.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    weir_cli::run(ServiceCommands { up: up::run, service: run::run })
}
