//! The status of the autopilot for people.

use weir_autopilot::view::{AutopilotStatus, ClassView, DatabaseView, LimitView};

use crate::output::{self, printable, seconds};

pub(super) fn status(status: &AutopilotStatus) {
    let set_by = status.mode_set_by.as_ref().map(|by| {
        let ago = status.at - status.mode_set_at.unwrap_or(status.at);
        let by = printable(by);
        format!(
            " (set by {by} {} ago; weir.toml has {})",
            seconds(ago.max(0.0)),
            status.mode_in_settings
        )
    });
    output::line(&format!("mode:      {}{}", status.mode, set_by.unwrap_or_default()));
    if let Some(reason) = &status.cannot_act {
        output::line(&format!("on:        not possible: {reason}"));
    }
    if status.mode == weir_autopilot::Mode::Off {
        return;
    }
    if let Some(lease) = &status.lease {
        output::line(&format!("lease:     {}", printable(&lease.text)));
    }
    let data = match (&status.problem, status.data_age_seconds) {
        (None, Some(_)) => "fresh".to_owned(),
        (problem, age) => {
            let age =
                age.map_or_else(|| "none yet".to_owned(), |age| format!("{} old", seconds(age)));
            let problem = problem.as_deref().unwrap_or("waiting for the first samples");
            format!("{age}: {problem}")
        }
    };
    output::line(&format!("data:      {data}"));
    jobs(status);
    if let Some(database) = &status.database {
        self::database(database);
    }
    if status.left_out > 0 {
        output::line(&format!(
            "left out:  {} queues and job types (autopilot.limits)",
            status.left_out
        ));
    }
    if status.limits.is_empty() {
        output::line("limits:    none");
    } else {
        limits(status);
    }
    let rows: Vec<_> = status.classes.iter().map(class_row).collect();
    if !rows.is_empty() {
        output::table(&["JOB TYPE", "IN PROGRESS", "WAITING", "SESSIONS", "BLOCKS"], &rows);
    }
}

fn jobs(status: &AutopilotStatus) {
    let AutopilotStatus { workers, busy, waiting, .. } = status;
    let Some((threads, limits)) = status.threads() else {
        let text = format!("jobs:      {busy} in progress on {workers} workers, {waiting} waiting");
        return output::line(&text);
    };
    output::line(&format!("jobs:      Sidekiq's: {busy} in progress, {waiting} waiting"));
    output::line(&format!("threads:   {}", printable(&threads)));
    output::line(&format!("limits of: {}", printable(&limits)));
}

fn database(database: &DatabaseView) {
    let DatabaseView { sessions, lock_waits, connections, connections_max, .. } = database;
    output::line(&format!(
        "database:  {sessions:.1} busy sessions, {lock_waits:.1} wait for locks, {connections} of {connections_max} \
         connections, {:.1} times its normal time",
        database.slowdown
    ));
    output::line(&format!(
        "sessions:  assigned to job types by {}, confidence {:.2}",
        database.attribution.text(),
        database.confidence
    ));
}

/// Shows the limits in force.
pub(super) fn limits(status: &AutopilotStatus) {
    let row = |limit: &LimitView| {
        vec![
            printable(limit.what()),
            limit.jobs.to_string(),
            seconds((status.at - limit.since).max(0.0)),
            format!("in {}", seconds((limit.until - status.at).max(0.0))),
            limit.set_by.as_deref().map_or_else(|| "autopilot".to_owned(), printable),
        ]
    };
    let rows: Vec<_> = status.limits.iter().map(row).collect();
    output::table(&["LIMIT OF", "JOBS", "FOR", "ENDS UNLESS RENEWED", "BY"], &rows);
}

fn class_row(class: &ClassView) -> Vec<String> {
    vec![
        printable(&class.name),
        class.in_flight.to_string(),
        class.waiting.to_string(),
        format!("{:.1}", class.sessions),
        format!("{:.1}", class.blocks),
    ]
}
