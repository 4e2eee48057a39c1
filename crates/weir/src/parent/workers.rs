//! The apps' workers and those of jobs: started, watched and ended by the parent, so that they outlive a service
//! process that is replaced.

use anyhow::Context;
use weir_supervisor::workers::{Fleet, GroupSpec};

use super::shared_sockets::Groups;
use crate::config::Settings;
use crate::part::Part;

/// The workers of all apps that have a command, and those of jobs, as far as they are wanted here.
/// Without any, it is still the way for the service to ask something of the parent.
pub(super) fn fleet(settings: &Settings, only: &[Part], sockets: &Groups) -> anyhow::Result<Fleet> {
    let groups = groups(settings, only, sockets)?;
    Fleet::new(groups, &settings.run_folder())
        .context("the workers of [[front.apps]] and [workers]")
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
