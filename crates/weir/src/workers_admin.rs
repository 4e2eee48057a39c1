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
mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use weir_base::admin_api::{Input, Problem};
use weir_base::clock::{Clock, Timestamp};
use weir_front::view::{AppView, TotalsView, WorkerState as Serving, WorkerView};
use weir_front::{Apps, NoSuchApp};
use weir_supervisor::control::{
    Address, Command, GroupState, Report, RollingState, SlotState, Vacancy, WorkerPhase,
    WorkerState,
};

use self::counted::Counted;
use crate::config::Settings;
use crate::holds::Holds;
use crate::sockets::SocketApps;

/// How long the parent may take to say whether it follows an order.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What the routes stand on.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) clock: Clock,
    pub(crate) apps: Arc<Apps>,
    /// Those whose workers take connections themselves.
    pub(crate) sockets: Arc<SocketApps>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) holds: Holds,
    /// What the parent has reported.
    pub(crate) reported: Arc<Mutex<Reported>>,
    pub(crate) orders: Orders,
}

/// What the settings say of those whom the parent runs.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The names of those that work off jobs.
    of_jobs: BTreeSet<String>,
    /// Those with a signal at which they say what they are doing.
    with_dump: BTreeSet<String>,
}

impl Groups {
    pub(crate) fn of(settings: &Settings) -> Self {
        let apps = settings.front.apps.iter().filter_map(|app| {
            let launch = &app.processes.as_ref()?.launch;
            launch.dump_signal.is_some().then(|| app.settings.name.clone())
        });
        let of_jobs = settings.workers.iter();
        let of_jobs = of_jobs.filter(|(_, own)| own.launch.dump_signal.is_some());
        let of_jobs = of_jobs.map(|(name, _)| name.clone());
        Self {
            of_jobs: settings.workers.keys().cloned().collect(),
            with_dump: apps.chain(of_jobs).collect(),
        }
    }

    fn check_dump(&self, group: &str) -> Result<(), Problem> {
        if self.with_dump.contains(group) {
            return Ok(());
        }
        let error = format!("{group} has no dump_signal");
        let hint = "set it, or name a signal; most servers die of one that they don't know";
        Err(Problem::new(StatusCode::CONFLICT, error, hint))
    }
}

/// The way to the parent. None: there is none (a test).
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders(pub(crate) Option<mpsc::Sender<Asked>>);

/// A command for the parent, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

/// What the parent has reported.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) groups: BTreeMap<String, GroupState>,
    pub(crate) slots: BTreeMap<(String, u32), SlotState>,
    workers: BTreeMap<u64, Process>,
    /// Bytes of their memory when it was measured last.
    pub(crate) sizes: BTreeMap<u64, u64>,
    /// Those that are replaced because they have passed a limit, and which.
    pub(crate) recycled: BTreeMap<u64, String>,
    pub(crate) counted: Counted,
}

/// A process, and when it was started.
#[derive(Debug)]
struct Process {
    state: WorkerState,
    started: Timestamp,
}

impl Reported {
    /// How things are, as far as the parent has said, just now.
    pub(crate) fn note(&mut self, report: &Report, now: Timestamp) {
        match report {
            Report::SnapshotBegins => {
                let Self { sizes, recycled, counted, .. } = std::mem::take(self);
                *self = Self { sizes, recycled, counted, ..Self::default() };
            }
            Report::Group(group) => {
                self.groups.insert(group.group.clone(), group.clone());
            }
            Report::Slot(slot) => {
                let place = (slot.group.clone(), slot.slot);
                if slot.vacancy == Some(Vacancy::Removed) {
                    self.slots.remove(&place);
                } else {
                    self.slots.insert(place, slot.clone());
                }
            }
            Report::Worker(worker) => {
                self.counted.note(worker);
                self.note_worker(worker, now);
            }
            _ => {}
        }
    }

