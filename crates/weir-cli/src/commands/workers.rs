//! `weir workers ..`: the workers of the front's apps, and job workers.

mod restart;
mod set;

use clap::{Args, Subcommand, ValueEnum};
use serde::de::IgnoredAny;

use self::restart::{PATH, RestartArguments};
use self::set::{ResetArguments, SetArguments};
use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output;
use crate::output::seconds;
use crate::target::Target;
use weir_admin::workers::{AppRow, JOBS, OperatorCommand, WorkerRow};

/// The verbs of `weir workers`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List the workers of all apps with their state
    List(ListArguments),
    /// Replace workers one after the other, without losing requests, and wait for the new ones
    Restart(RestartArguments),
    /// Change the number of workers until the setting is changed
    Scale(ScaleArguments),
    /// Change processes, threads and queues of job workers for a time
    Set(SetArguments),
    /// End what set and scale have changed of job workers
    Reset(ResetArguments),
    /// Send a worker the signal that makes it log what it is doing
    Dump(DumpArguments),
    /// Pause an app: its requests wait, within the limits of its queue
    Pause(AppArguments),
    /// Resume a paused app
    Resume(AppArguments),
    /// Show an app's maintenance page for all requests, or stop showing it
    Maintenance(MaintenanceArguments),
}

/// `weir workers list`.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `weir workers pause`, `weir workers resume`.
#[derive(Debug, Args)]
pub(crate) struct AppArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
}

/// `weir workers maintenance`.
#[derive(Debug, Args)]
pub(crate) struct MaintenanceArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// `on` shows the page, `off` stops it
    position: Position,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Position {
    On,
    Off,
}

/// `weir workers scale`.
#[derive(Debug, Args)]
pub(crate) struct ScaleArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// Number of workers
    processes: u32,
}

/// `weir workers dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// The worker's number
    worker: u32,
    /// Name of the signal [default: dump_signal of the settings]
    #[arg(long)]
    signal: Option<String>,
}

pub(crate) fn run(command: WorkersCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            WorkersCommand::List(arguments) => list(&arguments).await,
            WorkersCommand::Restart(arguments) => restart::run(arguments).await,
            WorkersCommand::Scale(ScaleArguments { target, app, processes }) => {
                let done = format!("{app}: number of workers set to {processes}");
                send_command(&target, &OperatorCommand::Scale { app, processes }, &done).await
            }
            WorkersCommand::Set(arguments) => set::set(arguments).await,
            WorkersCommand::Reset(arguments) => set::reset(arguments).await,
            WorkersCommand::Dump(DumpArguments { target, app, worker, signal }) => {
                let name = signal.as_deref().unwrap_or("its dump_signal");
                let done = format!("sent {name} to worker {worker} of {app}; see the log");
                send_command(&target, &OperatorCommand::Signal { app, worker, signal }, &done).await
            }
            WorkersCommand::Pause(AppArguments { target, app }) => {
                let done = format!("{app} is paused; its requests wait");
                send_command(&target, &OperatorCommand::Pause { app }, &done).await
            }
            WorkersCommand::Resume(AppArguments { target, app }) => {
                let done = format!("{app} serves requests again");
                send_command(&target, &OperatorCommand::Resume { app }, &done).await
            }
            WorkersCommand::Maintenance(MaintenanceArguments { target, app, position }) => {
                let is_on = position == Position::On;
                let done = match position {
                    Position::On => format!("{app} shows its maintenance page for all requests"),
                    Position::Off => format!("{app} serves requests again"),
                };
                send_command(&target, &OperatorCommand::Maintenance { app, is_on }, &done).await
            }
        }
    })
}

async fn send_command(
    target: &Target,
    order: &OperatorCommand,
    done: &str,
) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(target).await?;
    let _: IgnoredAny = client.post(PATH, order).await?;
    output::line(done);
    Ok(Exit::Fine)
}

async fn list(arguments: &ListArguments) -> anyhow::Result<Exit> {
    let mut client = AdminClient::connect(&arguments.target).await?;
    let apps: Vec<AppRow> = client.get(PATH).await?;
    if arguments.json {
        output::json(&apps)?;
    } else if apps.is_empty() {
        output::line(
            "no apps and no workers; add them under [[front.apps]] or [workers.NAME] in weir.toml",
        );
    } else {
        for app in &apps {
            output::line(&headline(app));
            if let Some(values) = &app.values {
                set::show_override(values);
            }
            if app.mode == JOBS {
                let rows: Vec<Vec<String>> = app.workers.iter().map(process_row).collect();
                output::table(&HEAD[..PROCESS_COLUMNS], &rows);
            } else {
                let rows: Vec<Vec<String>> = app.workers.iter().map(row).collect();
                output::table(&HEAD, &rows);
            }
            for worker in &app.workers {
                if let (Some(number), Some(why)) = (worker.worker, &worker.recycled) {
                    output::line(&format!("worker {number} is being replaced: {why}"));
                }
            }
            for problem in app.workers.iter().filter_map(|worker| worker.problem.as_ref()) {
                output::line(problem);
            }
        }
    }
    Ok(Exit::Fine)
}

const HEAD: [&str; 9] =
    ["WORKER", "STATE", "PID", "AGE", "MEMORY", "IN PROGRESS", "OLDEST", "ASSIGNED", "ADDRESS"];

/// The number of columns that every process has.
const PROCESS_COLUMNS: usize = 5;

fn headline(app: &AppRow) -> String {
    let mut words = match app.mode.as_str() {
        JOBS => vec![format!("{}: job workers", app.name)],
        _ => vec![format!("{}: {} waiting", app.name, app.requests_waiting)],
    };
    words.extend(app.listen.as_ref().map(|listen| format!("shared sockets at {listen}")));
    words.extend(app.selection.as_ref().map(|selection| format!("selection {selection}")));
    if app.is_paused {
        words.push("paused".to_owned());
    }
    if app.is_overloaded {
        words.push("overloaded".to_owned());
    }
    if app.is_in_maintenance {
        words.push("in maintenance".to_owned());
    }
    words.extend(app.shedding.iter().map(|queue| format!("shedding because of queue {queue}")));
    let unknown = app.shed_unknown.iter();
    words.extend(unknown.map(|queue| format!("not shedding: latency of queue {queue} unknown")));
    words.extend(app.rolling.as_ref().map(|rolling| format!("rolling restart {rolling}")));
    words.join(", ")
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn row(worker: &WorkerRow) -> Vec<String> {
    let running = match worker.streams {
        0 => worker.requests.to_string(),
        streams => format!("{} + {streams} streams", worker.requests),
    };
    let mut row = process_row(worker);
    row.extend([
        running,
        or_dash(worker.oldest_request_seconds.map(seconds)),
        worker.given.to_string(),
        or_dash(worker.address.clone()),
    ]);
    row
}

fn process_row(worker: &WorkerRow) -> Vec<String> {
    vec![
        or_dash(worker.worker.map(|number| number.to_string())),
        worker.state.clone(),
        or_dash(worker.pid.map(|pid| pid.to_string())),
        or_dash(worker.age_seconds.map(seconds)),
        or_dash(worker.pss_bytes.map(|bytes| format!("{} MiB", bytes >> 20))),
    ]
}
