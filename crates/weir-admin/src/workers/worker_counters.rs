//! Counts replacements and evictions of workers from the parent's reports. Reports describe state
//! and are repeated after a gap, so events are identified by generation.

use std::collections::BTreeMap;

use weir_supervisor::control::{WorkerPhase, WorkerReport};

/// Counters since this service process was started.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    slots: BTreeMap<(String, u32), Slot>,
    evictions: BTreeMap<String, u64>,
    /// Generations without a request to end, and whether they were ready.
    running: BTreeMap<u64, bool>,
    deaths: BTreeMap<String, u64>,
}

/// The slot of a worker.
#[derive(Debug)]
struct Slot {
    newest: u64,
    restarts: u64,
}

impl WorkerCounters {
    pub(super) fn record(&mut self, worker: &WorkerReport) {
        self.record_phase(worker);
        let first = Slot { newest: worker.generation, restarts: 0 };
        let slot = self.slots.entry((worker.group.clone(), worker.slot)).or_insert(first);
        if worker.generation > slot.newest {
            slot.newest = worker.generation;
            slot.restarts += 1;
        }
    }

    /// Records a worker's phase. A worker that ends by itself, or is killed before it was ready,
    /// counts as a death. One that is killed while it serves counts as evicted, even if its
    /// successor has started. One that was asked to end and is killed at its deadline counts as
    /// neither.
    fn record_phase(&mut self, worker: &WorkerReport) {
        let generation = worker.generation;
        match &worker.phase {
            WorkerPhase::Starting => {
                self.running.insert(generation, false);
            }
            WorkerPhase::Ready => {
                self.running.insert(generation, true);
            }
            WorkerPhase::Killed if self.running.get(&generation) == Some(&false) => {}
            WorkerPhase::Leaving | WorkerPhase::Draining => {
                self.running.remove(&generation);
            }
            WorkerPhase::Evicting | WorkerPhase::Killed => {
                if self.running.remove(&generation) == Some(true) {
                    *self.evictions.entry(worker.group.clone()).or_default() += 1;
                }
            }
            WorkerPhase::Ended { .. } => {
                if self.running.remove(&generation).is_some() {
                    *self.deaths.entry(worker.group.clone()).or_default() += 1;
                }
            }
        }
    }

    /// Returns the number of workers that ended unrequested or never became ready.
    pub fn deaths(&self, group: &str) -> u64 {
        self.deaths.get(group).copied().unwrap_or(0)
    }

    /// Returns the number of successors started in a worker's slot.
    pub fn restarts(&self, group: &str, slot: u32) -> u64 {
        self.slots.get(&(group.to_owned(), slot)).map_or(0, |slot| slot.restarts)
    }

    /// Returns the number of successors started in all slots of a group.
    pub fn all_restarts(&self, group: &str) -> u64 {
        let slots = self.slots.iter().filter(|((name, _), _)| name == group);
        slots.map(|(_, slot)| slot.restarts).sum()
    }

    /// Returns the number of workers that were killed while they should serve.
    pub fn evictions(&self, group: &str) -> u64 {
        self.evictions.get(group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(reports: &[(u64, WorkerPhase)]) -> WorkerCounters {
        let mut counters = WorkerCounters::default();
        for (generation, phase) in reports {
            counters.record(&WorkerReport {
                group: "shop".to_owned(),
                slot: 0,
                generation: *generation,
                pid: 7,
                address: None,
                started_ms_ago: 0,
                phase: phase.clone(),
            });
        }
        counters
    }

    fn deaths(reports: &[(u64, WorkerPhase)]) -> u64 {
        noted(reports).deaths("shop")
    }

    #[test]
    fn unrequested_ends_and_failed_starts_count_as_deaths() {
        use WorkerPhase::{Draining, Evicting, Killed, Leaving, Ready, Starting};
        let ended =
            || WorkerPhase::Ended { status: String::new(), reason: None, last_lines: Vec::new() };
        assert_eq!(deaths(&[(1, Starting), (1, ended()), (1, ended())]), 1);
        assert_eq!(deaths(&[(1, Starting), (1, Ready), (1, ended()), (2, Starting)]), 1);
        assert_eq!(deaths(&[(1, Starting), (1, Killed), (1, ended())]), 1);
        assert_eq!(deaths(&[(1, Ready), (2, Starting), (2, ended()), (1, Ready)]), 1);
        for asked in [Leaving, Draining, Evicting, Killed] {
            assert_eq!(deaths(&[(1, Ready), (1, asked), (1, Killed), (1, ended())]), 0);
        }
    }

    fn counters(reports: &[(u64, WorkerPhase)]) -> (u64, u64) {
        let counters = noted(reports);
        assert_eq!((counters.restarts("shop", 1), counters.evictions("cart")), (0, 0));
        assert_eq!(counters.all_restarts("shop"), counters.restarts("shop", 0));
        (counters.restarts("shop", 0), counters.evictions("shop"))
    }

    #[test]
    fn repeated_reports_count_once() {
        use WorkerPhase::{Evicting, Killed, Leaving, Ready, Starting};
        assert_eq!(counters(&[(1, Starting), (1, Ready), (1, Ready)]), (0, 0));
        assert_eq!(counters(&[(1, Ready), (2, Starting), (2, Starting), (1, Leaving)]), (1, 0));
        assert_eq!(counters(&[(1, Ready), (1, Evicting), (1, Evicting), (1, Killed)]), (0, 1));
        assert_eq!(counters(&[(1, Ready), (1, Killed), (2, Starting), (2, Ready)]), (1, 1));
    }

    #[test]
    fn eviction_counts_while_a_successor_starts() {
        use WorkerPhase::{Draining, Evicting, Killed, Ready, Starting};
        let both = [(1, Ready), (2, Starting)];
        assert_eq!(counters(&[&both[..], &[(1, Killed), (2, Ready)]].concat()), (1, 1));
        let slow = [(1, Evicting), (2, Ready), (1, Evicting), (1, Killed)];
        assert_eq!(counters(&[&both[..], &slow].concat()), (1, 1));
        assert_eq!(
            counters(&[&both[..], &[(2, Ready), (1, Draining), (1, Killed)]].concat()),
            (1, 0)
        );
    }

    #[test]
    fn workers_killed_during_start_or_end_are_not_evictions() {
        use WorkerPhase::{Draining, Killed, Leaving, Starting};
        assert_eq!(counters(&[(1, Starting), (1, Killed)]), (0, 0));
        assert_eq!(
            counters(&[(1, WorkerPhase::Ready), (1, Leaving), (1, Draining), (1, Killed)]),
            (0, 0)
        );
    }
}