    fn note_worker(&mut self, worker: &WorkerState, now: Timestamp) {
        match worker.phase {
            WorkerPhase::Ended { .. } => {
                self.workers.remove(&worker.generation);
                self.recycled.remove(&worker.generation);
            }
            _ => {
                let started = now - Duration::from_millis(worker.started_ms_ago);
                let state = worker.clone();
                self.workers.insert(worker.generation, Process { state, started });
            }
        }
    }
}

/// How requests get to an app's workers.
const PROXY: &str = "proxy";
pub(crate) const SOCKETS: &str = "sockets";
/// Not at all.
pub(crate) const JOBS: &str = "jobs";

/// An app, or a group of workers of jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AppRow {
    pub(crate) name: String,
    /// `proxy`, `sockets` or, of workers that are none of an app, `jobs`.
    pub(crate) mode: String,
    /// With sockets: which of them a connection gets to.
    pub(crate) selection: Option<String>,
    /// With sockets: where the workers listen.
    pub(crate) listen: Option<String>,
    /// How many workers Weir is to run; None: something else runs them.
    pub(crate) processes: Option<u32>,
    pub(crate) requests_waiting: usize,
    pub(crate) is_paused: bool,
    pub(crate) is_overloaded: bool,
    pub(crate) is_in_maintenance: bool,
    /// The queues of jobs for whose sake some requests are refused.
    pub(crate) shedding: Vec<String>,
    /// How even the workers' counts are: 1 is even. No aim by itself.
    pub(crate) jain_index: Option<f64>,
    /// Of the present or the latest rolling restart: `running (1 done)`, `finished`, `failed: ..`.
    pub(crate) rolling: Option<String>,
    /// Workers that were killed for they were stuck, since this service process was started.
    #[serde(default)]
    pub(crate) evictions: u64,
    /// Successors in all workers' places, likewise.
    #[serde(default)]
    pub(crate) restarts: u64,
    /// Workers that ended unasked, or were never ready, likewise.
    #[serde(default)]
    pub(crate) deaths: u64,
    pub(crate) workers: Vec<WorkerRow>,
}

/// A worker, or the place of one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkerRow {
    /// Its place among the workers of its app; None: something else runs it.
    pub(crate) worker: Option<u32>,
    pub(crate) pid: Option<i32>,
    pub(crate) address: Option<String>,
    /// `starting`, `serving` (of jobs: `running`), `unreachable`, `stuck`, `draining`, `evicting`, `waiting`, `stopped`, `failed`
    pub(crate) state: String,
    /// Since its process was started.
    pub(crate) age_seconds: Option<f64>,
    pub(crate) requests: u32,
    pub(crate) streams: u32,
    /// Requests and streams that it was given.
    pub(crate) given: u64,
    /// How long these have waited for it, in all. None: it takes connections itself, so nobody knows.
    pub(crate) waited_seconds: Option<f64>,
    pub(crate) oldest_request_seconds: Option<f64>,
    /// Proportional set size, with the processes that it has started; None: not measured yet, or not to
    /// be known.
    pub(crate) pss_bytes: Option<u64>,
    /// Which limit it has passed, if it is replaced for that.
    pub(crate) recycled: Option<String>,
    /// Successors in its place since this service process was started.
    #[serde(default)]
    pub(crate) restarts: u64,
    /// Why there is no worker, with its last lines of output.
    pub(crate) problem: Option<String>,
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Order {
    /// One worker, or all of them one after the other: a successor is started, and the old one ends
    /// once that is ready.
    Restart {
        app: String,
        worker: Option<u32>,
    },
    Scale {
        app: String,
        processes: u32,
    },
    /// A signal to one worker; None: its dump_signal.
    Signal {
        app: String,
        worker: u32,
        #[serde(default)]
        signal: Option<String>,
    },
    /// Requests wait.
    Pause {
        app: String,
    },
    Resume {
        app: String,
    },
    /// Everybody is shown the maintenance page, or no more.
    Maintenance {
        app: String,
        is_on: bool,
    },
}

