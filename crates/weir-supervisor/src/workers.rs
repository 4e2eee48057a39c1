//! Groups of worker processes: an application's web workers, job workers.
//!
//! - [`spec`](GroupSpec): what to run; [`mistakes`]: what is wrong with it, before anything runs.
//! - [`Fleet`]: all groups and their processes; the supervisor's loop runs it.
//! - `slot`, `group`, `rolling`, `generation`: the rules, pure; times come as arguments.
//! - `launch`, `process`, `endpoint`, `output`, `notify_socket`: one process.

mod blueprint;
mod check;
mod descendants;
mod endpoint;
mod fleet;
mod generation;
mod group;
mod launch;
mod notify_socket;
mod output;
mod process;
mod rolling;
mod run_folder;
mod signals;
mod slot;
mod spec;
mod template;

pub use check::{Mistake, mistakes};
pub(crate) use fleet::{CommandSender, ServiceCommand};
pub use fleet::{FailedGroup, Fleet, FleetError};
pub(crate) use rolling::Rolling;
pub use signals::{UnknownSignal, WorkerSignal};
pub(crate) use slot::CarriedSlot;
pub use spec::{
    BoundBy, Dump, GROUP_NAME_BYTES_MAX, GroupName, GroupNameError, GroupSpec, ListeningSocket,
    PROCESSES_MAX, Readiness, ResourceLimits, SOCKETS_MAX, SocketKind,
};

/// Groups of one parent.
pub const GROUPS_MAX: usize = 100;
/// Old service processes that still have connections. Those beyond
/// [`old_processes_max`](crate::ChildSpec::old_processes_max) have no streams any more, so they end
/// within the time of an idle connection: only restarts in quick succession make so many of them.
pub const LINGERING_MAX: usize = 16;
/// Services that are connected at once: one, the next while it is replaced, and those that linger.
pub const SERVICES_MAX: usize = LINGERING_MAX + 2;
/// Processes that are started before the loop looks after the others: each costs it a fork.
pub const STARTS_PER_TURN_MAX: usize = 8;
/// Bytes of a reason that the service gives for an eviction.
pub const REASON_BYTES_MAX: usize = 1_000;
