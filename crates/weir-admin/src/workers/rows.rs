//! The state of workers for operators: processes as reported by the parent, and requests as counted
//! by the front.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;
use weir_front::view::{AppView, UpstreamWorkerState as Serving, WorkerView};
use weir_supervisor::control::{RollingState, Vacancy, VacantSlot, WorkerAddress, WorkerPhase};

use weir_supervisor::workers::JobGroupState;

use super::reported::{Process, Reported};

/// How requests reach an app's workers.
const PROXY: &str = "proxy";
pub const SOCKETS: &str = "sockets";
/// Not at all.
pub const JOBS: &str = "jobs";

/// An app, or a group of job workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AppRow {
    pub name: String,
    /// `proxy`, `sockets` or, for job workers, `jobs`.
    pub mode: String,
    /// With sockets: the selection among them.
    pub selection: Option<String>,
    /// With sockets: the address of the workers.
    pub listen: Option<String>,
    /// The configured number of workers; None: something else runs them.
    pub processes: Option<u32>,
    pub requests_waiting: usize,
    pub is_paused: bool,
    pub is_overloaded: bool,
    pub is_in_maintenance: bool,
    /// Job queues whose latency causes requests to be shed.
    pub shedding: Vec<String>,
    /// Job queues whose latency is not known, so that no requests are shed because of them.
    #[serde(default)]
    pub shed_unknown: Vec<String>,
    /// Jain's fairness index of the workers' request counts; 1 is even. Not a goal by itself.
    pub jain_index: Option<f64>,
    /// The current or latest rolling restart: `running (1 done)`, `finished`, `failed: ..`.
    pub rolling: Option<String>,
    /// Stuck workers that were killed since this service process was started.
    #[serde(default)]
    pub evictions: u64,
    /// Successors in all slots since then.
    #[serde(default)]
    pub restarts: u64,
    /// Workers that ended unrequested or were never ready, since then.
    #[serde(default)]
    pub deaths: u64,
    /// Of job workers: processes, threads and queues of the settings and in force, and the override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<JobGroupState>,
    pub workers: Vec<WorkerRow>,
}

/// A worker, or a slot without one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct WorkerRow {
    /// Its slot; None: something else runs it.
    pub worker: Option<u32>,
    pub pid: Option<i32>,
    pub address: Option<String>,
    /// `starting`, `serving_state` (of jobs: `running`), `unreachable`, `stuck`, `draining`, `evicting`,
    /// `waiting`, `stopped`, `failed`
    pub state: String,
    /// Since the start of its process.
    pub age_seconds: Option<f64>,
    pub requests: u32,
    pub streams: u32,
    /// Requests and streams that it was given.
    pub given: u64,
    /// The total time that these waited. None: unknown, since it accepts connections itself.
    pub waited_seconds: Option<f64>,
    pub oldest_request_seconds: Option<f64>,
    /// Proportional set size including descendants; None: not measured yet, or unavailable.
    pub pss_bytes: Option<u64>,
    /// The exceeded limit, if it is being replaced for that.
    pub recycled: Option<String>,
    /// Successors in its slot since this service process was started.
    #[serde(default)]
    pub restarts: u64,
    /// Why there is no worker, with its last lines of output.
    pub problem: Option<String>,
    /// Why its latest successor did not start, with output; this worker is still running.
    #[serde(default)]
    pub replacement_failed: Option<String>,
}

/// Returns the row of an app. Workers that Weir does not run (`upstreams`) are those of the front.
pub(super) fn app_row(
    view: AppView,
    is_run_by_weir: bool,
    reported: &Reported,
    now: Timestamp,
) -> AppRow {
    let jain_index = view.jain_index();
    let evictions = reported.counters.evictions(&view.name);
    let group = reported.groups.get(&view.name).filter(|_| is_run_by_weir);
    let mut workers: Vec<WorkerRow> = match group {
        Some(_) => process_rows(&view, reported, now),
        None => view.workers.iter().map(|load| add_load(WorkerRow::default(), load)).collect(),
    };
    workers.sort_by_key(|row| (row.worker, row.pid));
    for row in &mut workers {
        row.restarts = row.worker.map_or(0, |slot| reported.counters.restarts(&view.name, slot));
    }
    AppRow {
        processes: group.map(|group| group.processes),
        rolling: group.and_then(|group| group.rolling.as_ref()).map(format_rolling),
        requests_waiting: view.requests_waiting,
        is_paused: view.is_paused,
        is_overloaded: view.is_overloaded,
        is_in_maintenance: view.is_in_maintenance,
        shedding: view.shedding,
        shed_unknown: view.shed_unknown,
        jain_index,
        evictions,
        restarts: reported.counters.all_restarts(&view.name),
        deaths: reported.counters.deaths(&view.name),
        name: view.name,
        mode: PROXY.to_owned(),
        selection: None,
        listen: None,
        values: None,
        workers,
    }
}

