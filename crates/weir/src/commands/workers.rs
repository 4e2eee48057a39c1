//! `weir workers ..`: the front's apps and who serves them, and who works off jobs.

mod restart;

use clap::{Args, Subcommand, ValueEnum};
use serde::de::IgnoredAny;

use super::status::seconds;
use crate::admin_client::{self, AdminClient};
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use crate::workers_admin::{AppRow, JOBS, Order, WorkerRow};

/// The verbs of `weir workers`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List the workers of all apps, and what they do
    List(ListArguments),
    /// Replace workers one after the other, without losing a request, and wait until they serve
    Restart(RestartArguments),
    /// Run more or fewer workers, until Weir is started again
    Scale(ScaleArguments),
    /// Send a worker a signal, so that it says what it is doing
    Dump(DumpArguments),
    /// Let all requests of an app wait, within the limits of its queue
    Pause(AppArguments),
    /// Serve those who waited through a pause
    Resume(AppArguments),
    /// Show everybody an app's maintenance page, or no more
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
    /// Whether it is shown
    position: Position,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Position {
    On,
    Off,
}

/// `weir workers restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// Only this one, by its number
    #[arg(long, value_name = "NUMBER")]
    worker: Option<u32>,
    /// Return at once, whatever comes of it
    #[arg(long)]
    no_wait: bool,
}

/// `weir workers scale`.
#[derive(Debug, Args)]
pub(crate) struct ScaleArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// How many are to run
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
    /// The signal at which it says what it is doing; without it, dump_signal of the settings
    #[arg(long)]
    signal: Option<String>,
}

const PATH: &str = "/v1/workers";

pub(crate) fn run(command: WorkersCommand) -> anyhow::Result<Exit> {
    admin_client::block_on(async {
        match command {
            WorkersCommand::List(arguments) => list(&arguments).await,
            WorkersCommand::Restart(arguments) => restart::run(arguments).await,
            WorkersCommand::Scale(ScaleArguments { target, app, processes }) => {
                let done = format!("{app} is to have {processes} workers");
                order(&target, &Order::Scale { app, processes }, &done).await
            }
            WorkersCommand::Dump(DumpArguments { target, app, worker, signal }) => {
                let name = signal.as_deref().unwrap_or("its dump_signal");
                let done = format!("worker {worker} of {app} was sent {name}; see the log");
                order(&target, &Order::Signal { app, worker, signal }, &done).await
            }
            WorkersCommand::Pause(AppArguments { target, app }) => {
                let done = format!("requests of {app} wait");
                order(&target, &Order::Pause { app }, &done).await
            }
            WorkersCommand::Resume(AppArguments { target, app }) => {
                let done = format!("requests of {app} are served");
                order(&target, &Order::Resume { app }, &done).await
            }
            WorkersCommand::Maintenance(MaintenanceArguments { target, app, position }) => {
                let is_on = position == Position::On;
                let done = match position {
                    Position::On => format!("whoever asks {app} is shown the maintenance page"),
                    Position::Off => format!("requests of {app} are served"),
                };
                order(&target, &Order::Maintenance { app, is_on }, &done).await
            }
        }
    })
}

async fn order(target: &Target, order: &Order, done: &str) -> anyhow::Result<Exit> {
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
        output::line("no apps and no workers: [[front.apps]] and [workers] name them");
    } else {
        for app in &apps {
            output::line(&headline(app));
            if app.mode == JOBS {
                let rows: Vec<Vec<String>> = app.workers.iter().map(process_row).collect();
                output::table(&HEAD[..PROCESS_COLUMNS], &rows);
            } else {
                let rows: Vec<Vec<String>> = app.workers.iter().map(row).collect();
                output::table(&HEAD, &rows);
            }
            for worker in &app.workers {
                if let (Some(number), Some(why)) = (worker.worker, &worker.recycled) {
                    output::line(&format!("worker {number} is replaced by a fresh one: {why}"));
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
    ["WORKER", "STATE", "PID", "AGE", "MEMORY", "RUNNING", "OLDEST", "GIVEN", "ADDRESS"];

/// Those of a process, whatever it does.
const PROCESS_COLUMNS: usize = 5;

fn headline(app: &AppRow) -> String {
    let mut words = match app.mode.as_str() {
        JOBS => vec![format!("{}: workers of jobs", app.name)],
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
    words.extend(app.shedding.iter().map(|queue| format!("refusing for queue {queue}")));
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
