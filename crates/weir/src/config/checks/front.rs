//! The same for the apps' workers: whether they could be started at all.

use weir_supervisor::workers::{Mistake, mistakes as of_group};

use super::super::Settings;
use super::super::report::Report;

pub(super) fn mistakes(settings: &Settings, report: &mut Report) {
    let run = settings.run_folder();
    for (index, app) in settings.front.apps.iter().enumerate() {
        let Some(processes) = &app.processes else { continue };
        // A name that is none was reported where it was read.
        let Ok(group) = processes.group(&app.settings.name, &settings.supervisor.restart) else {
            continue;
        };
        for Mistake { setting, text, .. } in of_group(&group, &run) {
            let path = format!("front.apps[{index}].{}", key(setting));
            report.mistake_at(&path, format!("{path}: {text}"));
        }
    }
}

/// The key that becomes this part of a group's specification.
fn key(setting: &str) -> &str {
    match setting {
        "processes" => "workers",
        "run_folder" => "name",
        "sockets" | "variables" | "environment" | "readiness" => "command",
        same => same,
    }
}
