//! The state of workers as reported by the parent.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_supervisor::control::{
    GroupState, ParentReport, Vacancy, VacantSlot, WorkerPhase, WorkerReport,
};

use super::worker_counters::WorkerCounters;

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
    pub counters: WorkerCounters,
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
    pub fn record(&mut self, report: &ParentReport, now: Timestamp) {
        match report {
            ParentReport::SnapshotBegins => {
                let Self { sizes, recycled, counters, old_processes, .. } = std::mem::take(self);
                *self = Self { sizes, recycled, counters, old_processes, ..Self::default() };
            }
            ParentReport::Totals(totals) => self.old_processes = totals.old_processes,
            ParentReport::Group(group) => {
                self.groups.insert(group.group.clone(), group.clone());
            }
            ParentReport::Slot(slot) => {
                let key = (slot.group.clone(), slot.slot);
                if slot.vacancy == Some(Vacancy::Removed) {
                    self.slots.remove(&key);
                } else {
                    self.slots.insert(key, slot.clone());
                }
            }
            ParentReport::Worker(worker) => {
                self.counters.record(worker);
                self.record_worker(worker, now);
            }
            _ => {}
        }
    }

    /// Returns the processes that have not ended.
    pub fn processes(&self) -> impl Iterator<Item = &WorkerReport> {
        self.workers.values().map(|process| &process.state)
    }

    fn record_worker(&mut self, worker: &WorkerReport, now: Timestamp) {
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
