//! Rules about the front's apps.

use super::{Finding, Level};
use crate::figures::counted;
use crate::front::{App, Reading};

fn finding(level: Level, what: String, todo: impl Into<String>) -> Finding {
    Finding { level, what, todo: todo.into(), link: "/front".to_owned(), jobs: 0 }
}

fn waiting(app: &App) -> String {
    let verb = if app.requests_waiting == 1 { "waits" } else { "wait" };
    let what = if app.shared_sockets.is_some() { "connection" } else { "request" };
    format!("{} {verb}", counted(app.requests_waiting as u64, what))
}

/// Whoever asks for the app waits, and is told no.
pub(super) fn nobody_serves(front: &Reading) -> Vec<Finding> {
    let found = front.apps.iter().filter(|app| is_left(app)).map(|app| {
        let what = match app.runs_jobs {
            true => format!("No worker of {} runs", app.name),
            false => format!("No worker serves {}: {}", app.name, waiting(app)),
        };
        let todo = match app.processes {
            Some(_) => "Weir goes on starting them; their last lines of output say what is wrong.",
            None => "Weir goes on trying; start them, or correct upstreams in weir.toml.",
        };
        finding(Level::Critical, what, todo)
    });
    found.collect()
}

/// Nobody serves it, nor is about to.
fn is_left(app: &App) -> bool {
    let is_hope = |state: &str| matches!(state, "serving" | "running" | "starting");
    !app.workers.is_empty() && !app.workers.iter().any(|worker| is_hope(&worker.state))
}

/// A crash loop.
pub(super) fn workers_do_not_start(front: &Reading) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let failed = app.workers.iter().filter(|worker| worker.state == "failed").count() as u64;
        let what = format!("{} of {} can't be started", counted(failed, "worker"), app.name);
        let todo = "They end as soon as they are started. Their last lines of output say why.";
        (failed > 0).then(|| finding(Level::Critical, what, todo))
    });
    found.collect()
}

/// More comes than can be served.
pub(super) fn app_is_overloaded(front: &Reading) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let refused = front.minute(app).refused;
        let no_overload = !app.is_overloaded || app.is_paused;
        if no_overload && refused == 0 {
            return None;
        }
        let refusals = counted(refused, "request");
        let name = &app.name;
        let what =
            format!("{name} is overloaded: {}, {refusals} refused in a minute", waiting(app));
        let todo = "Run more workers if the machine has room (workers, concurrency), or find out \
                    what has become slow: the oldest requests are shown.";
        let level = if refused > 0 { Level::Critical } else { Level::Warning };
        Some(finding(level, what, todo))
    });
    found.collect()
}

/// Workers get stuck.
pub(super) fn workers_are_evicted(front: &Reading) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let evicted = front.minute(app).evictions;
        let workers = counted(evicted, "worker");
        let what = format!("{workers} of {} evicted in the last minute: stuck", app.name);
        let todo = "Each was replaced; a request of it was lost. The log has what they said they \
                    were doing (dump_signal).";
        (evicted > 0).then(|| finding(Level::Warning, what, todo))
    });
    found.collect()
}

/// Nobody is served, by intention.
pub(super) fn app_is_in_maintenance(front: &Reading) -> Vec<Finding> {
    let shown = front.apps.iter().filter(|app| app.is_in_maintenance);
    let found = shown.map(|app| {
        let what = format!("{} is in maintenance: nobody is served", app.name);
        finding(Level::Warning, what, "End it here when the work is done.")
    });
    found.collect()
}

/// Some requests are refused while jobs are behind.
pub(super) fn app_sheds(front: &Reading) -> Vec<Finding> {
    let shedding = front.apps.iter().filter(|app| !app.shedding.is_empty());
    let found = shedding.map(|app| {
        let queues = app.shedding.join(", ");
        let what = format!("{} refuses some requests: queue {queues} is behind", app.name);
        let todo = "It ends by itself once the queue is served again ([[front.apps.shed]]). More \
                    workers for the queue end it sooner.";
        finding(Level::Warning, what, todo)
    });
    found.collect()
}

/// Somebody lets requests wait.
pub(super) fn app_is_paused(front: &Reading) -> Vec<Finding> {
    let paused = front.apps.iter().filter(|app| app.is_paused);
    let found = paused.map(|app| {
        let what = format!("{} is paused: {}", app.name, waiting(app));
        let todo = "Resume it when the deploy is over; who waits too long is told 503.";
        finding(Level::Warning, what, todo)
    });
    found.collect()
}
