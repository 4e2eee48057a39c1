//! How often workers were replaced and evicted, counted from the parent's reports. These say how
//! things are, and all of it again after a gap, so what was counted is told by its generation.

use std::collections::BTreeMap;

use weir_supervisor::control::{WorkerPhase, WorkerState};

/// Since this service process was started.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    places: BTreeMap<(String, u32), Place>,
    evictions: BTreeMap<String, u64>,
}

/// A worker's place.
#[derive(Debug)]
struct Place {
    newest: u64,
    was_ready: bool,
    restarts: u64,
}

impl Counted {
    pub(super) fn note(&mut self, worker: &WorkerState) {
        let first = Place { newest: worker.generation, was_ready: false, restarts: 0 };
        let place = self.places.entry((worker.group.clone(), worker.slot)).or_insert(first);
        if worker.generation > place.newest {
            place.newest = worker.generation;
            place.was_ready = false;
            place.restarts += 1;
        }
        if worker.generation < place.newest {
            return;
        }
        // One that was asked to end and is killed for it takes too long was not stuck.
        let is_killed = matches!(worker.phase, WorkerPhase::Evicting | WorkerPhase::Killed);
        if place.was_ready && is_killed {
            *self.evictions.entry(worker.group.clone()).or_default() += 1;
        }
        place.was_ready = worker.phase == WorkerPhase::Ready;
    }

    /// Successors that were started in a worker's place.
    pub(crate) fn restarts(&self, group: &str, slot: u32) -> u64 {
        self.places.get(&(group.to_owned(), slot)).map_or(0, |place| place.restarts)
    }

    /// Successors that were started of all workers of a group.
    pub(crate) fn all_restarts(&self, group: &str) -> u64 {
        let places = self.places.iter().filter(|((name, _), _)| name == group);
        places.map(|(_, place)| place.restarts).sum()
    }

    /// Workers that were killed while they were to serve.
    pub(crate) fn evictions(&self, group: &str) -> u64 {
        self.evictions.get(group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(reports: &[(u64, WorkerPhase)]) -> (u64, u64) {
        let mut counted = Counted::default();
        for (generation, phase) in reports {
            counted.note(&WorkerState {
                group: "shop".to_owned(),
                slot: 0,
                generation: *generation,
                pid: 7,
                address: None,
                started_ms_ago: 0,
                phase: phase.clone(),
            });
        }
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
    fn one_that_is_killed_while_it_starts_or_ends_was_not_evicted() {
        use WorkerPhase::{Draining, Killed, Leaving, Starting};
        assert_eq!(counted(&[(1, Starting), (1, Killed)]), (0, 0));
        assert_eq!(
            counted(&[(1, WorkerPhase::Ready), (1, Leaving), (1, Draining), (1, Killed)]),
            (0, 0)
        );
    }
}
