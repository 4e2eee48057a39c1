//! Apps whose workers accept connections themselves: only what the workers report is known.

use std::fmt;
use std::net::SocketAddr;

use weir_base::clock::Timestamp;
use weir_front::view::jain_index;
use weir_supervisor::control::WorkerAddress;
use weir_supervisor::selection::busy::BusyState;

use super::reported::{Process, Reported};
use super::rows::{AppRow, SOCKETS, WorkerRow, format_rolling, process_row, vacancy_row};

/// The apps with shared sockets.
pub trait SharedApps: fmt::Debug + Send + Sync {
    /// Returns all apps by name.
    fn all(&self) -> Vec<(&str, &dyn SharedApp)>;
}

/// An app with shared sockets.
pub trait SharedApp: fmt::Debug {
    /// Returns the address of its workers.
    fn listen(&self) -> SocketAddr;
    /// Returns the selection: `join-idle`, or `kernel (join-idle was refused)`.
    fn selection(&self) -> String;
    /// Returns the number of connections that wait to be accepted.
    fn waiting(&self) -> usize;
    /// Returns the sockets of the worker in a slot, for people.
    fn addresses(&self, slot: usize) -> String;
    /// Returns the load that the worker with this record reports.
    fn state(&self, record: usize) -> BusyState;
    /// Returns the number of requests that it reports as finished.
    fn served(&self, record: usize) -> u64;
}

pub(super) fn row(name: &str, app: &dyn SharedApp, reported: &Reported, now: Timestamp) -> AppRow {
    let group = reported.groups.get(name);
    let processes = reported.workers.values().filter(|worker| worker.state.group == name);
    let vacant = reported.slots.values().filter(|slot| slot.group == name);
    let workers = processes.map(|worker| worker_row(app, worker, reported, now));
    let mut workers: Vec<WorkerRow> = workers.chain(vacant.filter_map(vacancy_row)).collect();
    workers.sort_by_key(|row| (row.worker, row.pid));
    for row in &mut workers {
        row.restarts = row.worker.map_or(0, |slot| reported.counters.restarts(name, slot));
    }
    let served = workers.iter().filter(|row| row.pid.is_some()).map(|row| row.given);
    AppRow {
        name: name.to_owned(),
        mode: SOCKETS.to_owned(),
        selection: Some(app.selection()),
        listen: Some(app.listen().to_string()),
        processes: group.map(|group| group.processes),
        requests_waiting: app.waiting(),
        is_paused: false,
        is_overloaded: false,
        is_in_maintenance: false,
        shedding: Vec::new(),
        shed_unknown: Vec::new(),
        jain_index: jain_index(served),
        rolling: group.and_then(|group| group.rolling.as_ref()).map(format_rolling),
        evictions: reported.counters.evictions(name),
        restarts: reported.counters.all_restarts(name),
        deaths: reported.counters.deaths(name),
        values: None,
        workers,
    }
}

fn worker_row(
    app: &dyn SharedApp,
    worker: &Process,
    reported: &Reported,
    now: Timestamp,
) -> WorkerRow {
    let row = process_row(worker, reported, now);
    let Some(WorkerAddress::Shared { record }) = worker.state.address else { return row };
    let slot = usize::try_from(worker.state.slot).unwrap_or(usize::MAX);
    let (requests, oldest) = match app.state(record) {
        BusyState::Busy(age) => (1, Some(age.as_secs_f64())),
        BusyState::Idle | BusyState::Claimed => (0, None),
    };
    WorkerRow {
        address: Some(app.addresses(slot)),
        requests,
        given: app.served(record),
        oldest_request_seconds: oldest,
        ..row
    }
}
