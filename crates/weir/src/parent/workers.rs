//! The apps' workers: started, watched and ended by the parent, so that they outlive a service
//! process that is replaced.

use anyhow::Context;
use weir_supervisor::workers::{Fleet, GroupSpec};

use super::shared_sockets::Groups;
use crate::config::Settings;
use crate::part::Part;

/// The workers of all apps that have a command. None: there are none, or apps are not wanted here.
pub(super) fn fleet(
    settings: &Settings,
    only: &[Part],
    sockets: &Groups,
) -> anyhow::Result<Option<Fleet>> {
    if !Part::Front.is_among(only) {
        return Ok(None);
    }
    let groups: anyhow::Result<Vec<GroupSpec>> = groups(settings, sockets).collect();
    let groups = groups?;
    if groups.is_empty() {
        return Ok(None);
    }
    Fleet::new(groups, &settings.run_folder()).map(Some).context("the workers of [[front.apps]]")
}

/// What is run.
fn groups(
    settings: &Settings,
    sockets: &Groups,
) -> impl Iterator<Item = anyhow::Result<GroupSpec>> {
    let apps = settings.front.apps.iter();
    apps.filter_map(|app| {
        let processes = app.processes.as_ref()?;
        let (name, restart) = (&app.settings.name, &settings.supervisor.restart);
        Some(processes.group(name, restart, sockets.get(name)).map_err(Into::into))
    })
}
