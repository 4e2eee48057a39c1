//! The admin API of the front's apps and their workers, and of the workers of jobs, for the command
//! line, scripts and tests.
//! Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET workers` | a list of [`AppRow`] |
//! | `POST workers`: an [`OperatorCommand`] | `{}` once the parent follows it, or why it does not; for `set` and `reset` an [`OverrideOutcome`] |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

mod commands;
mod job_rows;
mod reported;
mod rows;
mod shared;
mod worker_counters;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;
use weir_autopilot::AutopilotHandle;
use weir_base::admin_api::{AdminError, JsonInput};
use weir_base::clock::Clock;
use weir_front::view::{AppView, TotalsView};
use weir_front::{Apps, NoSuchApp};
use weir_supervisor::control::ParentCommand;
pub use weir_supervisor::workers::{
    GroupValues, JobGroupState, Override, OverrideOutcome, OverrideRequest,
};

pub use self::commands::{CommandResult, OperatorCommand, ParentCommands, PendingCommand};
pub use self::reported::Reported;
pub use self::rows::{AppRow, JOBS, SOCKETS, WorkerRow};
pub use self::shared::{SharedApp, SharedApps};
use crate::api_routes::{ApiRoutes, get};
#[cfg(feature = "openapi")]
use crate::openapi::handler::Operation;
use crate::paused_apps::PausedApps;
use crate::response::{AdminResult, Done};

/// Limit of the time until the parent accepts or rejects a command.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the routes.
#[derive(Clone, Debug)]
pub struct Front {
    pub clock: Clock,
    pub apps: Arc<Apps>,
    /// Apps whose workers accept connections themselves.
    pub sockets: Arc<dyn SharedApps>,
    pub groups: Arc<Groups>,
    pub paused_apps: PausedApps,
    /// What the parent has reported.
    pub reported: Arc<Mutex<Reported>>,
    pub parent_commands: ParentCommands,
    /// Its journal has the changes of workers of jobs. None: it does not run here.
    pub autopilot: Option<AutopilotHandle>,
}

/// Settings of the groups that the parent runs.
#[derive(Debug, Default)]
pub struct Groups {
    /// The names of groups of job workers.
    pub job_groups: BTreeSet<String>,
    /// Groups with a dump signal, at which workers log what they are doing.
    pub with_dump: BTreeSet<String>,
    /// The names of apps with a command. The parent may still report the group of an app that has
    /// `upstreams` now, or whose workers are still ending.
    pub apps: BTreeSet<String>,
}

impl Groups {
    fn check_dump(&self, group: &str) -> Result<(), AdminError> {
        if self.with_dump.contains(group) {
            return Ok(());
        }
        let error = format!("{group} has no dump_signal");
        let hint = "set dump_signal, or name a signal; most servers terminate on an unknown one";
        Err(AdminError::new(StatusCode::CONFLICT, error, hint))
    }
}

fn routes() -> ApiRoutes<Front> {
    ApiRoutes::new().route("/workers", get(list).post(execute))
}

/// Returns the descriptions of the routes.
#[cfg(feature = "openapi")]
pub(crate) fn operations() -> Vec<Operation> {
    routes().into_operations()
}

/// Returns the routes.
pub fn router(front: Front) -> Router {
    routes().into_router().with_state(front)
}

async fn list(State(front): State<Front>) -> Json<Vec<AppRow>> {
    Json(front.rows().into_iter().map(|(row, _)| row).collect())
}

async fn execute(
    State(front): State<Front>,
    JsonInput(request): JsonInput<OperatorCommand>,
) -> AdminResult<CommandOutcome> {
    let outcome = front.execute(request).await?.map(Box::new);
    Ok(Json(outcome.map_or_else(|| CommandOutcome::Done(Done::new()), CommandOutcome::Override)))
}

/// The response to an order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum CommandOutcome {
    Done(Done),
    Override(Box<OverrideOutcome>),
}

impl Front {
    /// Returns all apps and groups of job workers, each with its counters.
    pub fn rows(&self) -> Vec<(AppRow, TotalsView)> {
        let (views, now) = (self.apps.view(), self.clock.now());
        let reported = self.reported();
        let row = |mut view: AppView| {
            let totals = std::mem::take(&mut view.totals);
            let is_run_by_weir = self.groups.apps.contains(&view.name);
            (rows::app_row(view, is_run_by_weir, &reported, now), totals)
        };
        let shared = self.sockets.all().into_iter();
        let shared = shared.map(|(name, app)| shared::row(name, app, &reported, now));
        // These have no counters: Weir does not see their requests.
        let shared = shared.map(|row| (row, TotalsView::default()));
        let job_groups = self.groups.job_groups.iter();
        let job_groups = job_groups.filter_map(|name| job_rows::row(name, &reported, now));
        let job_groups = job_groups.map(|row| (row, TotalsView::default()));
        views.into_iter().map(row).chain(shared).chain(job_groups).collect()
    }

    /// Returns the number of replaced service processes that still have connections.
    pub fn old_processes(&self) -> u32 {
        self.reported().old_processes
    }