impl Order {
    fn app(&self) -> &str {
        match self {
            Self::Restart { app, .. }
            | Self::Scale { app, .. }
            | Self::Signal { app, .. }
            | Self::Pause { app }
            | Self::Resume { app }
            | Self::Maintenance { app, .. } => app,
        }
    }
}

/// The routes.
pub(crate) fn router(front: Front) -> Router {
    Router::new().route("/workers", get(list).post(follow)).with_state(front)
}

async fn list(State(front): State<Front>) -> Json<Vec<AppRow>> {
    Json(front.rows().into_iter().map(|(row, _)| row).collect())
}

async fn follow(
    State(front): State<Front>,
    Input(order): Input<Order>,
) -> Result<Json<BTreeMap<String, String>>, Problem> {
    front.follow(order).await?;
    Ok(Json(BTreeMap::new()))
}

impl Front {
    /// All apps, each with what was counted of it, and groups of workers of jobs.
    pub(crate) fn rows(&self) -> Vec<(AppRow, TotalsView)> {
        let (views, now) = (self.apps.view(), self.clock.now());
        let reported = self.reported();
        let row = |mut view: AppView| {
            let totals = std::mem::take(&mut view.totals);
            (app_row(view, &reported, now), totals)
        };
        let shared = self.sockets.iter();
        let shared = shared.map(|(name, app)| shared::row(name, app, &reported, now));
        // Of these nothing is counted: Weir sees none of their requests.
        let shared = shared.map(|row| (row, TotalsView::default()));
        let of_jobs = self.groups.of_jobs.iter();
        let of_jobs = of_jobs.filter_map(|name| of_jobs::row(name, &reported, now));
        let of_jobs = of_jobs.map(|row| (row, TotalsView::default()));
        views.into_iter().map(row).chain(shared).chain(of_jobs).collect()
    }

    /// Whether there is such a signal.
    pub(crate) fn can_dump(&self, group: &str) -> bool {
        self.groups.with_dump.contains(group)
    }

    pub(crate) async fn follow(&self, order: Order) -> Result<(), Problem> {
        let is_proxied = self.apps.view().iter().any(|app| app.name == order.app());
        let is_of_jobs = self.groups.of_jobs.contains(order.app());
        if !is_proxied && !is_of_jobs && self.sockets.get(order.app()).is_none() {
            return Err(no_such_app(NoSuchApp(order.app().to_owned())));
        }
        tracing::info!(?order, "an order for workers");
        let command = match order {
            Order::Pause { .. } | Order::Resume { .. } | Order::Maintenance { .. }
                if !is_proxied =>
            {
                return Err(if is_of_jobs { has_no_request() } else { sees_no_request() });
            }
            Order::Pause { app } => {
                self.apps.pause(&app).map_err(no_such_app)?;
                return self.keep_holds().await;
            }
            Order::Resume { app } => {
                self.apps.resume(&app).map_err(no_such_app)?;
                return self.keep_holds().await;
            }
            Order::Maintenance { app, is_on } => {
                self.apps.set_maintenance(&app, is_on).map_err(no_such_app)?;
                return self.keep_holds().await;
            }
            Order::Restart { app: group, worker: None } => Command::RestartRolling { group },
            Order::Restart { app: group, worker: Some(slot) } => Command::Restart { group, slot },
            Order::Scale { app: group, processes } => Command::Scale { group, processes },
            Order::Signal { app, worker, signal } => {
                let generation = self.generation(&app, worker)?;
                if let Some(signal) = signal {
                    Command::Signal { generation, signal }
                } else {
                    self.groups.check_dump(&app)?;
                    Command::Dump { generation }
                }
            }
        };
        self.ask(command).await
    }

