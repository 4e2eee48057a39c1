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
    check_budget(settings, report);
}

/// The processes of all groups together must fit into the budget.
fn check_budget(settings: &Settings, report: &mut Report) {
    let (budget, reserve) = (&settings.budget, settings.budget.reserve);
    let (Some(all), Some(max)) = (budget.database_connections, budget.of_job_workers()) else {
        return;
    };
    if reserve >= all {
        let text = format!("budget.reserve: {reserve} leave none of {all} for [workers.NAME]");
        return report.error_at("budget.reserve", text);
    }
    let groups = settings.workers.iter().map(|(name, workers)| (name, workers.connections()));
    let groups: Vec<(&String, (u64, u64))> = groups.collect();
    let sum: u64 = groups.iter().map(|(_, (_, own))| own).sum();
    if sum <= u64::from(max) {
        return;
    }
    let parts: Vec<String> =
        groups.iter().map(|(name, (each, own))| format!("{name} {own} ({each} each)")).collect();
    let text = format!(
        "budget.database_connections: the processes of [workers.NAME] may have {sum} connections ({}), \
         more than {max} ({all} less {reserve} of budget.reserve); lower concurrency or processes, or \
         connections_per_thread if jobs share connections",
        parts.join(", ")
    );
    report.error_at("budget.database_connections", text);
}
