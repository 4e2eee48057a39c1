//! Rules about the front's apps.

use std::time::Duration;

use weir_advisor::{Finding, Severity, VerdictFinding, shell};

use crate::figures::{counted, whole_duration};
use crate::front::{AppActivity, FrontApp, FrontSnapshot, reasons_text};

/// The rule, what it says of an app, and the remedy.
fn finding(
    app: &FrontApp,
    (rule, severity): (&'static str, Severity),
    problem: String,
    remedy: &str,
) -> VerdictFinding {
    let finding = Finding::new(rule, severity, format!("app {}", app.name), problem);
    VerdictFinding::new(finding, remedy, "/front")
}

fn waiting(app: &FrontApp) -> String {
    let verb = if app.requests_waiting == 1 { "waits" } else { "wait" };
    let noun = if app.shared_sockets.is_some() { "connection" } else { "request" };
    format!("{} {verb}", counted(app.requests_waiting as u64, noun))
}

/// Finds apps without a serving worker: requests wait and are then rejected.
pub(super) fn no_worker_serves(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let found = front.apps.iter().filter(|app| has_no_workers(app)).map(|app| {
        let problem = match app.runs_jobs {
            true => format!("No worker of {} runs", app.name),
            false => format!("No worker serves {}: {}", app.name, waiting(app)),
        };
        let remedy = match app.processes {
            Some(_) => "Weir keeps starting them. Their last lines of output say what is wrong.",
            None => "Weir keeps trying. Start them, or correct upstreams in weir.toml.",
        };
        let affected = app.requests_waiting as u64 + front.minute(app).rejected;
        finding(app, ("app-without-workers", Severity::Critical), problem, remedy)
            .affecting(affected)
    });
    found.collect()
}

/// Returns whether no worker is serving or starting.
fn has_no_workers(app: &FrontApp) -> bool {
    let is_available = |state: &str| matches!(state, "serving" | "running" | "starting");
    !app.workers.is_empty() && !app.workers.iter().any(|worker| is_available(&worker.state))
}

/// Finds crash loops.
pub(super) fn workers_do_not_start(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let found = front.apps.iter().filter_map(|app| {
        let failed = app.workers.iter().filter(|worker| worker.state == "failed").count() as u64;
        let problem = format!("{} of {} can't be started", counted(failed, "worker"), app.name);
        let remedy = "They exit right after they are started. Their last lines of output say why.";
        (failed > 0)
            .then(|| finding(app, ("workers-fail-to-start", Severity::Critical), problem, remedy))
    });
    found.collect()
}

/// The time without rejections after which an overload is over.
const OVERLOAD_OVER_AFTER: Duration = Duration::from_secs(10);

/// Finds apps that get more requests than they can serve, or did within the last minute.
pub(super) fn app_is_overloaded(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let found = front.apps.iter().filter_map(|app| {
        let minute = front.minute(app);
        let rejected = minute.rejected;
        let no_overload = !app.is_overloaded || app.is_paused;
        if no_overload && rejected == 0 {
            return None;
        }
        let found = match overload_ended(&minute).filter(|_| no_overload) {
            Some(ago) => past_overload(app, &minute, ago),
            None => present_overload(app, &minute),
        };
        Some(found.affecting(app.requests_waiting as u64 + rejected))
    });
    found.collect()
}

/// Returns how long ago requests were last rejected. None: that is going on.
fn overload_ended(minute: &AppActivity) -> Option<Duration> {
    minute.since_rejected.filter(|since| *since >= OVERLOAD_OVER_AFTER)
}

/// Formats the requests that were rejected within a minute, and why.
fn rejections(minute: &AppActivity) -> String {
    let rejected = counted(minute.rejected, "request");
    match minute.rejected {
        0 => format!("{rejected} rejected in a minute"),
        _ => format!("{rejected} rejected in a minute ({})", reasons_text(&minute.rejections)),
    }
}

fn present_overload(app: &FrontApp, minute: &AppActivity) -> VerdictFinding {
    let problem =
        format!("The app {} is overloaded: {}, {}", app.name, waiting(app), rejections(minute));
    let remedy = "Run more processes of the app if the machine has room (workers, concurrency), or find \
                out what has become slow: the console's page Front has the oldest requests.";
    let severity = if minute.rejected > 0 { Severity::Critical } else { Severity::Warning };
    finding(app, ("app-overloaded", severity), problem, remedy)
}

fn past_overload(app: &FrontApp, minute: &AppActivity, ago: Duration) -> VerdictFinding {
    let ago = whole_duration(ago.as_secs_f64());
    let problem =
        format!("The app {} was overloaded until {ago} ago: {}", app.name, rejections(minute));
    let remedy = "No action needed now. If it happens often, run more processes of the app (workers, concurrency).";
    finding(app, ("app-overloaded", Severity::Notice), problem, remedy)
}

/// Finds apps whose workers get stuck.
pub(super) fn workers_are_evicted(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let found = front.apps.iter().filter_map(|app| {
        let evicted = front.minute(app).evictions;
        let workers = counted(evicted, "worker");
        let verb = if evicted == 1 { "was" } else { "were" };
        let problem =
            format!("{workers} of {} {verb} stuck and evicted in the last minute", app.name);
        let remedy = "Each was replaced and lost its requests. The log has what they were doing \
                    (dump_signal).";
        (evicted > 0).then(|| finding(app, ("workers-evicted", Severity::Warning), problem, remedy))
    });
    found.collect()
}

/// Finds apps whose maintenance page is on.
pub(super) fn app_is_in_maintenance(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let shown = front.apps.iter().filter(|app| app.is_in_maintenance);
    let found = shown.map(|app| {
        let problem = format!("{} is in maintenance: no requests are served", app.name);
        let rule = ("app-in-maintenance", Severity::Warning);
        let found = finding(app, rule, problem, "End maintenance when the work is done.");
        found.map(|it| it.next(format!("weir workers maintenance {} off", shell::word(&app.name))))
    });
    found.collect()
}

/// Finds apps that reject requests because job queues are behind.
pub(super) fn app_sheds(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let shedding = front.apps.iter().filter(|app| !app.shedding.is_empty());
    let found = shedding.map(|app| {
        let (queues, shed) = (app.shedding.join(", "), front.minute(app).shed);
        let problem = match shed {
            0 => format!("{} sheds some requests: queue {queues} is behind", app.name),
            _ => {
                let shed = counted(shed, "request");
                format!("{} has shed {shed} in a minute: queue {queues} is behind", app.name)
            }
        };
        let remedy = "Shedding ends once the queue has drained ([[front.apps.shed]]). Add workers for \
                    the queue to end it sooner.";
        finding(app, ("app-sheds", Severity::Warning), problem, remedy).affecting(shed)
    });
    found.collect()
}

/// Finds apps that would not reject requests because it is not known whether job queues are behind.
pub(super) fn app_cannot_shed(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let unknown = front.apps.iter().filter(|app| !app.shed_unknown.is_empty());
    let found = unknown.map(|app| {
        let queues = app.shed_unknown.join(", ");
        let problem =
            format!("{} sheds no requests: the latency of queue {queues} is not known", app.name);
        let remedy = "Its requests pass until the queue can be read again. The log has the reason \
                    (front.apps.shed).";
        finding(app, ("app-cannot-shed", Severity::Warning), problem, remedy)
    });
    found.collect()
}

/// Finds paused apps.
pub(super) fn app_is_paused(front: &FrontSnapshot) -> Vec<VerdictFinding> {
    let paused = front.apps.iter().filter(|app| app.is_paused);
    let found = paused.map(|app| {
        let problem = format!("{} is paused: {}", app.name, waiting(app));
        let remedy = "Resume it when the deploy is over. Requests that wait too long get a 503.";
        let found = finding(app, ("app-paused", Severity::Warning), problem, remedy);
        let resume = format!("weir workers resume {}", shell::word(&app.name));
        found.affecting(app.requests_waiting as u64).map(|it| it.next(resume))
    });
    found.collect()
}
