//! The apps' workers and those of jobs: started, watched and ended by the parent, so that they outlive a service
//! process that is replaced.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_supervisor::workers::{Fleet, GroupSpec};

use super::shared_sockets::Groups;
use weir_config::part::Part;
use weir_config::{Settings, run_folder};

/// The workers of all apps that have a command, and those of jobs, as far as they are wanted here.
/// Without any, it is still the way for the service to ask something of the parent.
pub(super) fn fleet(settings: &Settings, only: &[Part], sockets: &Groups) -> anyhow::Result<Fleet> {
    let groups = groups(settings, only, sockets)?;
    let run_folder = make_run_folder(settings)?;
    Fleet::new(groups, &run_folder).context("the workers of [[front.apps]] and [workers]")
}

/// What is run.
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
    let of_jobs = settings.workers.iter().filter(|_| Part::Workers.is_among(only));
    let of_jobs =
        of_jobs.map(|(name, workers)| Ok(workers.group(name, &settings.supervisor.restart)?));
    groups.chain(of_jobs).collect()
}

/// Others may pass through, whatever umask Weir was started with.
const PASSABLE: u32 = 0o711;

/// Where the workers' sockets are to lie. Of workers that run as another user that is a folder
/// through which these can pass; their group's folder in it is theirs alone.
pub(super) fn make_run_folder(settings: &Settings) -> anyhow::Result<PathBuf> {
    let own = settings.run_folder();
    if settings.has_other_users() {
        for folder in [Path::new(run_folder::OUTSIDE), &own] {
            make_passable(folder).with_context(|| {
                let shown = folder.display();
                format!("{shown}, where workers of another user have their sockets, cannot be created; make it writable for Weir (systemd: RuntimeDirectory=weir)")
            })?;
        }
    }
    Ok(own)
}

fn make_passable(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).create(folder)?;
    let mode = std::fs::metadata(folder)?.permissions().mode();
    std::fs::set_permissions(folder, Permissions::from_mode(mode | PASSABLE))
}

/// Takes away what lies outside of data_dir, once nobody uses it any more, also if the settings have
/// no user any more. What is not empty stays: the next start clears it.
pub(super) fn remove_run_folder(settings: &Settings) {
    let outside = settings.outside_run_folder();
    let groups = std::fs::read_dir(&outside).into_iter().flatten().flatten();
    for group in groups {
        let _ = std::fs::remove_dir(group.path());
    }
    let _ = std::fs::remove_dir(outside);
}
