//! The workers of apps and of jobs: started, supervised and stopped by the parent, so that they
//! outlive a replaced service process.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_base::clock::Clock;
use weir_supervisor::workers::{Fleet, FleetLimits, GroupSpec};

use super::shared_sockets::Groups;
use weir_config::part::Part;
use weir_config::{Settings, run_folder};

/// Returns the workers of all apps with a command, and of jobs, as far as they are enabled here. It
/// is needed without any workers too, for requests of the service to the parent.
pub(super) fn fleet(settings: &Settings, only: &[Part], sockets: &Groups) -> anyhow::Result<Fleet> {
    let groups = groups(settings, only, sockets)?;
    let run_folder = make_run_folder(settings)?;
    let fleet = Fleet::new(groups, &run_folder);
    let fleet = fleet.context("the workers of [[front.apps]] and [workers]")?;
    Ok(fleet.with_limits(limits(settings)))
}

/// Returns what the groups together may use, and where run-time changes are kept.
pub(super) fn limits(settings: &Settings) -> FleetLimits {
    FleetLimits {
        connections_max: settings.budget.of_job_workers(),
        overrides_file: Some(settings.worker_overrides_file()),
        clock: Clock::system(),
    }
}

/// Returns the groups to run.
pub(super) fn groups(
    settings: &Settings,
    only: &[Part],
    sockets: &Groups,
) -> anyhow::Result<Vec<GroupSpec>> {
    let apps = settings.front.apps.iter().filter(|_| Part::Front.is_among(only));
    let groups = apps.filter_map(|app| {
        let processes = app.processes.as_ref()?;
        let (name, restart) = (&app.settings.name, &settings.supervisor.restart);
        Some(processes.group(name, restart, sockets.get(name)).map_err(Into::into))
    });
    let job_groups = settings.workers.iter().filter(|_| Part::Workers.is_among(only));
    let job_groups =
        job_groups.map(|(name, workers)| Ok(workers.group(name, &settings.supervisor.restart)?));
    let limited = if Part::Workers.is_among(only) { settings.limited_groups() } else { Vec::new() };
    groups.chain(job_groups).chain(limited.into_iter().map(Ok)).collect()
}

/// Other users may traverse it, regardless of the umask.
const TRAVERSABLE: u32 = 0o711;

/// Creates the folder of the workers' sockets. If workers run as another user, it is outside of
/// data_dir and traversable; only the group's folder in it is private to that user.
pub(super) fn make_run_folder(settings: &Settings) -> anyhow::Result<PathBuf> {
    let run_folder = settings.run_folder();
    if settings.has_other_users() {
        for folder in [Path::new(run_folder::OUTSIDE), &run_folder] {
            make_traversable(folder).with_context(|| {
                let shown = folder.display();
                format!("{shown}, where workers of another user have their sockets, cannot be created; make it writable for Weir (systemd: RuntimeDirectory=weir)")
            })?;
        }
    }
    Ok(run_folder)
}

fn make_traversable(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).create(folder)?;
    let mode = std::fs::metadata(folder)?.permissions().mode();
    std::fs::set_permissions(folder, Permissions::from_mode(mode | TRAVERSABLE))
}

/// Removes the folder outside of data_dir once it is unused, also if the settings no longer have a
/// user. Folders that are not empty stay: the next start clears them.
pub(super) fn remove_run_folder(settings: &Settings) {
    let outside = settings.outside_run_folder();
    let groups = std::fs::read_dir(&outside).into_iter().flatten().flatten();
    for group in groups {
        let _ = std::fs::remove_dir(group.path());
    }
    let _ = std::fs::remove_dir(outside);
}