    /// Returns whether the group has a dump signal.
    pub fn can_dump(&self, group: &str) -> bool {
        self.groups.with_dump.contains(group)
    }

    /// Carries out an order. The outcome is that of a change of values.
    pub async fn execute(
        &self,
        request: OperatorCommand,
    ) -> Result<Option<OverrideOutcome>, AdminError> {
        let is_proxied = self.apps.view().iter().any(|app| app.name == request.app());
        let is_of_jobs = self.groups.job_groups.contains(request.app());
        let is_shared = self.sockets.all().iter().any(|(name, _)| *name == request.app());
        if !is_proxied && !is_of_jobs && !is_shared {
            return Err(no_such_app(NoSuchApp(request.app().to_owned())));
        }
        tracing::info!(order = ?request, "received an order for workers");
        let change = request.change_of_values();
        let command = match request {
            OperatorCommand::Pause { .. }
            | OperatorCommand::Resume { .. }
            | OperatorCommand::Maintenance { .. }
                if !is_proxied =>
            {
                return Err(if is_of_jobs {
                    jobs_have_no_requests()
                } else {
                    requests_are_not_proxied()
                });
            }
            OperatorCommand::Pause { app } => {
                self.apps.pause(&app).map_err(no_such_app)?;
                return self.save_paused_apps().await;
            }
            OperatorCommand::Resume { app } => {
                self.apps.resume(&app).map_err(no_such_app)?;
                return self.save_paused_apps().await;
            }
            OperatorCommand::Maintenance { app, is_on } => {
                self.apps.set_maintenance(&app, is_on).map_err(no_such_app)?;
                return self.save_paused_apps().await;
            }
            OperatorCommand::Restart { app: group, worker: None } => {
                ParentCommand::RestartRolling { group }
            }
            OperatorCommand::Restart { app: group, worker: Some(slot) } => {
                ParentCommand::Restart { group, slot }
            }
            OperatorCommand::Scale { app: group, processes } => {
                ParentCommand::Scale { group, processes }
            }
            OperatorCommand::Set { app: group, change } => ParentCommand::Set { group, change },
            OperatorCommand::Reset { app: group, by, dry_run } => {
                ParentCommand::Reset { group, by, dry_run }
            }
            OperatorCommand::Signal { app, worker, signal } => {
                let generation = self.generation(&app, worker)?;
                if let Some(signal) = signal {
                    ParentCommand::Signal { generation, signal }
                } else {
                    self.groups.check_dump(&app)?;
                    ParentCommand::Dump { generation }
                }
            }
        };
        let outcome = self.send_command(command).await?;
        if let (Some(autopilot), Some((by, text))) = (&self.autopilot, change) {
            autopilot.note(by, text);
        }
        Ok(outcome)
    }

    async fn save_paused_apps(&self) -> Result<Option<OverrideOutcome>, AdminError> {
        let paused_apps = self.paused_apps.clone();
        let saved = tokio::task::spawn_blocking(move || paused_apps.save()).await;
        let saved = saved.map_err(std::io::Error::other).flatten();
        saved.map(|()| None).map_err(|error| {
            let path = self.paused_apps.path().display();
            let error = format!(
                "the change is in effect, but will be lost at a restart, because {path} cannot be written ({error})"
            );
            let hint = "make the file writable and repeat the command";
            AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, error, hint)
        })
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest process in a worker's slot.
    fn generation(&self, app: &str, worker: u32) -> Result<u64, AdminError> {
        let reported = self.reported();
        let states = reported.workers.values().map(|process| &process.state);
        let mut processes = states.filter(|it| it.group == app && it.slot == worker);
        processes.next_back().map(|it| it.generation).ok_or_else(|| {
            let error = format!("{app} has no worker {worker} now");
            AdminError::new(
                StatusCode::NOT_FOUND,
                error,
                "list the workers with `weir workers list`",
            )
        })
    }

    async fn send_command(
        &self,
        command: ParentCommand,
    ) -> Result<Option<OverrideOutcome>, AdminError> {
        if self.reported().groups.is_empty() {
            let hint = "only workers with a command ([[front.apps]], [workers]) are Weir's own";
            return Err(AdminError::new(StatusCode::CONFLICT, "Weir runs no workers", hint));
        }
        self.parent_commands.send(command, REPLY_TIMEOUT).await
    }
}

fn jobs_have_no_requests() -> AdminError {
    let error = "its workers run jobs and have no requests";
    AdminError::new(StatusCode::CONFLICT, error, "pause a queue with `weir jobs pause QUEUE`")
}

fn requests_are_not_proxied() -> AdminError {
    let error = "its workers accept connections themselves, so Weir cannot delay their requests";
    AdminError::new(StatusCode::CONFLICT, error, "use mode = \"proxy\" for that")
}

fn no_such_app(error: NoSuchApp) -> AdminError {
    AdminError::new(StatusCode::NOT_FOUND, error.to_string(), "weir workers list shows all")
}
