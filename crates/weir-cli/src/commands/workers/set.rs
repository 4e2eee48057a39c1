//! `weir workers set` and `weir workers reset`: processes, threads and queues of job workers for a
//! time.

use std::time::Duration;

use clap::Args;
use weir_admin::workers::{
    AppRow, GroupValues, JobGroupState, OperatorCommand, Override, OverrideOutcome, OverrideRequest,
};
use weir_base::clock::{Clock, Timestamp};
use weir_config::units;

use super::restart::{self, PATH, Progress};
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::operator::operator;
use crate::output::{self, printable, seconds};
use crate::target::Target;

/// `weir workers set`.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    target: Target,
    /// Name of the group in [workers.NAME]
    group: String,
    /// Number of processes
    #[arg(long, value_name = "NUMBER")]
    processes: Option<u32>,
    /// Threads of each process, for {concurrency} in its command
    #[arg(long, value_name = "NUMBER")]
    threads: Option<u32>,
    /// Queues, for {queues} in its command; NAME=2 gives a queue the weight 2
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    queues: Option<Vec<String>>,
    /// Time until the settings apply again, for example 30m, 7d at most [default: 1h]
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    time: Option<Duration>,
    /// Why, for weir workers list and the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    shared: SharedArguments,
}

/// `weir workers reset`.
#[derive(Debug, Args)]
pub(crate) struct ResetArguments {
    #[command(flatten)]
    target: Target,
    /// Name of the group in [workers.NAME]
    group: String,
    #[command(flatten)]
    shared: SharedArguments,
}

#[derive(Debug, Args)]
struct SharedArguments {
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Return at once, without waiting for the new processes
    #[arg(long)]
    no_wait: bool,
    /// Print JSON, without waiting for the new processes
    #[arg(long)]
    json: bool,
}

pub(super) async fn set(arguments: SetArguments) -> anyhow::Result<Exit> {
    let SetArguments { target, group, processes, threads, queues, time, reason, shared } =
        arguments;
    // Rounded up: a fraction of a second must not become zero.
    let for_seconds = time.map(|time| u64::try_from(time.as_millis().div_ceil(1_000)));
    let for_seconds = for_seconds.transpose()?;
    let (by, dry_run) = (operator(), shared.dry_run);
    let reason = reason.unwrap_or_default();
    let change = OverrideRequest { processes, threads, queues, for_seconds, by, reason, dry_run };
    let order = OperatorCommand::Set { app: group.clone(), change };
    run(&target, &group, &order, &shared).await
}

pub(super) async fn reset(arguments: ResetArguments) -> anyhow::Result<Exit> {
    let ResetArguments { target, group, shared } = arguments;
    let (app, by, dry_run) = (group.clone(), operator(), shared.dry_run);
    run(&target, &group, &OperatorCommand::Reset { app, by, dry_run }, &shared).await
}

async fn run(
    target: &Target,
    group: &str,
    order: &OperatorCommand,
    shared: &SharedArguments,
) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(target).await?;
    let outcome: OverrideOutcome = client.post(PATH, order).await?;
    if shared.json {
        output::json(&outcome)?;
        return Ok(Exit::Fine);
    }
    show(group, &outcome);
    if shared.dry_run || shared.no_wait {
        return Ok(Exit::Fine);
    }
    let what = format!("the processes of {group}");
    restart::wait(target, group, &what, |row| progress(row, &outcome.after)).await
}

fn show(group: &str, outcome: &OverrideOutcome) {
    let OverrideOutcome { before, after, .. } = outcome;
    let changes = if outcome.is_dry_run { "would have" } else { "gets" };
    output::line(&format!("{group} {changes} {}; it had {}", values(after), values(before)));
    if outcome.replaced > 0 {
        let replaced = processes(outcome.replaced);
        output::line(&format!("{replaced} with other values: replaced one after the other"));
    }
    if let Some(max) = outcome.connections_max {
        let OverrideOutcome { connections, connections_of_all, .. } = outcome;
        output::line(&format!(
            "database connections: {connections} of {group}, {connections_of_all} of all groups, at \
             most {max}"
        ));
    }
    if let Some(until) = outcome.until {
        output::line(&format!("the settings apply again {}", end(until)));
    }
}

