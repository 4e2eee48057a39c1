//! The settings of groups of workers, for operators.

use weir_admin::workers::Groups;
use weir_config::Settings;

/// Returns the groups that the parent runs.
pub(in crate::compose) fn groups(settings: &Settings) -> Groups {
    let apps = || {
        let apps = settings.front.apps.iter();
        apps.filter_map(|app| Some((&app.settings.name, app.processes.as_ref()?)))
    };
    let dumping_apps = apps().filter(|(_, own)| own.launch.dump_signal.is_some());
    let dumping_apps = dumping_apps.map(|(name, _)| name.clone());
    let job_groups = settings.workers.iter();
    let job_groups = job_groups.filter(|(_, own)| own.launch.dump_signal.is_some());
    let job_groups = job_groups.map(|(name, _)| name.clone());
    let limited = settings.limited_groups().into_iter().map(|group| group.name.to_string());
    Groups {
        job_groups: settings.workers.keys().cloned().chain(limited).collect(),
        with_dump: dumping_apps.chain(job_groups).collect(),
        apps: apps().map(|(name, _)| name.clone()).collect(),
    }
}