    async fn keep_holds(&self) -> Result<(), Problem> {
        let holds = self.holds.clone();
        let kept = tokio::task::spawn_blocking(move || holds.keep()).await;
        kept.map_err(std::io::Error::other).flatten().map_err(|error| {
            let path = self.holds.path().display();
            let error = format!(
                "it is done, but a restart will undo it: {path} can't be written ({error})"
            );
            let hint = "make it writable and do it again";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error, hint)
        })
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest process in a worker's place.
    fn generation(&self, app: &str, worker: u32) -> Result<u64, Problem> {
        let reported = self.reported();
        let states = reported.workers.values().map(|process| &process.state);
        let mut there = states.filter(|it| it.group == app && it.slot == worker);
        there.next_back().map(|it| it.generation).ok_or_else(|| {
            let error = format!("{app} has no worker {worker} now");
            Problem::new(StatusCode::NOT_FOUND, error, "weir workers list shows who is there")
        })
    }

    async fn ask(&self, command: Command) -> Result<(), Problem> {
        if self.reported().groups.is_empty() {
            let hint = "only workers with a command ([[front.apps]], [workers]) are Weir's own";
            return Err(Problem::new(StatusCode::CONFLICT, "Weir runs no workers", hint));
        }
        self.orders.ask(command, ANSWER_TIMEOUT).await
    }
}

impl Orders {
    /// Tells the parent to do something; it has `patience` to say whether it does.
    pub(crate) async fn ask(&self, command: Command, patience: Duration) -> Result<(), Problem> {
        let unavailable = |error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error, "");
        let Some(orders) = &self.0 else { return Err(unavailable("no parent process is there")) };
        let (answer, answered) = oneshot::channel();
        let asked = orders.try_send(Asked { command, answer });
        asked.map_err(|_| unavailable("too many orders wait"))?;
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(reason))) => Err(Problem::new(StatusCode::CONFLICT, reason, "")),
            Ok(Err(_)) | Err(_) => {
                let error = "the parent process has not answered";
                Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, error, "see the log"))
            }
        }
    }
}

fn has_no_request() -> Problem {
    let error = "its workers have no requests, but jobs";
    Problem::new(StatusCode::CONFLICT, error, "weir jobs pause QUEUE lets jobs of a queue wait")
}

fn sees_no_request() -> Problem {
    let error = "its workers take connections themselves: Weir sees none of their requests";
    Problem::new(StatusCode::CONFLICT, error, "use mode = \"proxy\" for that")
}

fn no_such_app(error: NoSuchApp) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, error.to_string(), "weir workers list shows all")
}

fn app_row(view: AppView, reported: &Reported, now: Timestamp) -> AppRow {
    let jain_index = view.jain_index();
    let evictions = reported.counted.evictions(&view.name);
    let group = reported.groups.get(&view.name);
    let mut workers: Vec<WorkerRow> = match group {
        Some(_) => own_workers(&view, reported, now),
        None => view.workers.iter().map(|load| loaded(WorkerRow::default(), load)).collect(),
    };
    workers.sort_by_key(|row| (row.worker, row.pid));
    for row in &mut workers {
        row.restarts = row.worker.map_or(0, |slot| reported.counted.restarts(&view.name, slot));
    }
    AppRow {
        processes: group.map(|group| group.processes),
        rolling: group.and_then(|group| group.rolling.as_ref()).map(rolling),
        requests_waiting: view.requests_waiting,
        is_paused: view.is_paused,
        is_overloaded: view.is_overloaded,
        is_in_maintenance: view.is_in_maintenance,
        shedding: view.shedding,
        jain_index,
        evictions,
        restarts: reported.counted.all_restarts(&view.name),
        deaths: reported.counted.deaths(&view.name),
        name: view.name,
        mode: PROXY.to_owned(),
        selection: None,
        listen: None,
        workers,
    }
}

