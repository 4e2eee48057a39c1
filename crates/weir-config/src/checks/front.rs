//! Checks of apps: whether their workers can be started and can listen on their sockets.

use std::sync::Arc;

use weir_front::{QueueSource, WatchedQueue};
use weir_supervisor::selection::{LoadedSelection, SocketGroup};
use weir_supervisor::workers::{GroupSpecError, spec_errors as of_group};

use super::super::{App, Processes, Settings, SharedSockets};
use super::{reject_unreachable_user, routes};
use weir_settings::Report;

pub(super) fn check(settings: &Settings, report: &mut Report) {
    routes::check(settings, report);
    reject_unreachable(settings, report);
    reject_unknown_queues(settings, report);
    let run_folder = settings.run_folder();
    for (index, app) in settings.front.apps.iter().enumerate() {
        if let Err(error) = app.page() {
            let path = format!("front.apps[{index}].maintenance_page");
            report.error_at(&path, format!("{path}: {error}"));
        }
        let Some(processes) = &app.processes else { continue };
        reject_unreachable_user(&processes.launch, &format!("front.apps[{index}]"), report);
        let shared =
            app.sockets.as_ref().and_then(|sockets| group_without_sockets(processes, sockets));
        // An invalid name was reported when it was read.
        let Ok(group) = processes.group(&app.settings.name, &settings.supervisor.restart, shared)
        else {
            continue;
        };
        for GroupSpecError { setting, text, .. } in of_group(&group, &run_folder) {
            let path = format!("front.apps[{index}].{}", setting_of_spec(setting));
            report.error_at(&path, format!("{path}: {text}"));
        }
    }
}

/// Rejects settings that need front.listen while it is off.
fn reject_unreachable(settings: &Settings, report: &mut Report) {
    if settings.front.listen.is_some() {
        return;
    }
    let proxied = settings.front.apps.iter().position(|app| app.sockets.is_none());
    let needs_front_for_realtime =
        !settings.realtime.apps.is_empty() && settings.realtime.listen.is_none();
    let served = [
        proxied.map(|index| format!("front.apps[{index}]")),
        needs_front_for_realtime.then(|| "realtime.apps".to_owned()),
        settings.gems.mount().map(|_| "gems.mount".to_owned()),
    ];
    for setting in served.into_iter().flatten() {
        let message = format!("front.listen: \"off\", but {setting} is served there");
        report.error_at("front.listen", message);
    }
}

/// Rejects shed rules whose queue cannot exist.
fn reject_unknown_queues(settings: &Settings, report: &mut Report) {
    const OBSERVE: &str = "[[observe.redis]] with the url of Sidekiq's Redis";
    let has_jobs = settings.jobs.listen.is_some();
    let has_sidekiq = settings.observe.has_redis();
    for (index, app) in settings.front.apps.iter().enumerate() {
        for (place, rule) in app.settings.shed.iter().enumerate() {
            let table = format!("front.apps[{index}].shed[{place}]");
            let WatchedQueue { source, name } = &rule.queue;
            let (path, message) = match source {
                QueueSource::Sidekiq if !has_sidekiq => {
                    (format!("{table}.source"), format!("\"sidekiq\" needs {OBSERVE}"))
                }
                QueueSource::Weir if !has_jobs => {
                    (format!("{table}.source"), "\"weir\", but jobs.listen is \"off\"".to_owned())
                }
                QueueSource::Auto if !has_jobs && !has_sidekiq => {
                    let problem = format!("nothing has a queue {name:?}: jobs.listen is \"off\"");
                    let remedy = format!("and no Sidekiq is observed; add {OBSERVE}");
                    (format!("{table}.queue"), format!("{problem} {remedy}"))
                }
                _ => continue,
            };
            report.error_at(&path, format!("{path}: {message}"));
        }
    }
}

/// Returns the socket group without its sockets. None: its memory cannot be allocated.
fn group_without_sockets(
    processes: &Processes,
    sockets: &SharedSockets,
) -> Option<Arc<SocketGroup>> {
    let plan = sockets.plan(processes).reduced();
    let prepared = LoadedSelection::new(plan, sockets.listen.is_ipv6()).ok()?;
    prepared.join("", Vec::new()).ok().map(Arc::new)
}

/// Returns the key of the settings file for a field of the group's specification.
fn setting_of_spec(setting: &str) -> &str {
    match setting {
        "processes" => "workers",
        "run_folder" => "name",
        "sockets" | "variables" | "environment" | "readiness" => "command",
        same => same,
    }
}

/// Servers that cannot listen on all inherited sockets, by program name (tested).
const ONE_SOCKET: [&str; 2] = ["puma", "uvicorn"];
const NO_SOCKET: [&str; 2] = ["granian", "pitchfork"];

pub(super) fn warn(settings: &Settings, warnings: &mut Vec<String>) {
    for (index, app) in settings.front.apps.iter().enumerate() {
        if let (Some(processes), Some(sockets)) = (&app.processes, &app.sockets) {
            let warnings_of_app = socket_warnings(app, processes, sockets);
            warnings.extend(
                warnings_of_app.into_iter().map(|text| format!("front.apps[{index}]{text}")),
            );
        }
    }
}

fn socket_warnings(app: &App, processes: &Processes, sockets: &SharedSockets) -> Vec<String> {
    let mut warnings = Vec::new();
    let plan = sockets.plan(processes);
    let find_server = |servers: &[&'static str]| {
        servers
            .iter()
            .copied()
            .find(|server| processes.launch.command.iter().any(|it| names_program(it, server)))
    };
    if let Some(server) = find_server(&NO_SOCKET) {
        warnings.push(format!(
            ".command: {server} cannot listen on inherited sockets and would never become ready; use mode = \"proxy\" with {{socket}} or {{port}}"
        ));
    }
    if let Some(server) = find_server(&ONE_SOCKET).filter(|_| plan.descriptors() > 1) {
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
    if let Err(error) = LoadedSelection::new(plan, sockets.listen.is_ipv6()) {
        let name = &app.settings.name;
        warnings.push(format!(
            ".selection: {error}. Where Weir runs like this, the workers of {name} share one socket"
        ));
    }
    warnings
}

/// Returns whether an argument names a program, such as `/usr/bin/puma`, also after `bundle exec` or `python -m`.
fn names_program(argument: &str, program: &str) -> bool {
    argument.rsplit('/').next() == Some(program)
}
