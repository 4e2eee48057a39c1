//! The binary: the processes of `weir up` and how their parts are connected. All other commands are
//! in weir-cli.
//!
//! - [`demo`]: `weir demo`, which starts `weir up` and the load.
//! - [`up`], [`parent`]: the process that stays: lock, listening sockets, supervision.
//! - [`run`], [`compose`]: the service process, which is replaced: lifecycle and composition root.
//! - [`health_reporter`]: signs of life of the service to its parent; [`reload`]: SIGHUP.
//! - [`front`]: routing of HTTP requests on each core; [`gems`]: the paths of the gem index.
//! - [`http`]: HTTP on the listeners of the admin API and the console; [`logging`]: the log.
//! - [`sockets`]: apps whose workers accept connections themselves.

mod compose;
mod demo;
mod front;
mod gems;
mod health_reporter;
mod http;
mod logging;
mod parent;
mod reload;
mod run;
mod sockets;
mod up;

use std::process::ExitCode;

use weir_cli::ServiceCommands;

/// Jobs of many sizes are allocated and freed on one hot thread; mimalloc keeps that compact and
/// fast.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    weir_cli::run(ServiceCommands { up: up::run, demo: demo::run, service: run::run })
}
