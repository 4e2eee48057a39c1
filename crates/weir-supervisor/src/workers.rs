//! Groups of worker processes: an application's web workers and job workers.
//!
//! - [`spec`](GroupSpec): the program of a group; [`spec_errors`]: errors in it, found before a
//!   start.
//! - [`Fleet`]: all groups and their processes; the supervisor's loop runs it.
//! - `slot`, `group`, `rolling`, `generation`, `connections`, `overrides`: the rules. Pure: times are arguments.
//! - `launch`, `process`, `endpoint`, `output`, `notify_socket`: one process.

mod blueprint;
mod check;
mod connections;
mod descendants;
mod endpoint;
mod fleet;
mod generation;
mod group;
mod launch;
mod notify_socket;
mod output;
mod overrides;
mod process;
mod rolling;
mod run_folder;
mod signals;
mod slot;
mod spec;
mod template;
mod values;

pub use check::{GroupSpecError, spec_errors};
pub(crate) use fleet::{CommandSender, ServiceCommand};
pub use fleet::{FailedGroup, Fleet, FleetError};
pub use overrides::in_force::FleetLimits;
pub use overrides::{
    GroupValues, JobGroupState, OVERRIDE_DEFAULT, OVERRIDE_MAX, Override, OverrideOutcome,
    OverrideRequest,
};
pub(crate) use rolling::Rolling;
pub use signals::{UnknownSignal, WorkerSignal};
pub(crate) use slot::CarriedSlot;
pub use spec::{
    BoundBy, Dump, GROUP_NAME_BYTES_MAX, GroupName, GroupNameError, GroupSpec, ListeningSocket,
    PROCESSES_MAX, Readiness, ResourceLimits, SOCKETS_MAX, SocketKind,
};
pub use values::{JobSpec, THREADS_MAX, WorkerValues, limited_group};

/// Limit of the groups of one parent.
pub const GROUPS_MAX: usize = 100;
/// Limit of replaced service processes that still have connections. Those beyond
/// [`old_processes_max`](crate::ChildSpec::old_processes_max) have closed their streams and end
/// within the timeout of an idle connection, so only restarts in quick succession reach the limit.
pub const LINGERING_MAX: usize = 16;
/// Limit of connected services: one, its successor during a replacement, and the replaced ones.
pub const SERVICES_MAX: usize = LINGERING_MAX + 2;
/// Processes started per iteration of the loop: each costs it a fork.
pub const STARTS_PER_TURN_MAX: usize = 8;
/// Limit in bytes of the reason that the service gives for an eviction.
pub const REASON_BYTES_MAX: usize = 1_000;
