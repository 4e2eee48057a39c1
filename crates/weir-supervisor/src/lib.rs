//! The parent process: starts child processes with inherited descriptors, supervises them, restarts
//! them after a crash and stops them at shutdown.
//!
//! The parent runs no async runtime and holds no service state, so a fault in a service cannot
//! crash it.
//!
//! - [`spec`]: the program of a child and the descriptors that it inherits.
//! - [`supervise`]: the main loop over all children, and the replacement of the service process;
//!   [`supervise::Supervisor::run`] is the lifecycle.
//! - [`workers`]: groups of worker processes, which outlive the service process.
//! - [`selection`]: sockets that workers share, and the selection of a socket for each connection.
//! - [`carried`]: state that survives the re-execution of the parent.
//! - [`control`]: the protocol between the parent and the service process about workers.
//! - [`restarts`]: when to restart a child and when to give up. Pure.
//! - [`inherited`]: the child's side: inherited descriptors by name, and status messages to the
//!   parent.
//! - [`requests`]: signals, translated to control requests.
//! - [`notify`]: systemd's readiness protocol.
//! - [`system`]: the only module with `unsafe` code.

pub mod carried;
mod child;
pub mod control;
pub mod inherited;
pub mod notify;
mod orphans;
mod output;
mod printer;
pub mod requests;
pub mod restarts;
pub mod selection;
mod silence;
pub mod spec;
pub mod supervise;
pub mod system;
pub mod workers;

pub use restarts::RestartPolicy;
pub use spec::ChildSpec;
pub use supervise::{Events, SupervisionOutcome, Supervisor};

use std::time::Duration;

/// Returns the monotonic time since the machine started. Changes of the wall clock do not affect
/// it, so timeouts neither end early nor hang.
pub(crate) fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}
