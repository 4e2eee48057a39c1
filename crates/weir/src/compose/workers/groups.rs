//! The settings of groups of workers, for operators.

use weir_admin::workers::Groups;
use weir_config::Settings;

/// Returns the groups that the parent runs.
pub(in crate::compose) fn groups(settings: &Settings) -> Groups {
    let apps = settings.front.apps.iter().filter_map(|app| {
        let launch = &app.processes.as_ref()?.launch;
        launch.dump_signal.is_some().then(|| app.settings.name.clone())
    });
    let job_groups = settings.workers.iter();
    let job_groups = job_groups.filter(|(_, own)| own.launch.dump_signal.is_some());
    let job_groups = job_groups.map(|(name, _)| name.clone());
    Groups {
        job_groups: settings.workers.keys().cloned().collect(),
        with_dump: apps.chain(job_groups).collect(),
    }
}
