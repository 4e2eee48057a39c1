//! Checks of job workers: whether they can be started.

use weir_supervisor::workers::{GroupSpecError, spec_errors as of_group};

use super::super::Settings;
use super::reject_unreachable_user;
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    let run_folder = settings.run_folder();
    for (name, workers) in &settings.workers {
        reject_unreachable_user(&workers.launch, &format!("workers.{name}"), report);
        // An invalid name was reported when it was read.
        let Ok(group) = workers.group(name, &settings.supervisor.restart) else { continue };
        if group.command.is_empty() {
            // This was reported, too.
            continue;
        }
        for GroupSpecError { setting, text, .. } in of_group(&group, &run_folder) {
            let path = match setting {
                "run_folder" => format!("workers.{name}"),
                "sockets" | "variables" => format!("workers.{name}.command"),
                "readiness" => format!("workers.{name}.ready_line"),
                same => format!("workers.{name}.{same}"),
            };
            report.error_at(&path, format!("{path}: {text}"));
        }
    }
}
