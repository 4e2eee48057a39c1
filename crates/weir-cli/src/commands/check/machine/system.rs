//! The program, the kernel, and the limits of processes.

use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};
use weir_advisor::wording::count;
use weir_config::Settings;

use super::machine_check::MachineCheck;

/// The program itself, and the Weir that runs with the same `data_dir`.
pub(super) fn program(running: Option<i32>) -> MachineCheck {
    let version = concat!("weir ", env!("CARGO_PKG_VERSION"));
    let running = running.map_or_else(
        || "no Weir runs with this data_dir".to_owned(),
        |pid| format!("Weir runs with this data_dir as process {pid}"),
    );
    MachineCheck::fine("version", format!("{version} for {}; {running}", std::env::consts::ARCH))
}

/// What Weir needs of the kernel and older ones lack: descriptors of processes (Linux 5.3), by which the parent waits
/// for its children.
pub(super) fn kernel() -> MachineCheck {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => MachineCheck::fine("kernel", format!("Linux {release}")),
        Err(error) => MachineCheck::problem(
            "kernel",
            format!(
                "Linux {release} rejects pidfd_open: {error}. Weir needs Linux 5.3, and a container runtime that permits the call"
            ),
        ),
    }
}

/// The limit of open files against the connections that the settings permit.
pub(super) fn open_files(settings: &Settings) -> MachineCheck {
    let name = "open files";
    let needed = connections_max(settings);
    // Weir raises the soft limit to the hard limit at its start.
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < needed => MachineCheck::warning(
            name,
            format!(
                "a process of this user may open {} files, but the settings permit {} connections; Weir accepts fewer. The limit is LimitNOFILE= in the unit, or `ulimit -Hn`",
                count(limit),
                count(needed)
            ),
        ),
        Some(limit) => MachineCheck::fine(
            name,
            format!("at most {}, for at most {} connections", count(limit), count(needed)),
        ),
        None => MachineCheck::fine(name, "unlimited"),
    }
}

/// The connections of one service process, with the descriptors that the job server reserves.
fn connections_max(settings: &Settings) -> u64 {
    let front =
        if settings.has_front() { u64::from(settings.front.limits.connections_max) } else { 0 };
    let limits = &settings.jobs.settings.limits;
    let jobs = limits.connections_max + limits.descriptors_reserved + limits.refusals_max;
    front + if settings.jobs.listen.is_some() { jobs as u64 } else { 0 }
}