/// Returns the progress: processes must have started, ended or been replaced.
fn progress(row: &AppRow, after: &GroupValues) -> Progress {
    match restart::progress_of_all(row) {
        Progress::Finished => {}
        unfinished => return unfinished,
    }
    if let Some(problem) = row.workers.iter().find_map(|worker| worker.problem.clone()) {
        return Progress::Failed(problem);
    }
    let running = row.workers.iter().filter(|worker| worker.state == "running").count();
    match row.workers.len() == running && u32::try_from(running) == Ok(after.processes) {
        true => Progress::Finished,
        false => Progress::Running(0),
    }
}

fn values(values: &GroupValues) -> String {
    let mut words = vec![processes(values.processes)];
    words.extend(values.threads.map(|threads| output::count(threads.into(), "thread") + " each"));
    if !values.queues.is_empty() {
        words.push(format!("queues {}", queues(&values.queues)));
    }
    words.join(", ")
}

fn processes(count: u32) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

/// Returns queues as `weir workers set` takes them.
fn queues(queues: &[String]) -> String {
    let queues = queues.iter().map(|queue| printable(&queue.replacen(',', "=", 1)));
    queues.collect::<Vec<_>>().join(",")
}

fn end(until: u64) -> String {
    let left = Timestamp::from_millis(until.saturating_mul(1_000)).since(Clock::system().now());
    let at = i64::try_from(until).ok().and_then(|until| jiff::Timestamp::from_second(until).ok());
    let at = at.unwrap_or_default().to_zoned(jiff::tz::TimeZone::system());
    format!("in {} ({})", seconds(left.as_secs_f64()), at.strftime("%F %T"))
}

/// Shows the override of a group, if there is one.
pub(super) fn show_override(state: &JobGroupState) {
    let JobGroupState { configured, in_force, .. } = state;
    if let Some(limit) = &state.limit {
        let threads = limit.threads.unwrap_or_default();
        let (by, until) = (printable(&limit.by), end(limit.until));
        output::line(&format!(
            "limited to {threads} threads each by {by}: ends {until} unless renewed; {}",
            printable(&limit.reason)
        ));
    }
    let Some(set) = &state.set else {
        if configured.processes != in_force.processes {
            let (now, then) = (processes(in_force.processes), configured.processes);
            output::line(&format!("scaled to {now}; weir.toml has {then}"));
        }
        return;
    };
    let threads =
        |values: &GroupValues| values.threads.map_or_else(|| "-".to_owned(), |it| it.to_string());
    let row = |name: &str, configured: String, now: String| {
        let is_among = |names: &[String]| names.iter().any(|it| it == name);
        let note = if is_among(&state.ineffective) {
            "no effect: the command has no placeholder for it any more"
        } else if is_among(&state.changed_settings) {
            "weir.toml has changed since; that applies when the override ends"
        } else if set.keys().contains(&name) {
            "overridden"
        } else {
            ""
        };
        vec![name.to_owned(), configured, now, note.to_owned()]
    };
    let rows = [
        row("processes", configured.processes.to_string(), in_force.processes.to_string()),
        row("threads", threads(configured), threads(in_force)),
        row("queues", queues(&configured.queues), queues(&in_force.queues)),
    ];
    output::table(&["VALUE", "WEIR.TOML", "NOW", ""], &rows);
    output::line(&provenance(set));
}

fn provenance(set: &Override) -> String {
    let reason = match set.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", printable(reason)),
    };
    format!("set by {}, ends {}{reason}", printable(&set.by), end(set.until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_admin::workers::WorkerRow;

    #[test]
    fn a_change_is_done_once_all_processes_run_and_none_is_left() {
        let worker = |state: &str| WorkerRow { state: state.to_owned(), ..WorkerRow::default() };
        let with = |states: &[&str]| AppRow {
            workers: states.iter().map(|state| worker(state)).collect(),
            ..AppRow::default()
        };
        let after = GroupValues { processes: 2, ..GroupValues::default() };
        for (states, expected) in [
            (&["running"][..], Progress::Running(0)),
            (&["running", "starting"], Progress::Running(0)),
            (&["running", "running", "draining"], Progress::Running(0)),
            (&["running", "running"], Progress::Finished),
        ] {
            assert_eq!(progress(&with(states), &after), expected, "{states:?}");
        }
        let mut failed = with(&["running", "failed"]);
        failed.workers[1].problem = Some("it died".to_owned());
        assert_eq!(progress(&failed, &after), Progress::Failed("it died".to_owned()));
        failed.rolling = Some("running (1 done)".to_owned());
        assert_eq!(progress(&failed, &after), Progress::Running(1));
    }

    #[test]
    fn queues_are_shown_as_they_are_set() {
        assert_eq!(queues(&["default".to_owned(), "push,2".to_owned()]), "default,push=2");
    }
}
