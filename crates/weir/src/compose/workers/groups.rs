//! The settings of groups of workers, for operators.

use weir_admin::workers::Groups;
use weir_config::Settings;

/// Returns the groups that the parent runs.
pub(in crate::compose) fn groups(settings: &Settings) -> Groups {
    let apps = settings.front.apps.iter().filter_map(|app| {
        let launch = &app.processes.as_ref()?.launch;
        launch.dump_signal.is_some().then(|| app.settings.name.clone())
    });
    let of_jobs = settings.workers.iter();
    let of_jobs = of_jobs.filter(|(_, own)| own.launch.dump_signal.is_some());
    let of_jobs = of_jobs.map(|(name, _)| name.clone());
    Groups {
        of_jobs: settings.workers.keys().cloned().collect(),
        with_dump: apps.chain(of_jobs).collect(),
    }
}
