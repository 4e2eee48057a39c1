//! The same for the apps' workers: whether they could be started at all, and whether they could
//! listen on what they would get.

use std::sync::Arc;

use weir_supervisor::selection::{LoadedSelection, SocketGroup};
use weir_supervisor::workers::{GroupSpecError, spec_errors as of_group};

use super::super::{App, Processes, Settings, SharedSockets};
use super::{reject_unreachable_user, routes};
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    routes::check(settings, report);
    reject_unreachable(settings, report);
    let run = settings.run_folder();
    for (index, app) in settings.front.apps.iter().enumerate() {
        if let Err(why) = app.page() {
            let path = format!("front.apps[{index}].maintenance_page");
            report.error_at(&path, format!("{path}: {why}"));
        }
        let Some(processes) = &app.processes else { continue };
        reject_unreachable_user(&processes.launch, &format!("front.apps[{index}]"), report);
        let shared = app.sockets.as_ref().and_then(|sockets| unbound(processes, sockets));
        // A name that is none was reported where it was read.
        let Ok(group) = processes.group(&app.settings.name, &settings.supervisor.restart, shared)
        else {
            continue;
        };
        for GroupSpecError { setting, text, .. } in of_group(&group, &run) {
            let path = format!("front.apps[{index}].{}", key(setting));
            report.error_at(&path, format!("{path}: {text}"));
        }
    }
}

/// What is served at front.listen must not be there while that is off.
fn reject_unreachable(settings: &Settings, report: &mut Report) {
    if settings.front.listen.is_some() {
        return;
    }
    let proxied = settings.front.apps.iter().position(|app| app.sockets.is_none());
    let of_realtime = !settings.realtime.apps.is_empty() && settings.realtime.listen.is_none();
    let served = [
        proxied.map(|index| format!("front.apps[{index}]")),
        of_realtime.then(|| "realtime.apps".to_owned()),
        settings.gems.mount().map(|_| "gems.mount".to_owned()),
    ];
    for setting in served.into_iter().flatten() {
        let message = format!("front.listen: \"off\", but {setting} is served there");
        report.error_at("front.listen", message);
    }
}

/// The group without its sockets. None: not even that much memory can be had.
fn unbound(processes: &Processes, sockets: &SharedSockets) -> Option<Arc<SocketGroup>> {
    let plan = sockets.plan(processes).reduced();
    let prepared = LoadedSelection::new(plan, sockets.listen.is_ipv6()).ok()?;
    prepared.join("", Vec::new()).ok().map(Arc::new)
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

/// Servers that can't listen on all inherited sockets, by the names of their programs, as tried.
const ONE_SOCKET: [&str; 2] = ["puma", "uvicorn"];
const NO_SOCKET: [&str; 2] = ["granian", "pitchfork"];

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    for (index, app) in settings.front.apps.iter().enumerate() {
        if let (Some(processes), Some(sockets)) = (&app.processes, &app.sockets) {
            let found = shared_warnings(app, processes, sockets);
            warnings.extend(found.into_iter().map(|text| format!("front.apps[{index}]{text}")));
        }
    }
}

fn shared_warnings(app: &App, processes: &Processes, sockets: &SharedSockets) -> Vec<String> {
    let mut warnings = Vec::new();
    let plan = sockets.plan(processes);
    let runs = |servers: &[&'static str]| {
        servers
            .iter()
            .copied()
            .find(|server| processes.launch.command.iter().any(|it| is(it, server)))
    };
    if let Some(server) = runs(&NO_SOCKET) {
        warnings.push(format!(
            ".command: {server} cannot listen on inherited sockets and would never become ready; use mode = \"proxy\" with {{socket}} or {{port}}"
        ));
    }
    if let Some(server) = runs(&ONE_SOCKET).filter(|_| plan.descriptors() > 1) {
        let count = plan.descriptors();
        warnings.push(format!(
            ".command: {server} listens on one inherited socket only, would get {count} and never be ready; leave out selection and queues_per_worker, so that all workers share one, or use mode = \"proxy\""
        ));
    }
    if processes.evict_after.is_some() {
        warnings.push(
            ".evict_after: with mode = \"sockets\" a request's age is known only from a worker that keeps its busy word (docs/front-sockets.md); requests of other workers are never evicted".to_owned(),
        );
    }
    if let Err(refused) = LoadedSelection::new(plan, sockets.listen.is_ipv6()) {
        let name = &app.settings.name;
        warnings.push(format!(
            ".selection: {refused}. Where Weir runs like this, the workers of {name} share one socket"
        ));
    }
    warnings
}

/// Whether an argument names a program: `/usr/bin/puma`, also behind `bundle exec` or `python -m`.
fn is(argument: &str, program: &str) -> bool {
    argument.rsplit('/').next() == Some(program)
}
