//! The parent: starts child processes with inherited descriptors, watches, restarts and ends them.
//!
//! It runs no async runtime and holds no service's state, so that nothing which fails in a service
//! can take it along.
//!
//! - [`spec`]: what to run, and what to hand it.
//! - [`supervise`]: the loop over all children, and the replacement of the service;
//!   [`supervise::Supervisor::run`] is the lifecycle.
//! - [`workers`]: groups of worker processes, which outlive the service.
//! - [`selection`]: sockets that workers share, and which of them a connection gets to.
//! - [`carried`]: what outlives the re-execution of the parent.
//! - [`control`]: what parent and service tell each other about workers.
//! - [`restarts`]: when to start again, and when to give up; pure.
//! - [`inherited`]: the child's side: descriptors by name, the way to say "ready".
//! - [`requests`]: signals, as things to do.
//! - [`notify`]: systemd's readiness protocol.
//! - [`system`]: the only module with `unsafe`.

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

/// Time since the machine started: never set back, so a wait neither ends early nor hangs when
/// somebody sets the wall clock.
pub(crate) fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}
