//! The admin API of the front's apps and their workers, and of the workers of jobs, for the command
//! line, scripts and tests.
//! Mounted under `/v1`.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET workers` | a list of [`AppRow`] |
//! | `POST workers`: an [`Order`] | `{}` once the parent follows it, or why it does not |
//!
//! Errors are `{"error":"..","hint":".."}` with a fitting status.

mod counted;
mod of_jobs;
mod orders;
mod reported;
mod rows;
mod shared;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use weir_base::admin_api::{AdminError, JsonInput};
use weir_base::clock::Clock;
use weir_front::view::{AppView, TotalsView};
use weir_front::{Apps, NoSuchApp};
use weir_supervisor::control::ParentCommand;

pub use self::orders::{Asked, Order, Orders};
pub use self::reported::Reported;
pub use self::rows::{AppRow, JOBS, SOCKETS, WorkerRow};
pub use self::shared::{SharedApp, SharedApps};
use crate::holds::Holds;
use crate::response::{AdminResult, Done};

/// How long the parent may take to accept or reject an order.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the routes.
#[derive(Clone, Debug)]
pub struct Front {
    pub clock: Clock,
    pub apps: Arc<Apps>,
    /// Apps whose workers accept connections themselves.
    pub sockets: Arc<dyn SharedApps>,
    pub groups: Arc<Groups>,
    pub holds: Holds,
    /// What the parent has reported.
    pub reported: Arc<Mutex<Reported>>,
    pub orders: Orders,
}

/// Settings of the groups that the parent runs.
#[derive(Debug, Default)]
pub struct Groups {
    /// The names of groups of job workers.
    pub of_jobs: BTreeSet<String>,
    /// Groups with a dump signal, at which workers log what they are doing.
    pub with_dump: BTreeSet<String>,
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

/// Returns the routes.
pub fn router(front: Front) -> Router {
    Router::new().route("/workers", get(list).post(follow)).with_state(front)
}

async fn list(State(front): State<Front>) -> Json<Vec<AppRow>> {
    Json(front.rows().into_iter().map(|(row, _)| row).collect())
}

async fn follow(
    State(front): State<Front>,
    JsonInput(order): JsonInput<Order>,
) -> AdminResult<Done> {
    front.follow(order).await?;
    Ok(Json(Done::new()))
}

impl Front {
    /// Returns all apps and groups of job workers, each with its counters.
    pub fn rows(&self) -> Vec<(AppRow, TotalsView)> {
        let (views, now) = (self.apps.view(), self.clock.now());
        let reported = self.reported();
        let row = |mut view: AppView| {
            let totals = std::mem::take(&mut view.totals);
            (rows::app_row(view, &reported, now), totals)
        };
        let shared = self.sockets.all().into_iter();
        let shared = shared.map(|(name, app)| shared::row(name, app, &reported, now));
        // These have no counters: Weir does not see their requests.
        let shared = shared.map(|row| (row, TotalsView::default()));
        let of_jobs = self.groups.of_jobs.iter();
        let of_jobs = of_jobs.filter_map(|name| of_jobs::row(name, &reported, now));
        let of_jobs = of_jobs.map(|row| (row, TotalsView::default()));
        views.into_iter().map(row).chain(shared).chain(of_jobs).collect()
    }

    /// Returns the number of replaced service processes that still have connections.
    pub fn old_processes(&self) -> u32 {
        self.reported().old_processes
    }

    /// Returns whether the group has a dump signal.
    pub fn can_dump(&self, group: &str) -> bool {
        self.groups.with_dump.contains(group)
    }

    pub async fn follow(&self, order: Order) -> Result<(), AdminError> {
        let is_proxied = self.apps.view().iter().any(|app| app.name == order.app());
        let is_of_jobs = self.groups.of_jobs.contains(order.app());
        let is_shared = self.sockets.all().iter().any(|(name, _)| *name == order.app());
        if !is_proxied && !is_of_jobs && !is_shared {
            return Err(no_such_app(NoSuchApp(order.app().to_owned())));
        }
        tracing::info!(?order, "received an order for workers");
        let command = match order {
            Order::Pause { .. } | Order::Resume { .. } | Order::Maintenance { .. }
                if !is_proxied =>
            {
                return Err(if is_of_jobs { has_no_request() } else { sees_no_request() });
            }
            Order::Pause { app } => {
                self.apps.pause(&app).map_err(no_such_app)?;
                return self.save_holds().await;
            }
            Order::Resume { app } => {
                self.apps.resume(&app).map_err(no_such_app)?;
                return self.save_holds().await;
            }
            Order::Maintenance { app, is_on } => {
                self.apps.set_maintenance(&app, is_on).map_err(no_such_app)?;
                return self.save_holds().await;
            }
            Order::Restart { app: group, worker: None } => ParentCommand::RestartRolling { group },
            Order::Restart { app: group, worker: Some(slot) } => {
                ParentCommand::Restart { group, slot }
            }
            Order::Scale { app: group, processes } => ParentCommand::Scale { group, processes },
            Order::Signal { app, worker, signal } => {
                let generation = self.generation(&app, worker)?;
                if let Some(signal) = signal {
                    ParentCommand::Signal { generation, signal }
                } else {
                    self.groups.check_dump(&app)?;
                    ParentCommand::Dump { generation }
                }
            }
        };
        self.ask(command).await
    }

    async fn save_holds(&self) -> Result<(), AdminError> {
        let holds = self.holds.clone();
        let kept = tokio::task::spawn_blocking(move || holds.keep()).await;
        kept.map_err(std::io::Error::other).flatten().map_err(|error| {
            let path = self.holds.path().display();
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
        let mut there = states.filter(|it| it.group == app && it.slot == worker);
        there.next_back().map(|it| it.generation).ok_or_else(|| {
            let error = format!("{app} has no worker {worker} now");
            AdminError::new(
                StatusCode::NOT_FOUND,
                error,
                "list the workers with `weir workers list`",
            )
        })
    }

    async fn ask(&self, command: ParentCommand) -> Result<(), AdminError> {
        if self.reported().groups.is_empty() {
            let hint = "only workers with a command ([[front.apps]], [workers]) are Weir's own";
            return Err(AdminError::new(StatusCode::CONFLICT, "Weir runs no workers", hint));
        }
        self.orders.ask(command, ANSWER_TIMEOUT).await
    }
}

fn has_no_request() -> AdminError {
    let error = "its workers run jobs and have no requests";
    AdminError::new(StatusCode::CONFLICT, error, "pause a queue with `weir jobs pause QUEUE`")
}

fn sees_no_request() -> AdminError {
    let error = "its workers accept connections themselves, so Weir cannot delay their requests";
    AdminError::new(StatusCode::CONFLICT, error, "use mode = \"proxy\" for that")
}

fn no_such_app(error: NoSuchApp) -> AdminError {
    AdminError::new(StatusCode::NOT_FOUND, error.to_string(), "weir workers list shows all")
}