/// Processes, and places without one.
fn own_workers(view: &AppView, reported: &Reported, now: Timestamp) -> Vec<WorkerRow> {
    let processes = reported.workers.values().filter(|worker| worker.state.group == view.name);
    let processes = processes.map(|worker| {
        let row = process_row(worker, reported, now);
        let is_its = |load: &&WorkerView| Some(&load.address) == row.address.as_ref();
        let loads: Vec<&WorkerView> = view.workers.iter().filter(is_its).collect();
        WorkerRow {
            state: own_state(&row.state, &loads),
            // Of one that was away for a moment, what it has left of then counts apart.
            ..loads.into_iter().fold(row.clone(), loaded)
        }
    });
    let vacant = reported.slots.values().filter(|slot| slot.group == view.name);
    processes.chain(vacant.filter_map(vacancy_row)).collect()
}

fn process_row(
    Process { state: worker, started }: &Process,
    reported: &Reported,
    now: Timestamp,
) -> WorkerRow {
    let state = match &worker.phase {
        WorkerPhase::Starting => "starting",
        WorkerPhase::Ready => "serving",
        WorkerPhase::Leaving | WorkerPhase::Draining => "draining",
        WorkerPhase::Evicting | WorkerPhase::Killed => "evicting",
        WorkerPhase::Ended { .. } => "ended",
    };
    let address = worker.address.as_ref().map(|address| match address {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Port(port) => format!("127.0.0.1:{port}"),
        Address::Shared { record } => format!("record {record}"),
    });
    WorkerRow {
        worker: Some(worker.slot),
        pid: Some(worker.pid),
        address,
        state: state.to_owned(),
        age_seconds: Some(now.since(*started).as_secs_f64()),
        pss_bytes: reported.sizes.get(&worker.generation).copied(),
        recycled: reported.recycled.get(&worker.generation).cloned(),
        ..WorkerRow::default()
    }
}

/// None: a worker is there.
fn vacancy_row(slot: &SlotState) -> Option<WorkerRow> {
    let (state, problem) = match slot.vacancy.as_ref()? {
        Vacancy::Stopped => ("stopped", None),
        Vacancy::Waiting { reason, .. } => ("waiting", reason.clone()),
        Vacancy::Failed { reason, .. } => ("failed", Some(reason.clone())),
        Vacancy::Removed => return None,
    };
    let (worker, state) = (Some(slot.slot), state.to_owned());
    Some(WorkerRow { worker, state, problem, ..WorkerRow::default() })
}

/// A process that serves may get nothing all the same: it can't be reached, or a request of it is too
/// old.
fn own_state(state: &str, loads: &[&WorkerView]) -> String {
    let current = loads.iter().find(|load| load.state != Serving::Draining);
    match (state, current) {
        ("serving", Some(current)) => serving(current.state),
        ("serving", None) if !loads.is_empty() => "draining",
        _ => state,
    }
    .to_owned()
}

const fn serving(state: Serving) -> &'static str {
    match state {
        Serving::Serving => "serving",
        Serving::HeldBack => "stuck",
        Serving::Unreachable => "unreachable",
        Serving::Draining => "draining",
    }
}

fn loaded(row: WorkerRow, load: &WorkerView) -> WorkerRow {
    let state = if row.state.is_empty() { serving(load.state).to_owned() } else { row.state };
    let oldest = load.oldest_request.map(|oldest| oldest.as_secs_f64());
    WorkerRow {
        address: Some(load.address.clone()),
        state,
        requests: row.requests + load.requests,
        streams: row.streams + load.streams,
        given: row.given + load.given,
        waited_seconds: Some(row.waited_seconds.unwrap_or(0.0) + load.waited.as_secs_f64()),
        oldest_request_seconds: oldest
            .map(|oldest| row.oldest_request_seconds.map_or(oldest, |it| it.max(oldest)))
            .or(row.oldest_request_seconds),
        ..row
    }
}

fn rolling(rolling: &RollingState) -> String {
    match rolling {
        RollingState::Running { done } => format!("running ({done} done)"),
        RollingState::Finished => "finished".to_owned(),
        RollingState::Failed { reason } => format!("failed: {reason}"),
    }
}
