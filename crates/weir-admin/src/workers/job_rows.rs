//! Rows of job workers; their jobs are known only to the job server.

use weir_base::clock::Timestamp;

use super::reported::Reported;
use super::rows::{AppRow, JOBS, WorkerRow, format_rolling, process_row, vacancy_row};

/// Returns the row of a group. None: it is not run here, or it would serve a limited class, and none is limited.
pub(super) fn row(name: &str, reported: &Reported, now: Timestamp) -> Option<AppRow> {
    let group = reported.groups.get(name)?;
    let is_for_limit = group.jobs.as_deref().is_some_and(|jobs| jobs.limited_of.is_some());
    let processes = reported.workers.values().filter(|worker| worker.state.group == name);
    let vacant = reported.slots.values().filter(|slot| slot.group == name);
    let workers = processes.map(|worker| process_row(worker, reported, now));
    let mut workers: Vec<WorkerRow> = workers.chain(vacant.filter_map(vacancy_row)).collect();
    if is_for_limit && workers.is_empty() && group.processes == 0 {
        return None;
    }
    workers.sort_by_key(|row| (row.worker, row.pid));
    for row in &mut workers {
        row.restarts = row.worker.map_or(0, |slot| reported.counters.restarts(name, slot));
        if row.state == "serving" {
            "running".clone_into(&mut row.state);
        }
    }
    Some(AppRow {
        name: name.to_owned(),
        mode: JOBS.to_owned(),
        processes: Some(group.processes),
        rolling: group.rolling.as_ref().map(format_rolling),
        evictions: reported.counters.evictions(name),
        restarts: reported.counters.all_restarts(name),
        deaths: reported.counters.deaths(name),
        values: group.jobs.as_deref().cloned(),
        workers,
        ..AppRow::default()
    })
}
