//! The state of workers as reported by the parent.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_supervisor::control::{
    GroupState, ParentReport, Vacancy, VacantSlot, WorkerPhase, WorkerReport,
};

use super::counted::Counted;

/// The reported state.
#[derive(Debug, Default)]
pub struct Reported {
    pub groups: BTreeMap<String, GroupState>,
    pub slots: BTreeMap<(String, u32), VacantSlot>,
    pub(super) workers: BTreeMap<u64, Process>,
    /// The last measured memory sizes in bytes, by generation.
    pub sizes: BTreeMap<u64, u64>,
    /// Workers that are being replaced because they exceed a limit, with that limit.
    pub recycled: BTreeMap<u64, String>,
    pub counted: Counted,
    /// Service processes that were replaced and still have connections.
    pub old_processes: u32,
}

/// A process and its start time.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) state: WorkerReport,
    pub(super) started: Timestamp,
}

impl Reported {
    /// Applies a report.
    pub fn note(&mut self, report: &ParentReport, now: Timestamp) {
        match report {
            ParentReport::SnapshotBegins => {
                let Self { sizes, recycled, counted, old_processes, .. } = std::mem::take(self);
                *self = Self { sizes, recycled, counted, old_processes, ..Self::default() };
            }
            ParentReport::Totals(totals) => self.old_processes = totals.old_processes,
            ParentReport::Group(group) => {
                self.groups.insert(group.group.clone(), group.clone());
            }
            ParentReport::Slot(slot) => {
                let place = (slot.group.clone(), slot.slot);
                if slot.vacancy == Some(Vacancy::Removed) {
                    self.slots.remove(&place);
                } else {
                    self.slots.insert(place, slot.clone());
                }
            }
            ParentReport::Worker(worker) => {
                self.counted.note(worker);
                self.note_worker(worker, now);
            }
            _ => {}
        }
    }

    fn note_worker(&mut self, worker: &WorkerReport, now: Timestamp) {
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