/// Returns the rows of processes, and of slots without one.
fn process_rows(view: &AppView, reported: &Reported, now: Timestamp) -> Vec<WorkerRow> {
    let processes = reported.workers.values().filter(|worker| worker.state.group == view.name);
    let processes = processes.map(|worker| {
        let row = process_row(worker, reported, now);
        let belongs_to_row = |load: &&WorkerView| Some(&load.address) == row.address.as_ref();
        let loads: Vec<&WorkerView> = view.workers.iter().filter(belongs_to_row).collect();
        WorkerRow {
            state: process_state(&row.state, &loads),
            // A worker that was removed and added again has separate entries.
            ..loads.into_iter().fold(row.clone(), add_load)
        }
    });
    let vacant = reported.slots.values().filter(|slot| slot.group == view.name);
    processes.chain(vacant.filter_map(vacancy_row)).collect()
}

pub(super) fn process_row(
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
        WorkerAddress::Unix(path) => format!("unix:{}", path.display()),
        WorkerAddress::Port(port) => format!("127.0.0.1:{port}"),
        WorkerAddress::Shared { record } => format!("record {record}"),
    });
    WorkerRow {
        worker: Some(worker.slot),
        pid: Some(worker.pid),
        address,
        state: state.to_owned(),
        age_seconds: Some(now.since(*started).as_secs_f64()),
        pss_bytes: reported.sizes.get(&worker.generation).copied(),
        recycled: reported.recycled.get(&worker.generation).cloned(),
        replacement_failed: reported
            .slots
            .get(&(worker.group.clone(), worker.slot))
            .and_then(|slot| slot.replacement_failed.clone()),
        ..WorkerRow::default()
    }
}

/// Returns the row of an empty slot. None: it has a worker.
pub(super) fn vacancy_row(slot: &VacantSlot) -> Option<WorkerRow> {
    let (state, problem) = match slot.vacancy.as_ref()? {
        Vacancy::Stopped => ("stopped", None),
        Vacancy::Waiting { reason, .. } => ("waiting", reason.clone()),
        Vacancy::Failed { reason, .. } => ("failed", Some(reason.clone())),
        Vacancy::Removed => return None,
    };
    let (worker, state) = (Some(slot.slot), state.to_owned());
    Some(WorkerRow { worker, state, problem, ..WorkerRow::default() })
}

/// Returns the state of a process. A serving one can still be unreachable or stuck.
fn process_state(state: &str, loads: &[&WorkerView]) -> String {
    let current = loads.iter().find(|load| load.state != Serving::Draining);
    match (state, current) {
        ("serving", Some(current)) => serving_state(current.state),
        ("serving", None) if !loads.is_empty() => "draining",
        _ => state,
    }
    .to_owned()
}

fn add_load(row: WorkerRow, load: &WorkerView) -> WorkerRow {
    let state = if row.state.is_empty() { serving_state(load.state).to_owned() } else { row.state };
    let oldest = load.oldest_request.map(|oldest| oldest.as_secs_f64());
    WorkerRow {
        address: Some(load.address.clone()),
        state,
        requests: row.requests + load.requests,
        streams: row.streams + load.streams,
        given: row.given + load.assigned,
        waited_seconds: Some(row.waited_seconds.unwrap_or(0.0) + load.waited.as_secs_f64()),
        oldest_request_seconds: oldest
            .map(|oldest| row.oldest_request_seconds.map_or(oldest, |it| it.max(oldest)))
            .or(row.oldest_request_seconds),
        ..row
    }
}

pub(super) fn format_rolling(rolling: &RollingState) -> String {
    match rolling {
        RollingState::Running { done } => format!("running ({done} done)"),
        RollingState::Finished => "finished".to_owned(),
        RollingState::Failed { reason } => format!("failed: {reason}"),
    }
}

const fn serving_state(state: Serving) -> &'static str {
    match state {
        Serving::Serving => "serving",
        Serving::HeldBack => "stuck",
        Serving::Unreachable => "unreachable",
        Serving::Draining => "draining",
    }
}
