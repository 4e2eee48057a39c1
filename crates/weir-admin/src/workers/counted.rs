//! Counts replacements and evictions of workers from the parent's reports. Reports describe state
//! and are repeated after a gap, so events are identified by generation.

use std::collections::BTreeMap;

use weir_supervisor::control::{WorkerPhase, WorkerReport};

/// Counters since this service process was started.
#[derive(Debug, Default)]
pub struct Counted {
    places: BTreeMap<(String, u32), Place>,
    evictions: BTreeMap<String, u64>,
    /// Generations without a request to end, and whether they were ready.
    unasked: BTreeMap<u64, bool>,
    deaths: BTreeMap<String, u64>,
}

/// The slot of a worker.
#[derive(Debug)]
struct Place {
    newest: u64,
    restarts: u64,
}

impl Counted {
    pub(super) fn note(&mut self, worker: &WorkerReport) {
        self.note_life(worker);
        let first = Place { newest: worker.generation, restarts: 0 };
        let place = self.places.entry((worker.group.clone(), worker.slot)).or_insert(first);
        if worker.generation > place.newest {
            place.newest = worker.generation;
            place.restarts += 1;
        }
    }

    /// Records a worker's phase. A worker that ends by itself, or is killed before it was ready,
    /// counts as a death. One that is killed while it serves counts as evicted, even if its
    /// successor has started. One that was asked to end and is killed at its deadline counts as
    /// neither.
    fn note_life(&mut self, worker: &WorkerReport) {
        let generation = worker.generation;
        match &worker.phase {
            WorkerPhase::Starting => {
                self.unasked.insert(generation, false);
            }
            WorkerPhase::Ready => {
                self.unasked.insert(generation, true);
            }
            WorkerPhase::Killed if self.unasked.get(&generation) == Some(&false) => {}
            WorkerPhase::Leaving | WorkerPhase::Draining => {
                self.unasked.remove(&generation);
            }
            WorkerPhase::Evicting | WorkerPhase::Killed => {
                if self.unasked.remove(&generation) == Some(true) {
                    *self.evictions.entry(worker.group.clone()).or_default() += 1;
                }
            }
            WorkerPhase::Ended { .. } => {
                if self.unasked.remove(&generation).is_some() {
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
        self.places.get(&(group.to_owned(), slot)).map_or(0, |place| place.restarts)
    }

    /// Returns the number of successors started in all slots of a group.
    pub fn all_restarts(&self, group: &str) -> u64 {
        let places = self.places.iter().filter(|((name, _), _)| name == group);
        places.map(|(_, place)| place.restarts).sum()
    }

    /// Returns the number of workers that were killed while they should serve.
    pub fn evictions(&self, group: &str) -> u64 {
        self.evictions.get(group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(reports: &[(u64, WorkerPhase)]) -> Counted {
        let mut counted = Counted::default();
        for (generation, phase) in reports {
            counted.note(&WorkerReport {
                group: "shop".to_owned(),
                slot: 0,
                generation: *generation,
                pid: 7,
                address: None,
                started_ms_ago: 0,
                phase: phase.clone(),
            });
        }
        counted
    }

    fn deaths(reports: &[(u64, WorkerPhase)]) -> u64 {
        noted(reports).deaths("shop")
    }

    #[test]
    fn who_ends_unasked_or_is_never_ready_has_died() {
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

    fn counted(reports: &[(u64, WorkerPhase)]) -> (u64, u64) {
        let counted = noted(reports);
        assert_eq!((counted.restarts("shop", 1), counted.evictions("cart")), (0, 0));
        assert_eq!(counted.all_restarts("shop"), counted.restarts("shop", 0));
        (counted.restarts("shop", 0), counted.evictions("shop"))
    }

    #[test]
    fn a_report_that_is_repeated_counts_once() {
        use WorkerPhase::{Evicting, Killed, Leaving, Ready, Starting};
        assert_eq!(counted(&[(1, Starting), (1, Ready), (1, Ready)]), (0, 0));
        assert_eq!(counted(&[(1, Ready), (2, Starting), (2, Starting), (1, Leaving)]), (1, 0));
        assert_eq!(counted(&[(1, Ready), (1, Evicting), (1, Evicting), (1, Killed)]), (0, 1));
        assert_eq!(counted(&[(1, Ready), (1, Killed), (2, Starting), (2, Ready)]), (1, 1));
    }

    #[test]
    fn one_that_is_evicted_while_its_successor_starts_counts() {
        use WorkerPhase::{Draining, Evicting, Killed, Ready, Starting};
        let both = [(1, Ready), (2, Starting)];
        assert_eq!(counted(&[&both[..], &[(1, Killed), (2, Ready)]].concat()), (1, 1));
        let slow = [(1, Evicting), (2, Ready), (1, Evicting), (1, Killed)];
        assert_eq!(counted(&[&both[..], &slow].concat()), (1, 1));
        assert_eq!(
            counted(&[&both[..], &[(2, Ready), (1, Draining), (1, Killed)]].concat()),
            (1, 0)
        );
    }

    #[test]
    fn one_that_is_killed_while_it_starts_or_ends_was_not_evicted() {
        use WorkerPhase::{Draining, Killed, Leaving, Starting};
        assert_eq!(counted(&[(1, Starting), (1, Killed)]), (0, 0));
        assert_eq!(
            counted(&[(1, WorkerPhase::Ready), (1, Leaving), (1, Draining), (1, Killed)]),
            (0, 0)
        );
    }
}
