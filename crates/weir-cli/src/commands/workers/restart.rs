//! `weir workers restart`: has workers replaced, and waits until they are.

use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use serde::de::IgnoredAny;
use weir_base::clock::Clock;

use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::output;
use crate::target::Target;
use weir_admin::workers::{AppRow, OperatorCommand, WorkerRow};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// While the service process itself is replaced there may be no answer.
const NO_ANSWER_MAX: Duration = Duration::from_secs(60);

/// The progress of a restart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// This many workers are replaced.
    Running(u32),
    Finished,
    /// Why the latest worker did not start; the others are those of before.
    Failed(String),
}

pub(super) const PATH: &str = "/v1/workers";

/// `weir workers restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    #[command(flatten)]
    target: Target,
    /// The app's name
    app: String,
    /// Replace only the worker with this number
    #[arg(long, value_name = "NUMBER")]
    worker: Option<u32>,
    /// Return at once, without waiting for the new workers
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(arguments: RestartArguments) -> anyhow::Result<Exit> {
    let RestartArguments { target, app, worker, no_wait } = arguments;
    let mut client = AdminClient::connect(&target).await?;
    let before = find(client.get(PATH).await?, &app);
    let before = before.as_ref().and_then(|row| serving(row, worker?)).and_then(|it| it.pid);
    let order = OperatorCommand::Restart { app: app.clone(), worker };
    let _: IgnoredAny = client.post(PATH, &order).await?;
    let what = match worker {
        Some(worker) => format!("worker {worker} of {app}"),
        None => format!("the workers of {app}"),
    };
    if no_wait {
        let verb = if worker.is_some() { "is being replaced" } else { "are being replaced" };
        output::line(&format!("{what} {verb}, one after the other"));
        return Ok(Exit::Fine);
    }
    wait(&target, &app, &what, |row| match worker {
        Some(worker) => progress_of_one(row, worker, before),
        None => progress_of_all(row),
    })
    .await
}

pub(super) async fn wait(
    target: &Target,
    app: &str,
    what: &str,
    progress: impl Fn(&AppRow) -> Progress,
) -> anyhow::Result<Exit> {
    let mut shown = 0;
    loop {
        let row = poll(target, app).await?;
        match progress(&row) {
            Progress::Finished => {
                output::line(&format!("{what}: replaced"));
                return Ok(Exit::Fine);
            }
            Progress::Failed(reason) => {
                let error =
                    anyhow!("{what}: not replaced, the previous one keeps running: {reason}");
                output::error(&error);
                return Ok(Exit::FoundProblem);
            }
            Progress::Running(done) => {
                if done > shown {
                    shown = done;
                    let all = row.processes.unwrap_or(done);
                    output::line(&format!("{what}: {done} of {all} replaced"));
                }
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn poll(target: &Target, app: &str) -> anyhow::Result<AppRow> {
    let clock = Clock::system();
    let began = clock.now();
    loop {
        let asked = async { AdminClient::connect(target).await?.get(PATH).await };
        match asked.await {
            Ok(rows) => {
                return find(rows, app).with_context(|| format!("the app {app} no longer exists"));
            }
            Err(error) if clock.now().since(began) > NO_ANSWER_MAX => return Err(error),
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

fn find(rows: Vec<AppRow>, app: &str) -> Option<AppRow> {
    rows.into_iter().find(|row| row.name == app)
}

pub(super) fn progress_of_all(row: &AppRow) -> Progress {
    let rolling = row.rolling.as_deref().unwrap_or_default();
    if let Some(reason) = rolling.strip_prefix("failed: ") {
        return Progress::Failed(reason.to_owned());
    }
    if let Some(done) = rolling.strip_prefix("running (") {
        let done = done.split(' ').next().and_then(|done| done.parse().ok());
        return Progress::Running(done.unwrap_or_default());
    }
    Progress::Finished
}

/// Returns the progress of one worker; `before` is its process at the request.
fn progress_of_one(row: &AppRow, worker: u32, before: Option<i32>) -> Progress {
    let mut rows = row.workers.iter().filter(|row| row.worker == Some(worker));
    if let Some(reason) = rows.find_map(|row| row.replacement_failed.clone()) {
        return Progress::Failed(reason);
    }
    match serving(row, worker) {
        Some(now) if now.pid != before => Progress::Finished,
        _ => Progress::Running(0),
    }
}

/// Returns the newest serving worker with this number.
fn serving(row: &AppRow, worker: u32) -> Option<&WorkerRow> {
    let works = |row: &&WorkerRow| {
        row.worker == Some(worker) && matches!(row.state.as_str(), "serving" | "running")
    };
    row.workers.iter().rfind(works)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app_row(rolling: &str) -> AppRow {
        AppRow { rolling: Some(rolling.to_owned()), ..AppRow::default() }
    }

    fn worker_row(pid: i32, state: &str) -> WorkerRow {
        let (worker, state) = (Some(1), state.to_owned());
        WorkerRow { worker, pid: Some(pid), state, ..WorkerRow::default() }
    }

    #[test]
    fn rolling_restart_runs_until_finished_or_failed() {
        assert_eq!(progress_of_all(&app_row("running (2 done)")), Progress::Running(2));
        assert_eq!(progress_of_all(&app_row("finished")), Progress::Finished);
        let failed = Progress::Failed("slot 0: it died".to_owned());
        assert_eq!(progress_of_all(&app_row("failed: slot 0: it died")), failed);
    }

    #[test]
    fn worker_is_replaced_once_a_new_process_serves() {
        let with = |workers| AppRow { workers, ..AppRow::default() };
        let both = with(vec![worker_row(10, "serving"), worker_row(11, "starting")]);
        assert_eq!(progress_of_one(&both, 1, Some(10)), Progress::Running(0));
        let done = with(vec![worker_row(10, "draining"), worker_row(11, "serving")]);
        assert_eq!(progress_of_one(&done, 1, Some(10)), Progress::Finished);
        let mut failed = worker_row(10, "serving");
        failed.replacement_failed = Some("it died".to_owned());
        let failed = progress_of_one(&with(vec![failed]), 1, Some(10));
        assert_eq!(failed, Progress::Failed("it died".to_owned()));
    }
}
