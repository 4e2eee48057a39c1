//! Rules about the front's apps.

use super::finding::{Finding, Level};
use crate::figures::counted;
use crate::front::{FrontApp, FrontSnapshot};

fn finding(
    rule: &'static str,
    level: Level,
    problem: String,
    remedy: impl Into<String>,
) -> Finding {
    Finding { rule, level, problem, remedy: remedy.into(), link: "/front".to_owned(), jobs: 0 }
}

fn waiting(app: &FrontApp) -> String {
    let verb = if app.requests_waiting == 1 { "waits" } else { "wait" };
    let noun = if app.shared_sockets.is_some() { "connection" } else { "request" };
    format!("{} {verb}", counted(app.requests_waiting as u64, noun))
}

/// Finds apps without a serving worker: requests wait and are then rejected.
pub(super) fn no_worker_serves(front: &FrontSnapshot) -> Vec<Finding> {
    let found = front.apps.iter().filter(|app| has_no_workers(app)).map(|app| {
        let problem = match app.runs_jobs {
            true => format!("No worker of {} runs", app.name),
            false => format!("No worker serves {}: {}", app.name, waiting(app)),
        };
        let remedy = match app.processes {
            Some(_) => "Weir keeps starting them. Their last lines of output say what is wrong.",
            None => "Weir keeps trying. Start them, or correct upstreams in weir.toml.",
        };
        finding("app-without-workers", Level::Critical, problem, remedy)
    });
    found.collect()
}

/// Returns whether no worker is serving or starting.
fn has_no_workers(app: &FrontApp) -> bool {
    let is_available = |state: &str| matches!(state, "serving" | "running" | "starting");
    !app.workers.is_empty() && !app.workers.iter().any(|worker| is_available(&worker.state))
}

/// Finds crash loops.
pub(super) fn workers_do_not_start(front: &FrontSnapshot) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let failed = app.workers.iter().filter(|worker| worker.state == "failed").count() as u64;
        let problem = format!("{} of {} can't be started", counted(failed, "worker"), app.name);
        let remedy = "They exit right after they are started. Their last lines of output say why.";
        (failed > 0).then(|| finding("workers-fail-to-start", Level::Critical, problem, remedy))
    });
    found.collect()
}

/// Finds apps that get more requests than they can serve.
pub(super) fn app_is_overloaded(front: &FrontSnapshot) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let rejected = front.minute(app).rejected;
        let no_overload = !app.is_overloaded || app.is_paused;
        if no_overload && rejected == 0 {
            return None;
        }
        let rejections = counted(rejected, "request");
        let name = &app.name;
        let problem =
            format!("{name} is overloaded: {}, {rejections} rejected in a minute", waiting(app));
        let remedy = "Run more workers if the machine has room (workers, concurrency), or find \
                    out what has become slow: the oldest requests are shown.";
        let level = if rejected > 0 { Level::Critical } else { Level::Warning };
        Some(finding("app-overloaded", level, problem, remedy))
    });
    found.collect()
}

/// Finds apps whose workers get stuck.
pub(super) fn workers_are_evicted(front: &FrontSnapshot) -> Vec<Finding> {
    let found = front.apps.iter().filter_map(|app| {
        let evicted = front.minute(app).evictions;
        let workers = counted(evicted, "worker");
        let problem =
            format!("{workers} of {} were stuck and evicted in the last minute", app.name);
        let remedy = "Each was replaced and lost its requests. The log has what they were doing \
                    (dump_signal).";
        (evicted > 0).then(|| finding("workers-evicted", Level::Warning, problem, remedy))
    });
    found.collect()
}

/// Finds apps whose maintenance page is on.
pub(super) fn app_is_in_maintenance(front: &FrontSnapshot) -> Vec<Finding> {
    let shown = front.apps.iter().filter(|app| app.is_in_maintenance);
    let found = shown.map(|app| {
        let problem = format!("{} is in maintenance: no requests are served", app.name);
        finding(
            "app-in-maintenance",
            Level::Warning,
            problem,
            "End maintenance when the work is done.",
        )
    });
    found.collect()
}

/// Finds apps that reject requests because job queues are behind.
pub(super) fn app_sheds(front: &FrontSnapshot) -> Vec<Finding> {
    let shedding = front.apps.iter().filter(|app| !app.shedding.is_empty());
    let found = shedding.map(|app| {
        let queues = app.shedding.join(", ");
        let problem = format!("{} sheds some requests: queue {queues} is behind", app.name);
        let remedy = "Shedding ends once the queue has drained ([[front.apps.shed]]). Add workers for \
                    the queue to end it sooner.";
        finding("app-sheds", Level::Warning, problem, remedy)
    });
    found.collect()
}

/// Finds paused apps.
pub(super) fn app_is_paused(front: &FrontSnapshot) -> Vec<Finding> {
    let paused = front.apps.iter().filter(|app| app.is_paused);
    let found = paused.map(|app| {
        let problem = format!("{} is paused: {}", app.name, waiting(app));
        let remedy = "Resume it when the deploy is over. Requests that wait too long get a 503.";
        finding("app-paused", Level::Warning, problem, remedy)
    });
    found.collect()
}
